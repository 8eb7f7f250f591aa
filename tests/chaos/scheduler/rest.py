"""Waiting until a cluster with batch schedulers has come to rest after a fault, and saying what is wrong then."""

from http.client import HTTPException
from typing import Any
from urllib.error import URLError

from tests.chaos.rest import Judge
from tests.chaos.scheduler.arena import Yard
from tests.chaos.scheduler.history import beneficiaries, job_of
from tests.chaos.scheduler.jobs import GROUPS, Jobs
from tests.e2e.checker import findings, half_bound, startable
from tests.waiting import PATIENCE
from tonnage.lab.api import ApiError

EVENTS = "/api/v1/namespaces/default/events"


class Rest(Judge):
    """Judges one yard, again and again."""

    patience = PATIENCE
    """A gang must not be half-bound for longer, and nobody who could start waits for longer."""

    def __init__(self, arena: Yard, traffic: Jobs) -> None:
        super().__init__()
        self._arena = arena
        self._traffic = traffic

    def _unrest(self) -> list[str]:
        try:
            return [*self._arena.tend(), *self._traffic.tend(), *self._objects(), *self._told()]
        except (URLError, OSError, HTTPException, ApiError) as error:
            return [f"somebody does not answer: {error}"]

    def _objects(self) -> list[str]:
        """What the API server's objects say."""
        api = self._arena.api
        nodes, pods, groups = (api.get(path)["items"] for path in ("/api/v1/nodes", "/api/v1/pods", GROUPS))
        unrest = [f"{_name(pod)} is on its way out" for pod in pods if "deletionTimestamp" in pod["metadata"]]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        unrest += [f"{_name(pod)} does not run" for pod in bound if pod["status"]["phase"] != "Running"]
        unrest += [f"{_name(pod)} waits and does not say why" for pod in waiting if not _says_why(pod)]
        unrest += [f"{_name(pod)} is bound and says why it waits" for pod in bound if _says_why(pod)]
        nominated = [pod for pod in waiting if pod["status"].get("nominatedNodeName")]
        unrest += [f"{_name(pod)} waits for a place on {pod['status']['nominatedNodeName']}" for pod in nominated]
        return [*unrest, *half_bound(pods, groups), *startable(nodes, pods, groups)]

    def _told(self) -> list[str]:
        """What the schedulers say about themselves."""
        api, unrest = self._arena.api, []
        nodes, pods = api.get("/api/v1/nodes")["items"], api.get("/api/v1/pods")["items"]
        bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
        expected = {"bound": bound, "waiting": len(pods) - bound, "reserved": 0}
        for said in self._arena.figures():
            shown = {state: said["tonnage_pods", state] for state in expected}
            if shown != expected:
                unrest.append(f"a scheduler's picture has pods {shown} where there are {expected}")
            if said["tonnage_nodes", ""] != len(nodes):
                unrest.append(f"a scheduler's picture has {said['tonnage_nodes', '']:.0f} nodes of {len(nodes)}")
            kept = {name: said[name, ""] for name in ("tonnage_pods_nominated", "tonnage_binds_in_flight")}
            unrest += [f"{name} is {count:.0f}" for name, count in kept.items() if count]
        return unrest

    def _wrong(self) -> list[str]:
        return [*findings(self._arena.api), *self._arena.history.take_wrong(), *self._in_vain()]

    def _in_vain(self) -> list[str]:
        """Who was evicted for a job that is there and has not run since, or for nobody."""
        api, history = self._arena.api, self._arena.history
        told = beneficiaries(api.get(EVENTS)["items"])
        waiting = {job_of(pod): pod for pod in api.get("/api/v1/pods")["items"] if not pod["spec"].get("nodeName")}
        wrong: list[str] = []
        for gone in history.take_gone():
            if gone.uid in told:
                job = told[gone.uid]
            elif len(gone.nominated) == 1:
                (job,) = gone.nominated
            else:
                # Its Event is lost, and it may be for any of them.
                continue
            if job in waiting and not history.was_served(waiting[job], gone):
                wrong.append(f"{gone.name} was evicted for {job}, which waits")
        return wrong


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _says_why(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

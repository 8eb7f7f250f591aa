"""Waiting until a cluster has come to rest after a fault, and saying what is wrong then."""

import time
from http.client import HTTPException
from urllib.error import URLError

from tests.chaos.arena import Stage
from tests.chaos.traffic import Traffic
from tests.e2e.checker import findings, overlooked
from tests.e2e.extending import SCHEDULER
from tests.waiting import PATIENCE
from tonnage.lab.api import ApiError


class Judge:
    """Judges one arena, again and again."""

    patience = PATIENCE

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """How long each rest took to come."""

    def wait(self) -> list[str]:
        """What is wrong once nothing changes any more; what does not come to rest is wrong too."""
        started = time.monotonic()
        lost = self._settle()
        while unrest := self._unrest():
            if time.monotonic() - started > self.patience:
                restless = [f"no rest after {self.patience:.0f} s: {one}" for one in unrest]
                return [*lost, *self._wrong(), *restless]
            time.sleep(0.1)
        self.seconds.append(time.monotonic() - started)
        return [*lost, *self._wrong()]

    def _settle(self) -> list[str]:
        """Pods that are missing or should not be there."""
        return []

    def _unrest(self) -> list[str]:
        """Why the cluster is not at rest."""
        raise NotImplementedError

    def _wrong(self) -> list[str]:
        """What must never be."""
        raise NotImplementedError


class Rest(Judge):
    """Of extenders."""

    def __init__(self, arena: Stage, traffic: Traffic) -> None:
        super().__init__()
        self._arena = arena
        self._traffic = traffic

    def _settle(self) -> list[str]:
        return self._traffic.settle()

    def _wrong(self) -> list[str]:
        return findings(self._arena.api)

    def _unrest(self) -> list[str]:
        unrest = self._arena.tend()
        pods = self._arena.api.get("/api/v1/pods")["items"]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        unrest += [f"{pod['metadata']['name']} does not run" for pod in bound if pod["status"]["phase"] != "Running"]
        unrest += overlooked(self._arena.api, SCHEDULER)
        nodes = len(self._arena.api.get("/api/v1/nodes")["items"])
        try:
            told = self._arena.figures()
        except (URLError, OSError, HTTPException, ApiError) as error:
            return [*unrest, f"an extender does not tell its figures: {error}"]
        expected = {"bound": len(bound), "waiting": len(pods) - len(bound), "reserved": 0}
        for said in told:
            kept = {state: said["tonnage_reservations", state] for state in ("held", "binding", "bound")}
            if any(kept.values()):
                unrest.append(f"places are kept: {kept}")
            shown = {state: said["tonnage_pods", state] for state in expected}
            if shown != expected:
                unrest.append(f"an extender's picture has pods {shown} where there are {expected}")
            if said["tonnage_nodes", ""] != nodes:
                unrest.append(f"an extender's picture has {said['tonnage_nodes', '']:.0f} nodes of {nodes}")
        return unrest

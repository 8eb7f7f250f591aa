"""What became of pods, change by change, as the API server tells it: what must not be even for a moment.

No pod changes its node, no card or node has more on it than it has, and who is evicted makes room for somebody.
"""

import re
import time
from typing import Any, NamedTuple

from tests.e2e.checker import overfull
from tonnage.lab.apiwatch import ApiWatch
from tonnage.lab.control_plane import ControlPlane

QUEUE = "queue"
"""A label of all pods that are judged."""
EVICTED = "EvictionByEvictionAPI"
_BY = re.compile(r"Preempted by default/([\w-]+) on node")
_OWN_SAKE = ("Evicted", "DeviceOverlap")
"""Reasons of Events about pods that were stopped, but for nobody else."""


JUST = 5.0
"""Seconds before an eviction in which it may have been decided."""


class Gone(NamedTuple):
    """A pod that was evicted, and whom its node was being made free for then."""

    name: str
    uid: str
    job: str
    nominated: frozenset[str]
    """Jobs with pods that named a node as the one that is made free for them."""
    at: float


def job_of(pod: dict[str, Any]) -> str:
    name: str = pod["metadata"].get("annotations", {}).get("pod-group-name", pod["metadata"]["name"])
    return name


class History:
    """Is told of every change of a pod."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._there: dict[str, dict[str, Any]] = {}
        self._came: dict[str, float] = {}
        """When each pod was first seen, by UID."""
        self._bound: dict[str, tuple[float, dict[str, Any]]] = {}
        """Pods that have had a node, by UID, with the time."""
        self._going: set[str] = set()
        self._gone: list[Gone] = []
        self._wrong: list[str] = []
        self.evicted = 0

    def take_wrong(self) -> list[str]:
        """What was wrong since somebody asked."""
        wrong, self._wrong = self._wrong, []
        return wrong

    def take_gone(self) -> list[Gone]:
        """Who was evicted since somebody asked."""
        gone, self._gone = self._gone, []
        return gone

    def was_served(self, waiting: dict[str, Any], gone: Gone) -> bool:
        """Whether a pod of a job was bound after somebody was evicted, or a more important one that had just come."""
        since = [(uid, pod) for uid, (at, pod) in list(self._bound.items()) if at >= gone.at]
        return any(
            job_of(pod) == job_of(waiting) or (self._came[uid] > gone.at - JUST and _comes_before(pod, waiting))
            for uid, pod in since
        )

    def begin(self) -> None:
        """All pods that are there will be told again; what was deleted meanwhile was not told."""
        self._there = {}

    def look(self, pod: dict[str, Any], is_gone: bool) -> None:
        uid, name, node = pod["metadata"]["uid"], pod["metadata"]["name"], pod["spec"].get("nodeName")
        self._came.setdefault(uid, time.monotonic())
        if is_gone:
            self._there.pop(uid, None)
        else:
            self._there[uid] = pod
        if node and uid not in self._bound:
            self._bound[uid] = time.monotonic(), pod
            beside = [one for one in self._there.values() if one["spec"].get("nodeName") == node]
            if node in self._nodes:
                self._wrong += [f"once {name} was bound: {one}" for one in overfull([self._nodes[node]], beside)]
        elif node and (before := self._bound[uid][1]["spec"]["nodeName"]) != node:
            self._wrong.append(f"{name} was bound to {before} and then to {node}")
        if "deletionTimestamp" in pod["metadata"] and uid not in self._going:
            self._going.add(uid)
            reasons = [one.get("reason") for one in pod["status"].get("conditions", ())]
            if node and EVICTED in reasons:
                self.evicted += 1
                self._gone.append(Gone(name, uid, job_of(pod), self._nominated(), time.monotonic()))

    def _nominated(self) -> frozenset[str]:
        return frozenset(
            job_of(pod)
            for pod in self._there.values()
            if pod["status"].get("nominatedNodeName") and not pod["spec"].get("nodeName")
        )


def _comes_before(pod: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a pod is more important than another one of the same queue."""
    same = pod["metadata"]["labels"][QUEUE] == other["metadata"]["labels"][QUEUE]
    return same and bool(pod["spec"]["priority"] > other["spec"]["priority"])


def beneficiaries(events: list[dict[str, Any]]) -> dict[str, str]:
    """For whom pods were evicted by what Events say, by UID; an empty text if it was for their own gang's sake."""
    found: dict[str, str] = {}
    for event in events:
        uid, said = event["involvedObject"].get("uid", ""), _BY.search(event.get("message", ""))
        if said:
            found[uid] = said[1]
        elif event.get("reason") in _OWN_SAKE:
            found.setdefault(uid, "")
    return found


def follow(plane: ControlPlane, history: History) -> ApiWatch:
    """A watch that tells a history what happens, until it is stopped."""

    def look(event: dict[str, Any]) -> None:
        if event["object"].get("kind") == "Pod":
            history.look(event["object"], event["type"] == "DELETED")

    watch = ApiWatch(plane, "/api/v1/pods", look, begun=history.begin)
    watch.start()
    return watch

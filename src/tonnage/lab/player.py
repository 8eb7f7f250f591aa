"""Plays kubelets and HAMi's device plugins: takes the pods that are bound, hands out their cards, and lets them run.

Each node admits its pods one after another, in the order in which the API server shows them; their containers start
later, while the next one is admitted. A real plugin is told no pod's name; it takes the pod that the node's lock names,
or else the first pending one that has devices. The player guesses in the same way and remembers when the guess is not
the pod it is about.

Containers end as `tonnage.lab.podstatus` says; a pod that is deleted takes its grace period.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from typing import Any

from tonnage.lab.api import STRATEGIC, Api, ApiError, pods_path
from tonnage.lab.apiwatch import ApiAccess, ApiWatch
from tonnage.lab.podstatus import RUNNING, PodEnd, end_of, ended_status, running_status
from tonnage.lab.timers import Timers

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
ALLOCATED = "-devices-allocated"
TO_ALLOCATE = "-devices-to-allocate"
_NOT_FOUND, _CONFLICT = 404, 409


class Player:
    """Answers for every node."""

    def __init__(
        self,
        access: ApiAccess,
        delay: float = 0.0,
        quick: bool = False,
        longest_grace: float | None = None,
        ends: Callable[[dict[str, Any]], PodEnd | None] = end_of,
        starting: float = 0.0,
        real_nodes: Collection[str] = (),
    ) -> None:
        self._api = Api(access.server, access.token, str(access.authority))
        self._delay = delay
        self._quick = quick
        """Whether to answer with a single write and to look at nothing else, so that it costs no time."""
        self._longest_grace = longest_grace
        """How many seconds of its grace period a deleted pod takes at most; all of them if it is not given."""
        self._ends = ends
        self._starting = starting
        """Seconds from a pod's admission until its containers run."""
        self._real_nodes = real_nodes
        """Nodes with a kubelet of their own."""
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self._timers = Timers()
        self._seen: set[str] = set()
        self._ending: set[str] = set()
        self._admissions: dict[str, deque[dict[str, Any]]] = {}
        """Per node the pods that it has yet to admit; the first of them is being admitted."""
        self._guard = threading.Lock()
        self.mixed_up: list[str] = []
        self.started: list[str] = []
        self.bound_at: list[float] = []
        """When each pod was first seen with a node."""
        self._watch = ApiWatch(access, "/api/v1/pods", self._look)
        self._watch.start()

    def stop(self) -> None:
        """Leave the pods as they are."""
        self._stopped.set()
        self._timers.stop()
        self._watch.stop()
        self._pool.shutdown(cancel_futures=True)
        self._api.close()

    def _look(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        if pod.get("spec", {}).get("nodeName") in self._real_nodes:
            return
        self._end(pod, event["type"])
        if event["type"] == "DELETED" or pod.get("kind") != "Pod" or "nodeName" not in pod["spec"]:
            return
        if pod["status"].get("phase") != "Pending" or pod["metadata"]["uid"] in self._seen:
            return
        self._seen.add(pod["metadata"]["uid"])
        self.bound_at.append(time.monotonic())
        node = pod["spec"]["nodeName"]
        with self._guard:
            waiting = self._admissions.setdefault(node, deque())
            waiting.append(pod)
            is_idle = len(waiting) == 1
        if is_idle:
            self._pool.submit(self._admit, waiting)

    def _end(self, pod: dict[str, Any], event: str) -> None:
        """A pod that is asked to go takes all the time that it has for that."""
        meta = pod.get("metadata", {})
        if event == "DELETED" or "deletionTimestamp" not in meta or meta["uid"] in self._ending:
            return
        self._ending.add(meta["uid"])
        grace = meta["deletionGracePeriodSeconds"]
        if self._longest_grace is not None:
            grace = min(grace, self._longest_grace)
        self._timers.after(grace, partial(self._submit, self._delete, pod))

    def _delete(self, pod: dict[str, Any]) -> None:
        """The pod is gone; a server that closes the connection meanwhile is asked again."""
        self._insist(lambda: self._api.delete(_path(pod)))

    def _admit(self, waiting: deque[dict[str, Any]]) -> None:
        """Admit the pods of one node, one after another."""
        is_busy = True
        while is_busy and not self._stopped.is_set():
            pod = waiting[0]
            if self._allocate(pod) and not self._stopped.is_set():
                self._timers.after(self._starting, partial(self._submit, self._start, pod))
            with self._guard:
                waiting.popleft()
                is_busy = bool(waiting)

    def _allocate(self, pod: dict[str, Any]) -> bool:
        """What a plugin does when the kubelet asks it for the pod's devices; false if the pod or its node is gone."""
        name, node, uid = pod["metadata"]["name"], pod["spec"]["nodeName"], pod["metadata"]["uid"]
        annotations = pod["metadata"].get("annotations", {})
        if self._delay and self._stopped.wait(self._delay):
            return False
        if self._quick or annotations.get(PHASE) != "allocating":
            return True
        emptied = {key: ";" for key in annotations if key.endswith(TO_ALLOCATE)}
        answer = {"metadata": {"uid": uid, "annotations": {**emptied, PHASE: "success"}}}
        guesses: list[str] = []
        if not self._insist(lambda: guesses.append(self._guess(node))):
            return False
        if not self._insist(lambda: self._api.patch(_path(pod), answer)):
            # Of a pod that is gone by now there is nothing to say.
            return False
        if not guesses[-1].startswith(f"{name} "):
            self.mixed_up.append(f"{name} on {node} is taken for {guesses[-1]}")
        return self._insist(lambda: self._release(node, name))

    def _submit(self, step: Callable[[dict[str, Any]], None], pod: dict[str, Any]) -> None:
        """Do something that may take a while, beside the timers."""
        with suppress(RuntimeError):
            # Refused once the player is stopped.
            self._pool.submit(step, pod)

    def _start(self, pod: dict[str, Any]) -> None:
        """Its containers run, until they end by themselves."""
        started: dict[str, Any] = {"metadata": {"uid": pod["metadata"]["uid"]}}
        if self._quick:
            started["status"] = {"phase": RUNNING}
            if PHASE in pod["metadata"].get("annotations", {}):
                started["metadata"]["annotations"] = {PHASE: "success"}
        else:
            started["status"] = running_status(pod)
        if not self._insist(lambda: self._api.patch(f"{_path(pod)}/status", started, STRATEGIC)):
            return
        self.started.append(pod["metadata"]["name"])
        end = self._ends(pod)
        if end is not None:
            self._timers.after(end.seconds, lambda: self._finish(pod, end))

    def _finish(self, pod: dict[str, Any], end: PodEnd) -> None:
        """Its containers have ended."""
        ended = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": ended_status(pod, end)}
        self._insist(lambda: self._api.patch(f"{_path(pod)}/status", ended, STRATEGIC))

    def _insist(self, step: Callable[[], object]) -> bool:
        """Do one step, again and again if the API server is away; false if what it is about is gone."""
        while not self._stopped.is_set():
            try:
                step()
                return True
            except (ApiError, OSError, HTTPException) as error:
                if isinstance(error, ApiError) and error.status in (_NOT_FOUND, _CONFLICT):
                    return False
                self._stopped.wait(0.1)
        return False

    def _guess(self, node: str) -> str:
        """The pod that a plugin takes it for, and how it came to that."""
        lock = self._api.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(LOCK, "")
        if lock.count(",") == 2:
            return f"{lock.split(',')[2]} by the node's lock"
        pods = self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node},status.phase=Pending")["items"]
        fitting = [p for p in pods if p["metadata"].get("annotations", {}).get(PHASE) in ("allocating", "success")]
        return f"{fitting[0]['metadata']['name'] if fitting else 'none'} by the list of {len(fitting)} pods"

    def _release(self, node: str, name: str) -> None:
        """Take the pod's lock off its node, unless somebody has written to the node meanwhile."""
        while True:
            metadata = self._api.get(f"/api/v1/nodes/{node}")["metadata"]
            if not metadata.get("annotations", {}).get(LOCK, "").endswith(f",{name}"):
                return
            body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": {LOCK: None}}}
            try:
                self._api.patch(f"/api/v1/nodes/{node}", body)
                return
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise


def _path(pod: dict[str, Any]) -> str:
    return f"{pods_path(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


@contextmanager
def playing(
    access: ApiAccess,
    delay: float = 0.0,
    quick: bool = False,
    longest_grace: float | None = None,
    real_nodes: Collection[str] = (),
) -> Iterator[Player]:
    """A player, stopped in the end."""
    player = Player(access, delay, quick, longest_grace, real_nodes=real_nodes)
    try:
        yield player
    finally:
        player.stop()

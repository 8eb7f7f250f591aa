"""Plays kubelets and HAMi's device plugins: takes the pods that are bound, hands out their cards, and lets them run.

A real plugin is told no pod's name; it takes the pod that the node's lock names, or else the first pending one that is
being handed its devices. The player guesses in the same way and remembers when the guess is not the pod it is about.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
ALLOCATED = "-devices-allocated"
TO_ALLOCATE = "-devices-to-allocate"
_NOT_FOUND, _CONFLICT = 404, 409


class Server(NamedTuple):
    """How to reach an API server."""

    server: str
    token: str
    authority: str


class Player:
    """Answers for every node."""

    def __init__(self, plane: ControlPlane | Server, delay: float = 0.0, quick: bool = False) -> None:
        self._plane = plane
        self._api = Api(plane.server, plane.token, str(plane.authority))
        self._delay = delay
        self._quick = quick
        """Whether to answer with a single write and to look at nothing else, so that it costs no time."""
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self._seen: set[str] = set()
        self._ending: set[str] = set()
        self._nodes: dict[str, threading.Lock] = {}
        self.mixed_up: list[str] = []
        self.started: list[str] = []
        self.bound_at: list[float] = []
        """When each pod was first seen with a node."""
        self._connection: HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # Closing it would not wake the thread that reads from it.
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._pool.shutdown(cancel_futures=True)
        self._api.close()

    def _watch(self) -> None:
        place = urlsplit(self._plane.server)
        tls = ssl.create_default_context(cafile=str(self._plane.authority))
        while not self._stopped.is_set():
            self._connection = HTTPSConnection(place.hostname or "", place.port, timeout=600, context=tls)
            try:
                headers = {"Authorization": f"Bearer {self._plane.token}"}
                self._connection.request("GET", "/api/v1/pods?watch=1", headers=headers)
                response = self._connection.getresponse()
                while line := response.readline():
                    self._look(json.loads(line))
            except Exception:
                # A connection that is shut under a reader fails in many ways.
                self._stopped.wait(0.05)
            finally:
                self._connection.close()

    def _look(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        self._end(pod, event["type"])
        if event["type"] == "DELETED" or pod.get("kind") != "Pod" or "nodeName" not in pod["spec"]:
            return
        if pod["status"].get("phase") != "Pending" or pod["metadata"]["uid"] in self._seen:
            return
        self._seen.add(pod["metadata"]["uid"])
        self.bound_at.append(time.monotonic())
        self._pool.submit(self._admit, pod)

    def _end(self, pod: dict[str, Any], event: str) -> None:
        """A pod that is asked to go takes all the time that it has for that."""
        meta = pod.get("metadata", {})
        if event == "DELETED" or "deletionTimestamp" not in meta or meta["uid"] in self._ending:
            return
        self._ending.add(meta["uid"])
        path = f"{pods_path(meta['namespace'])}/{meta['name']}"
        timer = threading.Timer(meta["deletionGracePeriodSeconds"], self._delete, (path,))
        timer.daemon = True
        timer.start()

    def _delete(self, path: str) -> None:
        with suppress(ApiError, OSError, HTTPException):
            if not self._stopped.is_set():
                self._api.delete(path)

    def _admit(self, pod: dict[str, Any]) -> None:
        """One admission at a time on each node, as in a kubelet; tried until it works, or pod or node are gone."""
        with self._nodes.setdefault(pod["spec"]["nodeName"], threading.Lock()):
            while not self._stopped.is_set():
                try:
                    self._serve(pod)
                    return
                except (ApiError, OSError, HTTPException) as error:
                    if isinstance(error, ApiError) and error.status in (_NOT_FOUND, _CONFLICT):
                        return
                    self._stopped.wait(0.1)

    def _serve(self, pod: dict[str, Any]) -> None:
        if self._delay and self._stopped.wait(self._delay):
            return
        name, node, uid = pod["metadata"]["name"], pod["spec"]["nodeName"], pod["metadata"]["uid"]
        path = f"{pods_path(pod['metadata']['namespace'])}/{name}"
        annotations = pod["metadata"].get("annotations", {})
        if self._quick:
            answer = {"annotations": {PHASE: "success"} if PHASE in annotations else {}}
            self._api.patch(f"{path}/status", {"metadata": answer, "status": {"phase": "Running"}})
            self.started.append(name)
            return
        if annotations.get(PHASE) == "allocating":
            guess = self._guess(node)
            emptied = {key: ";" for key in annotations if key.endswith(TO_ALLOCATE)}
            self._api.patch(path, {"metadata": {"uid": uid, "annotations": {**emptied, PHASE: "success"}}})
            # Of a pod that is gone by now there is nothing to say.
            if guess != name:
                self.mixed_up.append(f"{name} on {node} is taken for {guess}")
            self._release(node, name)
        self._api.patch(f"{path}/status", {"metadata": {"uid": uid}, "status": {"phase": "Running"}})
        self.started.append(name)

    def _guess(self, node: str) -> str | None:
        lock = self._api.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(LOCK, "")
        if lock.count(",") == 2:
            return str(lock.split(",")[2])
        pods = self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node},status.phase=Pending")["items"]
        fitting = [p for p in pods if p["metadata"].get("annotations", {}).get(PHASE) in ("allocating", "success")]
        return fitting[0]["metadata"]["name"] if fitting else None

    def _release(self, node: str, name: str) -> None:
        lock = self._api.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(LOCK, "")
        if lock.endswith(f",{name}"):
            self._api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {LOCK: None}}})


@contextmanager
def playing(plane: ControlPlane, delay: float = 0.0, quick: bool = False) -> Iterator[Player]:
    player = Player(plane, delay, quick)
    try:
        yield player
    finally:
        player.stop()

"""An API server in memory that lists, watches and binds, and the whole extender on it, asked as by kube-scheduler."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tonnage.cluster.memo import Memo
from tonnage.devices.catalog import default_vendors
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.extender.service import ExtenderService
from tonnage.kube.errors import StatusError
from tonnage.kube.watch import Backoff
from tonnage.lab.api import node_manifest, pod_manifest
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.observability.events import EventRecorder
from tonnage.plugins.defaults import default_plugins

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
LOOPBACK = ("127.0.0.1", 1)


class Memory:
    """Takes the place of a client; every change is told to those who watch."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, dict[str, Any]]] = {NODES: {}, PODS: {}}
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {NODES: [], PODS: []}
        self._version = 0
        self.writes = 0
        self.observer = None

    # -- what a client does

    async def get(self, path: str, query: Any = None, timeout: float = 0.0, accept: str = "") -> bytes:
        if path in self._objects:
            metadata = {"resourceVersion": str(self._version)}
            return json.dumps({"metadata": metadata, "items": list(self._objects[path].values())}).encode()
        return json.dumps(self._found(path) if "/pods/" in path else {"metadata": {"resourceVersion": "1"}}).encode()

    async def request(
        self, method: str, path: str, *, query: Any = None, body: Any = None, type_: str = "", timeout: float = 0.0
    ) -> bytes:
        await asyncio.sleep(0)
        self.writes += 1
        if path.endswith("/binding"):
            pod = self._found(path.removesuffix("/binding"))
            pod["spec"]["nodeName"] = body["target"]["name"]
            pod["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
            self._tell(PODS, "MODIFIED", pod)
        elif method == "PATCH" and "/events/" not in path:
            self.change(path, body)
        return b"{}"

    @asynccontextmanager
    async def stream(self, path: str, query: Any, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.setdefault(path, []).append(queue)

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield lines()

    # -- what others do

    def put(self, thing: Node | Pod) -> None:
        path = NODES if isinstance(thing, Node) else PODS
        manifest = node_manifest(thing) if isinstance(thing, Node) else pod_manifest(thing)
        manifest["metadata"]["uid"] = f"uid-{self._version}"
        manifest.setdefault("status", {}).setdefault("phase", "Pending")
        self._objects[path][thing.metadata.name] = manifest
        self._tell(path, "ADDED", manifest)

    def change(self, path: str, body: dict[str, Any]) -> None:
        found = self._found(path)
        _merge(found, body)
        self._tell(NODES if path.startswith(NODES) else PODS, "MODIFIED", found)

    def delete(self, name: str, path: str = PODS) -> None:
        self._tell(path, "DELETED", self._objects[path].pop(name))

    def pod(self, name: str) -> dict[str, Any]:
        return self._objects[PODS][name]

    def _found(self, path: str) -> dict[str, Any]:
        kind, name = NODES if path.startswith(NODES) else PODS, path.rpartition("/")[2]
        if name not in self._objects[kind]:
            raise StatusError(404, "NotFound", name)
        return self._objects[kind][name]

    def _tell(self, path: str, what: str, thing: dict[str, Any]) -> None:
        self._version += 1
        thing["metadata"]["resourceVersion"] = str(self._version)
        line = json.dumps({"type": what, "object": thing}).encode() + b"\n"
        for queue in self._watches[path]:
            queue.put_nowait(line)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        elif value is None:
            target.pop(name, None)
        else:
            target[name] = value


class Whole:
    """The extender as `tonnage extender` puts it together, without a network."""

    def __init__(self) -> None:
        self.api = Memory()
        metrics = ExtenderMetrics()
        self.events = EventRecorder(self.api, lambda: 0.0, count=metrics.event)  # type: ignore[arg-type]
        self.service = ExtenderService(
            self.api,  # type: ignore[arg-type]
            default_vendors(),
            default_plugins(),
            Backoff(draw=lambda: 0.5),
            ExtenderRecorder(metrics, self.events),
            lambda body: body,
        )
        metrics.app(self.service)
        self.parts = {"service": self.service, "events": self.events, "metrics": metrics}
        self._app = metrics.timings.timed(self.service.extender.app(self.service.health))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Whole"]:
        tasks = [asyncio.create_task(self.service.run()), asyncio.create_task(self.events.run())]
        try:
            await self.service.ready.wait()
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, path: str, document: object) -> Any:
        sent: list[dict[str, Any]] = []
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [], "client": LOOPBACK}
        body = json.dumps(document).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)  # type: ignore[arg-type]
        return json.loads(b"".join(part.get("body", b"") for part in sent[1:]))

    async def schedule(self, name: str, nodes: list[str]) -> str:
        """What kube-scheduler does with a pod; the node that it is bound to, empty if there is none."""
        pod = self.api.pod(name)
        found = (await self.ask("/filter", {"Pod": pod, "NodeNames": nodes}))["NodeNames"]
        if not found:
            return ""
        asked = {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": found[0]}
        return "" if (await self.ask("/bind", asked))["Error"] else str(found[0])


LOOKED_INTO = ("tonnage.", "prometheus_client")
"""Modules whose objects are looked into."""


def sizes(parts: dict[str, object], modules: tuple[str, ...] = LOOKED_INTO) -> dict[str, int]:
    """How much is in every container that the parts lead to; those in one container count together."""
    found: dict[str, int] = {}
    known: set[int] = set()
    waiting: list[tuple[str, object]] = list(parts.items())
    while waiting:
        path, thing = waiting.pop()
        if id(thing) in known:
            continue
        known.add(id(thing))
        if isinstance(thing, Memo):
            # Starts afresh when it is full.
            continue
        if isinstance(thing, dict | list | set | tuple | frozenset) or hasattr(thing, "popleft"):
            found[path] = found.get(path, 0) + len(thing)  # type: ignore[arg-type]
            waiting += ((f"{path}[]", below) for below in (thing.values() if isinstance(thing, dict) else thing))
        else:
            waiting += ((f"{path}.{name}", below) for name, below in _attributes(thing, modules))
    return found


def _attributes(thing: object, modules: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if not type(thing).__module__.startswith(modules):
        if hasattr(thing, "__self__"):
            yield "self", thing.__self__
        return
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)

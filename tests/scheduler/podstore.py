"""A scheduler with an API server in memory that has pods, and may carry out a write long after it gave up answering."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tonnage.actions.catalog import make_actions
from tonnage.devices.catalog import default_vendors
from tonnage.framework.plugin import Plugin
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.kinds import WatchedKind, batch_kinds
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff
from tonnage.model.pod import Pod, PodCondition
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler import service as module
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.service import SchedulerService

START = 1_800_000_000.0
Late = Callable[[str, Any], float]
"""For how many seconds a write is late: it gets no answer and comes true all the same."""


class PodStore:
    """The API server; `service` is told of every change as the watch tells it."""

    server = "memory"

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.events: list[dict[str, Any]] = []
        self.reasons: dict[str, list[str]] = {}
        """The reasons that were ever in a pod's condition."""
        self.late: Late = lambda path, body: 0.0
        self.service: SchedulerService
        self.kinds: dict[type[Any], WatchedKind]
        """The kinds that the service watches, by the type of their objects."""

    async def request(self, method: str, path: str, *, body: Any = None, **_more: Any) -> bytes:
        delay = self.late(path, body) if method != "GET" else 0.0
        if delay:
            asyncio.get_running_loop().call_later(delay, self._apply, path, body)
            raise ConnectionLostError("no answer")
        return self._apply(path, body)

    async def get(self, path: str, **more: Any) -> bytes:
        return await self.request("GET", path, **more)

    def _apply(self, path: str, body: Any) -> bytes:
        if path.endswith("/events"):
            self.events.append(body)
            return b"{}"
        key = "/".join(path.split("/")[4:7:2])
        if key not in self.pods:
            raise StatusError(404, "there is no such pod")
        pod = self.pods[key]
        if path.endswith("/binding"):
            if pod.node is not None:
                raise StatusError(409, "it is bound already")
            spec = msgspec.structs.replace(pod.spec, nodeName=body["target"]["name"])
            pod = msgspec.structs.replace(pod, spec=spec)
            self._show(_with_condition(pod, "True"))
        elif path.endswith("/status"):
            for condition in body["status"].get("conditions", ()):
                self.reasons.setdefault(key, []).append(condition["reason"])
                pod = _with_condition(pod, condition["status"])
            if "nominatedNodeName" in body["status"]:
                status = msgspec.structs.replace(pod.status, nominatedNodeName=body["status"]["nominatedNodeName"])
                pod = msgspec.structs.replace(pod, status=status)
            self._show(pod)
        return msgspec.json.encode(self.pods[key])

    def _show(self, thing: Any, is_gone: bool = False) -> None:
        kind = self.kinds[type(thing)]
        change = Change(kind.resource.key(thing.metadata), thing, is_gone=is_gone)
        if isinstance(thing, Pod):
            self.pods[change.key] = thing
            if is_gone:
                del self.pods[change.key]
        self.service.informer.take(kind, change)
        self.service.informer.tell(kind, (change,))

    def add(self, *things: Any) -> None:
        """Create objects, or change them."""
        for thing in things:
            self._show(thing)

    def remove(self, thing: Any) -> None:
        """Delete an object; a pod may be given by its key."""
        self._show(self.pods[thing] if isinstance(thing, str) else thing, is_gone=True)


def _with_condition(pod: Pod, status: str) -> Pod:
    conditions = [PodCondition("PodScheduled", status)]
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


@asynccontextmanager
async def scheduling(
    monkeypatch: pytest.MonkeyPatch,
    *things: Any,
    plugins: Sequence[Plugin] = (),
    actions: Sequence[str] = ("allocate", "preempt"),
    name: str = "default-scheduler",
    installed: Sequence[type[Any]] = (),
) -> AsyncIterator[tuple[PodStore, SchedulerService]]:
    """A scheduler of that name that leads, in virtual time, where definitions of these types are installed."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: START + loop.time(), monotonic=loop.time))
    store = PodStore()
    store.service = service = SchedulerService(
        store,  # type: ignore[arg-type]
        default_vendors(),
        [*default_plugins(), *plugins],
        make_actions(actions),
        Backoff(draw=lambda: 0.5),
        SchedulerMetrics(),
        name,
    )
    store.kinds = {kind.resource.type: kind for kind in batch_kinds(service._triggers.is_ours)}
    for reflector in service.informer.reflectors.values():
        reflector.lists = int(reflector.resource.type in installed)
    service._patience._clock = loop.time
    store.add(*things)
    service.informer.synced.set()
    service.leadership.leading.set()
    service._begin()
    parts = (service._decide, service.conditions.run, service.events.run, service.binds.run, service.evictions.run)
    tasks = [asyncio.create_task(part()) for part in parts]
    try:
        yield store, service
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""QueueStatuses: keeps the status of Queues up to date: what the pods of a queue and its children hold and request.

Pods are counted at most every 5 seconds, only after a change, and in slices between which other tasks run. The same
numbers are not written twice, so a controller that knows better has the last word.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import link_of, queue_named
from tonnage.cluster.jobs.queue import GPU, ROOT
from tonnage.cluster.task import Task
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import KAI_QUEUES, POD_GROUPS, QUEUES, VOLCANO_QUEUES, WatchedKind
from tonnage.kube.kinds import PODS as POD_KIND
from tonnage.kube.resource import Change, Resource
from tonnage.kube.supervision import failed
from tonnage.model.group import QueueObject
from tonnage.model.pod import Pod
from tonnage.model.quantity import format_binary, format_milli
from tonnage.model.resources import CPU, IN_BYTES
from tonnage.plugins.queues.queuecounts import QueueCounts
from tonnage.scheduler.status.writer import StatusWriter

log = logging.getLogger(__name__)

EVERY = 5.0
"""The shortest time between two counts, in seconds."""
SETTLING = 0.5
SLICE = 256
"""Pods that are counted in one go."""
KAI_GPU = "nvidia.com/gpu"
"""KAI's name for GPUs of every vendor."""

Amounts = Counter[str]
Fields = dict[str, dict[str, str]]


class QueueHolding(NamedTuple):
    """What the pods of a queue hold and request, by resource."""

    allocated: Amounts
    fixed: Amounts
    """The part of `allocated` that non-preemptible jobs hold."""
    requested: Amounts
    """What the pods hold, and what pending pods request."""


class QueueStatuses:
    """Writes statuses while `run` runs."""

    def __init__(self, client: Client, cluster: Cluster, led: asyncio.Event, every: float = EVERY) -> None:
        self._cluster = cluster
        self._led = led
        self._every = every
        self._writer = StatusWriter(client)
        self._objects: dict[str, dict[str, QueueObject]] = {kind.resource.path: {} for kind in QUEUES}
        self._written: dict[tuple[str, str, str | None], Fields] = {}
        """What was written last, by kind, name and UID."""
        self._known: dict[tuple[str, str], object] = {}
        """The relevant part of each object that the watch showed last, by kind and name."""
        self._changed = asyncio.Event()

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of objects that say who holds what in which queue."""
        informer.add_listener((POD_KIND, *POD_GROUPS, *QUEUES), self.seen)

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Take over what the API server shows, and note whether queues may hold something else now."""
        things = self._objects.get(kind.resource.path)
        for change in changes:
            key = kind.resource.path, change.key
            if change.is_gone:
                is_news = self._known.pop(key, None) is not None
                if things is not None:
                    things.pop(change.key, None)
            elif change.object is not None:
                counts = _relevant(change.object)
                is_news = self._known.get(key) != counts
                self._known[key] = counts
                if things is not None:
                    things[change.key] = change.object
            else:
                continue
            if is_news:
                self._changed.set()

    def forget_written(self) -> None:
        """Forget what was written last: another replica writes from now on, or did until now."""
        self._written.clear()
        self._changed.set()

    async def run(self) -> None:
        """Count and write fields that differ while this process leads, until cancelled."""
        while True:
            await self._changed.wait()
            await self._led.wait()
            await asyncio.sleep(SETTLING)
            self._changed.clear()
            if any(self._objects.values()):
                try:
                    await self._bring_up_to_date()
                except Exception as error:
                    # A bug here must not end the scheduler.
                    failed("queue status", error)
            await asyncio.sleep(self._every - SETTLING)

    async def _bring_up_to_date(self) -> None:
        for kind, fields_of in ((VOLCANO_QUEUES, self._volcano), (KAI_QUEUES, self._kai)):
            things = self._objects[kind.resource.path]
            if things:
                held = await self._count(by_kai=kind is KAI_QUEUES)
                for name, thing in list(things.items()):
                    await self._write(kind.resource, name, thing, fields_of(held.get(name)))
        known = {
            (path, name, one.metadata.uid) for path, things in self._objects.items() for name, one in things.items()
        }
        self._written = {key: fields for key, fields in self._written.items() if key in known}

    async def _write(self, resource: Resource, name: str, thing: QueueObject, wanted: Fields) -> None:
        key = resource.path, name, thing.metadata.uid
        seen = {field: getattr(thing.status, field) or {} for field in wanted}
        if self._written.get(key, seen) == wanted or seen == wanted:
            self._written[key] = wanted
            return
        fields = {field: _difference(seen[field], amounts) for field, amounts in wanted.items()}
        self._written[key] = wanted
        if await self._writer.status(resource, name, thing.metadata.uid, fields) is not None:
            self._written.pop(key, None)
            self._changed.set()

    # -- counting

    async def _count(self, by_kai: bool) -> Mapping[str, QueueHolding]:
        """What each queue and its children hold."""
        cluster = self._cluster
        of_task: Callable[[Task], Mapping[str, int]] = _kai_amounts(cluster) if by_kai else _plain_amounts
        own: dict[str, QueueHolding] = {}
        running = [task for key, task in cluster.running.items() if key not in cluster.leaving]
        running = [task for task in running if cluster.is_ours(task.pod)]
        asking = list(cluster.waiting.values()) if by_kai else []
        for tasks, holds in (([*running, *cluster.reserved.values()], True), (asking, False)):
            for part in _slices(tasks):
                for task in part:
                    self._add(own, task, of_task(task), holds, by_kai)
                await asyncio.sleep(0)
        tree = cluster.groups.hierarchy()
        found: dict[str, QueueHolding] = {}
        for name, held in own.items():
            above_all = [ROOT] if not by_kai and name in cluster.queues else []
            for above in dict.fromkeys([*tree.upwards(name), *above_all]):
                sums = found.setdefault(above, QueueHolding(Counter(), Counter(), Counter()))
                for total, amounts in zip(sums, held, strict=True):
                    total.update(amounts)
        return found

    def _add(
        self, own: dict[str, QueueHolding], task: Task, amounts: Mapping[str, int], holds: bool, by_kai: bool
    ) -> None:
        job = self._cluster.groups.job_of(task)
        held = own.get(job.queue)
        if held is None:
            held = own[job.queue] = QueueHolding(Counter(), Counter(), Counter())
        if holds:
            _plus(held.allocated, amounts)
        if by_kai:
            _plus(held.requested, amounts)
            if holds and not job.preemptible:
                _plus(held.fixed, amounts)

    @staticmethod
    def _volcano(held: QueueHolding | None) -> Fields:
        return {"allocated": _shown(held.allocated, (CPU,)) if held is not None else {}}

    @staticmethod
    def _kai(held: QueueHolding | None) -> Fields:
        parts = held or QueueHolding(Counter(), Counter(), Counter())
        return {
            "allocated": _shown(parts.allocated, (CPU, KAI_GPU)),
            "allocatedNonPreemptible": _shown(parts.fixed, (CPU, KAI_GPU)),
            "requested": _shown(parts.requested, (CPU, KAI_GPU)),
        }


def _relevant(thing: Any) -> object:
    """The part of a pod, group or queue that decides how much queues hold, without status."""
    if isinstance(thing, Pod):
        return thing.metadata.uid, thing.node, thing.is_over, thing.is_leaving, queue_named(thing), link_of(thing)
    return thing.spec


def _slices(tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
    return (tasks[start : start + SLICE] for start in range(0, len(tasks), SLICE))


def _plain_amounts(task: Task) -> Mapping[str, int]:
    return dict(task.requests)


def _kai_amounts(cluster: Cluster) -> Callable[[Task], Mapping[str, int]]:
    """GPUs in thousandths of a card, parts of cards included, CPU and memory."""
    counts = QueueCounts(cluster, by_kai=True)
    names = [KAI_GPU if dimension.name == GPU else dimension.name for dimension in counts.dimensions]
    return lambda task: dict(zip(names, counts.of_task(task), strict=True))


def _plus(sums: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        sums[name] += amount


def _shown(amounts: Amounts, in_thousandths: Sequence[str]) -> dict[str, str]:
    """Amounts as quantities, without zeros."""
    return {name: _quantity(name, amount, in_thousandths) for name, amount in sorted(amounts.items()) if amount}


def _quantity(name: str, amount: int, in_thousandths: Sequence[str]) -> str:
    if name in in_thousandths:
        return format_milli(amount)
    return format_binary(amount) if name in IN_BYTES else str(amount)


def _difference(seen: Any, wanted: dict[str, str]) -> dict[str, str | None]:
    """The merge patch from one map to the other: names that are not wanted any more become null."""
    gone: Iterable[str] = seen.keys() - wanted.keys() if isinstance(seen, dict) else ()
    return {**dict.fromkeys(gone, None), **wanted}

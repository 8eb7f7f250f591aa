"""A scheduler without an API server: told of objects as the watch tells them; its decisions come true when asked."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import Mock

import msgspec

from tonnage.actions.catalog import make_actions
from tonnage.binder.binding import BindingWriter
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import WatchedKind, batch_kinds
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff
from tonnage.manifests.read import Manifests, read_bytes
from tonnage.model.pod import DEFAULT_SCHEDULER, Pod
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.snapshot import collect, written
from tonnage.scheduler.triggers import Triggers
from tonnage.scheduler.unschedulable import UnschedulablePods

NOW = 1_800_000_000.0
Said = dict[str, object]
"""What was decided about each pod: outcome, node, devices, and why it waits."""


def leads() -> asyncio.Event:
    """Set, as for a process that leads."""
    event = asyncio.Event()
    event.set()
    return event


class Watching:
    """A picture of a cluster, and cycles over it."""

    def __init__(self, plugins: Sequence[Plugin], actions: Sequence[str] = ("allocate",), things: Iterable[Any] = ()):
        self.cluster = Cluster(default_vendors())
        self.unschedulable = UnschedulablePods(lambda: 0.0)
        self.woken = 0
        self.triggers = Triggers(DEFAULT_SCHEDULER, self.unschedulable, self._wake)
        kinds = batch_kinds(self.triggers.is_ours)
        self.informer = ClusterInformer(Mock(), self.cluster, Backoff(draw=lambda: 0.5), kinds)
        self.triggers.listen(self.informer)
        self._kinds = {kind.resource.type: kind for kind in kinds}
        self.cycle_runner = CycleRunner(self.cluster, plugins, make_actions(actions))
        self.tell(*things)

    def _wake(self) -> None:
        self.woken += 1

    def tell(self, *things: Any) -> None:
        for thing in things:
            kind = self._kinds[type(thing)]
            self._take(kind, Change(kind.resource.key(thing.metadata), thing))

    def gone(self, pod: Pod) -> None:
        self._take(self._kinds[Pod], Change(pod.key, pod, is_gone=True))

    def _take(self, kind: WatchedKind, change: Change) -> None:
        self.informer.take(kind, change)
        assert not self.informer.problems

    def decide(self) -> list[Decision]:
        cycle = self.cycle_runner.run(frozenset(), NOW)
        return [*cycle.placed, *cycle.waiting]

    def bound(self, decision: Decision) -> Pod:
        """A pod as the watch shows it after its Binding; a kubelet chooses plain cards itself."""
        writer = BindingWriter(None, self.cluster, lambda: NOW, lambda: NOW)  # type: ignore[arg-type]
        assert decision.node is not None
        body = writer._binding(decision, decision.node, writer.is_handed_over(decision))
        pod = decision.task.pod
        notes = {**pod.annotations, **body["metadata"]["annotations"]}
        return msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, annotations=notes),
            spec=msgspec.structs.replace(pod.spec, nodeName=decision.node),
        )

    def objects(self) -> list[Any]:
        return collect(self.cluster, self.triggers.others(), self.cycle_runner.placed, NOW)


async def text_of(things: Sequence[Any]) -> bytes:
    return b"".join([part async for part in written(things)])


def manifests_in(text: bytes) -> Manifests:
    found = Manifests()
    read_bytes(text, "the snapshot", found)
    return found


def replayed(text: bytes, plugins: Sequence[Plugin], actions: Sequence[str] = ("allocate",)) -> list[Decision]:
    """What `tonnage schedule` decides."""
    cluster = Cluster(default_vendors())
    cluster.now = NOW
    manifests_in(text).put_into(cluster)
    with Session(cluster, plugins) as session:
        return run_cycle(session, make_actions(actions))


def said(decisions: Iterable[Decision]) -> Said:
    records = [decision.record() for decision in decisions]
    return {r.pod: (r.outcome, r.node, r.devices, r.message, r.rejected if r.node is None else []) for r in records}

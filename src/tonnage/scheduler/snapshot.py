"""What the scheduler sees, as manifests with which `tonnage schedule` comes to the same decisions.

Objects never change once they are decoded. So all of them are collected in one go, which takes milliseconds, and
written piece by piece while the scheduler goes on.

A pod whose place is reserved has its node and its devices already. A pod whose cards are known here, though it does not
name them, names them: which ones it sits on depends on what came and went before. A group that was let in says so.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tonnage.binder.binding import device_annotations
from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.jobs.index import JobIndex
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceUse
from tonnage.framework.decision import Decision
from tonnage.model.group import PodGroup, QueueObject, VolcanoPodGroup
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import encode, manifest

SLICE = 256
"""Objects written in one go: some milliseconds."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the whole object as it was given, with all that is left out here."""


def collect(cluster: Cluster, others: Iterable[Any], placed: Mapping[str, Decision], now: float) -> list[Any]:
    """Every object that decisions depend on; with the decisions about pods whose places are reserved."""
    nodes = [state.node for state in cluster.states]
    counting = [_as_decided(cluster.groups, thing) for thing in others if _counts(cluster.groups, thing)]
    return [*counting, *nodes, *_Pods(cluster, placed, now).all()]


def _counts(groups: JobIndex, thing: Any) -> bool:
    """Whether a group or queue counts, and not another scheduler's of the same name: manifests have one of them."""
    if isinstance(thing, PodGroup):
        return groups.given(type(thing)).get(thing.key) is groups.groups.get(thing.key)
    if isinstance(thing, QueueObject):
        return groups.given(type(thing)).get(thing.metadata.name) is groups.queues.get(thing.metadata.name)
    return True


def _as_decided(groups: JobIndex, thing: Any) -> Any:
    """A group that was let in says so, also before the API server knows."""
    if not isinstance(thing, VolcanoPodGroup) or thing.key not in groups.groups:
        return thing
    phase = groups.groups[thing.key].phase
    return thing if phase == (thing.status.phase or "") else replace(thing, status=replace(thing.status, phase=phase))


class _Pods:
    """The pods of a cluster as they count."""

    def __init__(self, cluster: Cluster, placed: Mapping[str, Decision], now: float) -> None:
        self._cluster = cluster
        self._placed = placed
        self._now = now

    def all(self) -> Iterator[Pod]:
        """All pods, those of a job together and in its order."""
        cluster = self._cluster
        told: set[str] = set()
        for tasks in (cluster.running, cluster.reserved, cluster.waiting):
            for task in tasks.values():
                job = cluster.groups.of_pod.get(task.key)
                for member in (task,) if job is None else job.tasks.values():
                    if member.key not in told:
                        told.add(member.key)
                        yield self._as_it_counts(member)
        for job in cluster.groups.jobs.values():
            yield from job.finished.values()

    def _as_it_counts(self, task: Task) -> Pod:
        cluster, key, pod = self._cluster, task.key, task.pod
        if key in cluster.running:
            if key in cluster.leaving and not pod.is_leaving:
                pod = replace(pod, metadata=replace(pod.metadata, deletionTimestamp=rfc3339(self._now)))
            found = self._found(key)
            return self._with_devices(task, pod, pod.annotations, found) if found else pod
        decision = self._placed.get(key)
        if decision is None or key not in cluster.reserved or key in cluster.promised:
            return pod
        # What it names now is left over from an attempt that came to nothing.
        records = {vendor.allocated for vendor in cluster.vendors}
        kept = {name: text for name, text in pod.annotations.items() if name not in records}
        placed = replace(pod, spec=replace(pod.spec, nodeName=decision.node))
        return self._with_devices(task, placed, kept, decision.grant)

    def _found(self, key: str) -> Grant:
        """The cards of a running pod that it does not name, of vendors of which it has all that it needs."""
        state = self._cluster.nodes.get(self._cluster.holders[key])
        if state is None or key not in state.implicit_uses:
            return ()
        return tuple(
            (use.vendor, (tuple([DeviceUse(card.uuid, card.memory, card.cores) for card in use.cards]),))
            for use, said in zip(state.implicit_uses[key], state.holdings[key].vendors, strict=True)
            if use.cards != said.cards and not use.unknown
        )

    def _with_devices(self, task: Task, pod: Pod, annotations: Mapping[str, str], grant: Grant) -> Pod:
        named = device_annotations(self._cluster, task, pod.node or "", grant, int(self._now))
        return replace(pod, metadata=replace(pod.metadata, annotations={**annotations, **named}))


async def written(things: Sequence[Any]) -> AsyncIterator[bytes]:
    """A List with all of these, plain data or objects of the model, one on each line."""
    yield b'{"apiVersion":"v1","kind":"List","items":[\n'
    for start in range(0, len(things), SLICE):
        part = b",\n".join([encode(_shown(thing)) for thing in things[start : start + SLICE]])
        yield b",\n" + part if start else part
        await asyncio.sleep(0)
    yield b"\n]}\n"


def _shown(thing: Any) -> dict[str, Any]:
    """An object without what no decision depends on and not everybody should see."""
    if isinstance(thing, dict):
        return thing
    plain = manifest(thing)
    annotations = plain["metadata"].get("annotations")
    if annotations:
        annotations.pop(LAST_APPLIED, None)
    if isinstance(thing, Pod):
        for container in (*plain["spec"]["containers"], *plain["spec"].get("initContainers", ())):
            container.pop("env", None)
    return plain

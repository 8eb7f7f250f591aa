"""The snapshot: what the scheduler sees, as manifests on which `tonnage schedule` decides alike.

Objects never change once they are decoded, so they are collected in one go, which takes milliseconds, and written
piece by piece while the scheduler goes on.

In the snapshot a pod whose place is reserved has its node and devices. A pod whose cards we assigned without a record
on the pod names them, because the assignment depends on which pods came and went before. An admitted group has the
phase Inqueue.
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
from tonnage.model.annotations import LAST_APPLIED
from tonnage.model.group import PodGroup, QueueObject, VolcanoPodGroup
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import encode, manifest

SLICE = 256
"""Objects that are written in one go, which takes some milliseconds."""


def collect(cluster: Cluster, others: Iterable[Any], placed: Mapping[str, Decision], now: float) -> list[Any]:
    """Every object that decisions depend on; `placed` are the decisions about pods with reserved places."""
    nodes = [state.node for state in cluster.states]
    counting = [_as_decided(cluster.groups, thing) for thing in others if _counts(cluster.groups, thing)]
    return [*counting, *nodes, *_Pods(cluster, placed, now).all()]


def _counts(groups: JobIndex, thing: Any) -> bool:
    """Whether a group or queue is in use; another kind may have one of the same name, which is not."""
    if isinstance(thing, PodGroup):
        return groups.given(type(thing)).get(thing.key) is groups.groups.get(thing.key)
    if isinstance(thing, QueueObject):
        return groups.given(type(thing)).get(thing.metadata.name) is groups.queues.get(thing.metadata.name)
    return True


def _as_decided(groups: JobIndex, thing: Any) -> Any:
    """A group with the phase that was decided, which the API server may not have yet."""
    if not isinstance(thing, VolcanoPodGroup) or thing.key not in groups.groups:
        return thing
    phase = groups.groups[thing.key].phase
    return thing if phase == (thing.status.phase or "") else replace(thing, status=replace(thing.status, phase=phase))


class _Pods:
    """The pods of a cluster as decisions see them."""

    def __init__(self, cluster: Cluster, placed: Mapping[str, Decision], now: float) -> None:
        self._cluster = cluster
        self._placed = placed
        self._now = now

    def all(self) -> Iterator[Pod]:
        """All pods; the pods of a job come together and in its order."""
        cluster = self._cluster
        done: set[str] = set()
        for tasks in (cluster.running, cluster.reserved, cluster.waiting):
            for task in tasks.values():
                job = cluster.groups.of_pod.get(task.key)
                for member in (task,) if job is None else job.tasks.values():
                    if member.key not in done:
                        done.add(member.key)
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
        if decision is None or key not in cluster.reserved or key in cluster.pipelined:
            return pod
        # Its own record is left over from a bind that failed.
        records = {vendor.allocated for vendor in cluster.vendors}
        kept = {name: text for name, text in pod.annotations.items() if name not in records}
        placed = replace(pod, spec=replace(pod.spec, nodeName=decision.node))
        return self._with_devices(task, placed, kept, decision.grant)

    def _found(self, key: str) -> Grant:
        """The cards that were assigned to a running pod without a record, of vendors whose requests are met in full."""
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
    """A List of plain data or objects of the model, one on each line."""
    yield b'{"apiVersion":"v1","kind":"List","items":[\n'
    for start in range(0, len(things), SLICE):
        part = b",\n".join([encode(_shown(thing)) for thing in things[start : start + SLICE]])
        yield b",\n" + part if start else part
        await asyncio.sleep(0)
    yield b"\n]}\n"


def _shown(thing: Any) -> dict[str, Any]:
    """An object without the parts that no decision depends on and not everybody should see."""
    if isinstance(thing, dict):
        return thing
    plain = manifest(thing)
    annotations = plain["metadata"].get("annotations")
    if annotations:
        annotations.pop(LAST_APPLIED, None)
    return plain

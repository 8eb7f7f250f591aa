"""Claims: what the annotations of running pods say about their devices, and which of it counts.

Tenants may write these annotations. What a pod said when it was first seen with a node counts as long as it runs:
its containers keep the cards that they were started with, whatever is written later. What was missing then may be
added once, as the labels and records of some schedulers are. After a restart only the annotations are known.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from tonnage.cluster.holding import CardFinder, Holding, HoldingReader
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task, make_task
from tonnage.devices.base import DecodeError, Device, PodUses, Vendor
from tonnage.model.problem import Problem, annotation_field


class FirstClaim(msgspec.Struct, gc=False, frozen=True):
    """What a pod said when it was first seen with a node."""

    uid: str | None
    said: dict[str, str]
    """The annotations that record its devices or request parts of cards, with records that were added later."""
    is_bounded: bool
    """Whether the pod was placed under the present device configuration."""


class ClaimReading(NamedTuple):
    """What a running pod says about its devices, and what of it counts."""

    first: FirstClaim
    holding: Holding
    problems: list[Problem]
    ignores: bool
    """Whether a part of what the annotations claim does not count."""


class PodClaims:
    """The claims of all running pods."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._vendors = vendors
        self._records = frozenset(key for vendor in vendors for key in vendor.record_annotations)
        self._claiming = self._records.union(*[vendor.sharing_annotations for vendor in vendors])
        """The annotations that record a pod's devices or request parts of cards."""
        self.is_settled = False
        """Whether all pods were listed, so that a pod which gets a node now is placed under this configuration."""
        self._first: dict[str, FirstClaim] = {}
        self.ignored: dict[str, str] = {}
        """Pods of whose claims a part does not count, with their nodes."""

    def read(self, task: Task, node: str, state: NodeState | None, before: Holding | None) -> ClaimReading:
        """Read what a running pod says, which changes nothing; `before` is what it held so far."""
        claims, first = self._claims(task), self._first.get(task.key)
        if first is None or not task.uid or first.uid != task.uid:
            first, before = FirstClaim(task.uid, claims, self.is_settled), None
        said, first = self._as_first(task, first, claims)
        reader = HoldingReader(said, _finder(state), before, first.is_bounded)
        holding, problems, ignores = reader.holding(node, self._vendors), reader.problems, reader.ignores
        if said is not task:
            now = HoldingReader(task, _finder(state), before, first.is_bounded).holding(node, self._vendors)
            if now.vendors != holding.vendors:
                ignores = True
                problems = [*problems, self._changed(task, said)]
        return ClaimReading(first, holding, problems, ignores)

    def put(self, key: str, reading: ClaimReading) -> None:
        """Keep what a running pod said first."""
        self._first[key] = reading.first
        if reading.ignores:
            self.ignored[key] = reading.holding.node
        else:
            self.ignored.pop(key, None)

    def uses(self, task: Task, state: NodeState | None) -> Iterator[tuple[Vendor, PodUses]]:
        """The devices that the containers of a running pod hold, where its annotations say so."""
        claims = self._claims(task)
        first = self._first.get(task.key) or FirstClaim(task.uid, claims, is_bounded=False)
        said, first = self._as_first(task, first, claims)
        reader = HoldingReader(said, _finder(state), None, first.is_bounded)
        for number, vendor in enumerate(self._vendors):
            if vendor.allocated in said.annotations:
                try:
                    yield vendor, reader.kept(reader.uses(number, vendor), number)
                except DecodeError:
                    continue

    def forget(self, key: str) -> None:
        """The pod has no node any more, or is gone."""
        self._first.pop(key, None)
        self.ignored.pop(key, None)

    def copy(self, other: "PodClaims") -> None:
        """Take over what another state of the same cluster saw first."""
        self._first = dict(other._first)

    def _claims(self, task: Task) -> dict[str, str]:
        return {
            key: text
            for key, text in task.annotations.items()
            if key in self._claiming and (text.strip("; ") or key not in self._records)
        }

    def _as_first(self, task: Task, first: FirstClaim, claims: dict[str, str]) -> tuple[Task, FirstClaim]:
        """The task with the claims that the pod made first, and these, completed by records that it did not have."""
        if claims == first.said:
            return task, first
        added = {key: text for key, text in claims.items() if key in self._records and key not in first.said}
        if added:
            first = msgspec.structs.replace(first, said=first.said | added)
        if claims == first.said:
            return task, first
        others = {key: value for key, value in task.annotations.items() if key not in claims}
        metadata = msgspec.structs.replace(task.pod.metadata, annotations=others | first.said)
        return make_task(msgspec.structs.replace(task.pod, metadata=metadata), self._vendors), first

    def _changed(self, task: Task, said: Task) -> Problem:
        changed = [key for key in said.annotations if said.annotations[key] != task.annotations.get(key)]
        added = [key for key in task.annotations if key not in said.annotations]
        message = "changed after the pod got its node; what it said first counts as long as the pod runs"
        field = annotation_field(min(changed + added))
        return Problem(f"Pod/{task.key}", field, "", "what the pod said when it got its node", message)


def _finder(state: NodeState | None) -> CardFinder | None:
    if state is None:
        return None

    def find(uuid: str, vendor: int) -> Device | None:
        position = state.position(uuid, vendor)
        return None if position is None else state.devices[position]

    return find

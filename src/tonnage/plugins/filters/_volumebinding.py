"""Volume binding: for claims that wait for their first consumer, the volume that each gets on each node.

On every node the smaller claims choose first, each the smallest free volume that matches; for the rest the class must
provision volumes there. The filter asks whether that works out; the choice for the node that was decided becomes part
of the pod's reservation. A volume that is reserved for another claim is not free, whoever else could use it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.holding import VolumeReservation
from tonnage.cluster.task import Task
from tonnage.model.quantity import format_bytes
from tonnage.model.selection import Expression
from tonnage.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tonnage.plugins.filters._claims import Claims, storage
from tonnage.plugins.filters._freevolumes import FreeVolumes
from tonnage.plugins.filters._storagecapacity import StorageCapacity
from tonnage.plugins.helpers.nodeterms import meeting_all

REASONS = ("NoVolumeForNode", "VolumesReserved", "InsufficientStorage", "ProvisionedElsewhere")
_NOTHING_TO_BIND, _RESERVED, _NO_STORAGE, _ELSEWHERE = 1, 2, 3, 4
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class _Plan(NamedTuple):
    """What one claim gets on each of some nodes."""

    claim: PersistentVolumeClaim
    size: int
    candidates: Sequence[PersistentVolume]
    chosen: Array
    """The number of the candidate, -1 for none."""
    provisioned: Array
    """True where a volume is provisioned."""
    codes: Array
    """Why the claim gets nothing, 0 where it does."""


class VolumeBinding:
    """Rejects nodes on which a claim would get no volume, and chooses the volumes on a node."""

    reasons = REASONS

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims = Claims(cluster)
        self._free = FreeVolumes(cluster)
        self._capacity = StorageCapacity(cluster)

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        codes: Array | None = None
        for plan in self._plans(task, nodes):
            codes = plan.codes if codes is None else np.where(codes != 0, codes, plan.codes)
        return codes

    def choose(self, task: Task, row: int) -> tuple[VolumeReservation, ...]:
        """What each claim of the pod gets on a node; a claim that gets nothing there is left out."""
        here = Nodes(self._cluster.columns, np.array([row]))
        found: list[VolumeReservation] = []
        for plan in self._plans(task, here):
            chosen = int(plan.chosen[0])
            if chosen >= 0 or plan.provisioned[0]:
                volume = plan.candidates[chosen].metadata.name if chosen >= 0 else ""
                name = plan.claim.spec.storageClassName or ""
                found.append(VolumeReservation(plan.claim.key, volume, name, plan.size))
        return tuple(found)

    # -- what claims get

    def _plans(self, task: Task, nodes: Nodes) -> Iterator[_Plan]:
        """A plan for each claim without a volume, the smallest claim first, as Kubernetes does it."""
        claims = [
            (claim, found)
            for claim in self._claims.of(task)
            if not claim.spec.volumeName and (found := self._claims.storage_class(claim)) is not None
        ]
        if not claims:
            return
        claims.sort(key=lambda one: (storage(one[0].spec.resources.requests), one[0].key))
        choice = _Choice(self._cluster, self._free, nodes)
        self._serve_others(task, claims, choice, nodes)
        before: dict[str, Array] = {}
        for claim, found in claims:
            yield self._plan(task, claim, found, choice, before, nodes)

    def _plan(
        self,
        task: Task,
        claim: PersistentVolumeClaim,
        found: StorageClass,
        choice: "_Choice",
        before: dict[str, Array],
        nodes: Nodes,
    ) -> _Plan:
        size, count = storage(claim.spec.resources.requests), len(nodes)
        nothing, nowhere = np.full(count, -1), np.zeros(count, np.bool_)
        told = claim.selected_node
        if told:
            there = self._is(told, nodes)
            return _Plan(claim, size, (), nothing, there, np.where(there, 0, _ELSEWHERE))
        shared = self._cluster.volumes.of_claim(claim.key, without=task.key)
        if shared is not None and not shared.volume:
            # Where its volume will be is not known before it is there; binds look again then.
            there = self._is_allowed(found, nodes)
            return _Plan(claim, size, (), nothing, there, np.where(there, 0, _NOTHING_TO_BIND))
        candidates, are_only = self._free.matching(claim)
        if shared is not None:
            candidates = [volume for volume in candidates if volume.metadata.name == shared.volume]
            are_only = True
        chosen = choice.take(claim.key, candidates)
        missing = chosen < 0
        codes = np.where(missing, np.where(choice.would_do(candidates), _RESERVED, _NOTHING_TO_BIND), 0)
        if are_only or found.provisioner == _NO_PROVISIONER or not missing.any():
            return _Plan(claim, size, candidates, chosen, nowhere, codes)
        provisioned = missing & self._is_allowed(found, nodes)
        if self._capacity.is_reported(found):
            taken = before.setdefault(found.metadata.name, np.zeros(count, np.float64))
            enough = self._capacity.suffices(found, claim, size, taken, nodes)
            codes[provisioned & ~enough & (codes == _NOTHING_TO_BIND)] = _NO_STORAGE
            provisioned &= enough
            taken += np.where(provisioned, size, 0)
        codes[provisioned] = 0
        return _Plan(claim, size, candidates, chosen, provisioned, codes)

    def _serve_others(
        self, task: Task, claims: Sequence[tuple[PersistentVolumeClaim, StorageClass]], choice: "_Choice", nodes: Nodes
    ) -> None:
        """Give volumes to claims of pods that have a node and no reservation: another scheduler will bind them."""
        known, placed = self._cluster.surroundings, self._cluster.placed
        classes, own = {found.metadata.name for _, found in claims}, {claim.key for claim, _ in claims}
        for key, users in placed.users.items():
            claim = known.claims.get(key)
            if claim is None or claim.spec.volumeName or claim.spec.storageClassName not in classes or key in own:
                continue
            if self._cluster.volumes.of_claim(key) is None:
                for name in sorted({name for pod, name in users.items() if pod != task.key}):
                    choice.take(key, self._free.matching(claim)[0], self._is(name, nodes))

    def _is(self, name: str, nodes: Nodes) -> Array:
        """True for the node of that name."""
        mask = np.zeros(self._cluster.columns.size, np.bool_)
        state = self._cluster.nodes.get(name)
        if state is not None:
            mask[state.row] = True
        return nodes.pick(mask)

    def _is_allowed(self, found: StorageClass, nodes: Nodes) -> Array:
        """True for nodes for which a class provisions volumes."""
        if not found.allowedTopologies:
            return np.ones(len(nodes), np.bool_)
        allowed = np.zeros(len(nodes), np.bool_)
        for term in found.allowedTopologies:
            wanted = [Expression(e.key, "In", e.values) for e in term.matchLabelExpressions or ()]
            allowed |= meeting_all(self._cluster, wanted, nodes)
        return allowed

    # -- messages

    def message(self, task: Task, row: int, code: int) -> str:
        name = self._cluster.states[row].name
        here = Nodes(self._cluster.columns, np.array([row]))
        plan = next((plan for plan in self._plans(task, here) if plan.codes[0] == code), None)
        if plan is None:
            return f"{name}: its volumes cannot be bound there"
        claim, found = plan.claim, plan.claim.spec.storageClassName
        nothing = f"claim {claim.key} finds no free volume there, and its class {found}"
        if code == _RESERVED:
            names = ", ".join(v.metadata.name for v in plan.candidates if self._free.reached(v, here)[0])
            return f"{name}: the free volumes there for claim {claim.key} are reserved for other claims: {names}"
        if code == _NO_STORAGE:
            return f"{name}: {nothing} has less storage left there than {format_bytes(plan.size)}"
        if code == _ELSEWHERE:
            return f"{name}: the volume of claim {claim.key} is being provisioned for {claim.selected_node}"
        return f"{name}: {nothing} makes none for such nodes"


class _Choice:
    """The volumes that are still free on each of some nodes while the claims of one pod choose."""

    def __init__(self, cluster: Cluster, free: FreeVolumes, nodes: Nodes) -> None:
        self._reserved = cluster.volumes
        self._free = free
        self._nodes = nodes
        self._left: dict[str, Array] = {}
        """By volume, the nodes that reach it and on which no claim has taken it."""

    def take(self, claim: str, candidates: Sequence[PersistentVolume], where: Array | None = None) -> Array:
        """Give a claim the first candidate that is left on each node; its number, or -1."""
        chosen = np.full(len(self._nodes), -1)
        open_ = np.ones(len(self._nodes), np.bool_) if where is None else where.copy()
        for number, volume in enumerate(candidates):
            name = volume.metadata.name
            if self._reserved.is_taken(name, claim):
                continue
            left = self._left.get(name)
            if left is None:
                left = self._free.reached(volume, self._nodes)
            taken = left & open_
            if taken.any():
                chosen[taken] = number
                open_ &= ~taken
                self._left[name] = left & ~taken
                if not open_.any():
                    break
        return chosen

    def would_do(self, candidates: Sequence[PersistentVolume]) -> Array:
        """True for nodes that reach a candidate, whoever has it."""
        found = np.zeros(len(self._nodes), np.bool_)
        for volume in candidates:
            found |= self._free.reached(volume, self._nodes)
        return found

"""VolumeBinder: the part of a bind before the Binding in which the claims that waited for the pod get their volumes.

The choice was made with the decision and is reserved with the pod's place. The binder tells the claims and volumes of
it and waits until the watch shows every claim bound to a volume that the node reaches. What was written is not taken
back: Kubernetes' controllers go on from it, and the next decision about the pod does too.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from tonnage.binder.binding import BindError
from tonnage.binder.volumewriter import VolumeWriter
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Nodes
from tonnage.cluster.holding import VolumeReservation
from tonnage.framework.decision import Decision
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import NODES, PODS, WATCHED, WatchedKind
from tonnage.kube.resource import Change
from tonnage.model.duration import format_seconds
from tonnage.model.storage import LOST, PersistentVolume, PersistentVolumeClaim
from tonnage.plugins.helpers.nodeterms import reaching_nodes

SECONDS = 600.0
"""How long a pod keeps its place while its volumes are bound, as with kube-scheduler."""
TOLD_AFTER = 2.0
"""Seconds after which a pod says that it waits for its volumes."""
_BEAT = 5.0
"""Seconds after which a write that failed is tried again."""
_CLAIMS, _VOLUMES = WATCHED[PersistentVolumeClaim], WATCHED[PersistentVolume]


class _Wait:
    """A pod whose claims are being bound."""

    __slots__ = ("asked", "changed", "decision", "shown")

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.changed = asyncio.Event()
        self.asked: set[str] = set()
        """Claims for which the API server has been told what to do."""
        self.shown: set[str] = set()
        """Claims that the watch has shown with a selected node."""

    @property
    def node(self) -> str:
        assert self.decision.node is not None
        return self.decision.node


class VolumeBinder:
    """Binds the claims of pods whose places are reserved."""

    def __init__(self, writer: VolumeWriter, cluster: Cluster, seconds: float = SECONDS) -> None:
        self._writer = writer
        self._cluster = cluster
        self._known = cluster.surroundings
        self._seconds = seconds
        self._waits: dict[tuple[str, str], set[_Wait]] = {}
        """The pods that wait, by kind and key of the objects whose change may end that."""
        self.waiting = 0
        """How many pods wait."""

    def listen(self, informer: ClusterInformer) -> None:
        """See every change that a pod may wait for."""
        informer.add_listener([NODES, PODS, _CLAIMS, _VOLUMES], self.seen)

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Wake the pods that wait for an object that has changed."""
        for change in changes if self._waits else ():
            self._wake(kind, change.key)
            thing = change.object
            if isinstance(thing, PersistentVolume) and thing.spec.claimRef is not None:
                owner = thing.spec.claimRef
                self._wake(_CLAIMS, f"{owner.namespace or 'default'}/{owner.name}")
            if isinstance(thing, PersistentVolumeClaim) and thing.selected_node:
                for wait in self._waits.get((_CLAIMS.resource.name, change.key), ()):
                    wait.shown.add(change.key)

    def _wake(self, kind: WatchedKind, key: str) -> None:
        for wait in self._waits.get((kind.resource.name, key), ()):
            wait.changed.set()

    def wake_all(self) -> None:
        """Have every pod that waits look whether it still has its place."""
        for waits in self._waits.values():
            for wait in waits:
                wait.changed.set()

    def is_needed(self, decision: Decision) -> bool:
        """Whether the pod has claims without a volume that something is reserved for."""
        return any(not self._is_bound(one.claim) for one in self._reserved(decision))

    async def bind(self, decision: Decision, stands: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Wait until the claims are bound, or until the place is not the pod's any more; BindError if they will not be.

        `tell` is called with what is missing if that takes longer than a moment.
        """
        reserved = self._reserved(decision)
        with self._waiting(decision, reserved, tell) as wait, self._limit(decision):
            async with asyncio.timeout(self._seconds):
                while stands():
                    wait.changed.clear()
                    left = [one for one in reserved if not self._is_usable(wait, one)]
                    if not left:
                        return
                    for one in left:
                        if one.claim not in wait.asked and await self._ask(wait, one):
                            wait.asked.add(one.claim)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_BEAT):
                            await wait.changed.wait()

    async def _ask(self, wait: _Wait, reserved: VolumeReservation) -> bool:
        claim = self._known.claims.get(reserved.claim)
        if claim is None:
            return False
        if reserved.volume:
            return await self._writer.set_claim(reserved.volume, claim)
        return await self._writer.select_node(claim, wait.node)

    # -- how far claims are

    def _reserved(self, decision: Decision) -> tuple[VolumeReservation, ...]:
        held = self._cluster.held(decision.task.key)
        return held.volumes if held is not None else ()

    def _is_bound(self, key: str) -> bool:
        claim = self._known.claims.get(key)
        return claim is not None and claim.is_bound and claim.spec.volumeName in self._known.volumes

    def _is_usable(self, wait: _Wait, reserved: VolumeReservation) -> bool:
        """Whether a claim has a volume that the pod's node reaches; BindError if it will not have one."""
        key, node = reserved.claim, wait.node
        claim = self._known.claims.get(key)
        what = f"{wait.decision.task.key} is not bound to {node}: the PersistentVolumeClaim {key}"
        if claim is None or claim.metadata.deletionTimestamp is not None:
            raise BindError(f"{what} is gone or is being deleted", lasting=True)
        if claim.status.phase == LOST:
            raise BindError(f"{what} has lost its volume {claim.spec.volumeName}", lasting=True)
        if node not in self._cluster.nodes:
            raise BindError(f"{wait.decision.task.key} is not bound: node {node} is gone", lasting=True)
        if self._is_bound(key):
            volume = self._known.volumes[claim.spec.volumeName or ""]
            if not self._reaches(node, volume):
                raise BindError(f"{what} has got {volume.metadata.name}, which {node} does not reach", lasting=True)
            return True
        if not claim.selected_node and key in wait.asked & wait.shown and not claim.spec.volumeName:
            raise BindError(f"{what} gets no volume there: its provisioner has given {node} up", lasting=True)
        if reserved.volume and not self._may_have(claim, reserved.volume):
            raise BindError(f"{what} cannot get {reserved.volume}, which is gone or has another claim", lasting=True)
        return False

    def _may_have(self, claim: PersistentVolumeClaim, name: str) -> bool:
        volume = self._known.volumes.get(name)
        return volume is not None and (volume.spec.claimRef is None or volume.spec.claimRef.names(claim))

    def _reaches(self, node: str, volume: PersistentVolume) -> bool:
        self._cluster.settle()
        here = Nodes(self._cluster.columns, np.array([self._cluster.nodes[node].row]))
        return bool(reaching_nodes(self._cluster, volume, here)[0])

    # -- waiting

    @contextmanager
    def _waiting(
        self, decision: Decision, reserved: Sequence[VolumeReservation], tell: Callable[[str], None]
    ) -> Iterator[_Wait]:
        wait = _Wait(decision)
        names = [
            (PODS, decision.task.key),
            (NODES, wait.node),
            *((_CLAIMS, one.claim) for one in reserved),
            *((_VOLUMES, one.volume) for one in reserved if one.volume),
        ]
        keys = [(kind.resource.name, key) for kind, key in names]
        for key in keys:
            self._waits.setdefault(key, set()).add(wait)
        for one in reserved:
            claim = self._known.claims.get(one.claim)
            if claim is not None and claim.selected_node:
                wait.shown.add(one.claim)
        timer = asyncio.get_running_loop().call_later(TOLD_AFTER, lambda: tell(self._missing(decision)))
        self.waiting += 1
        try:
            yield wait
        finally:
            self.waiting -= 1
            timer.cancel()
            for key in keys:
                waits = self._waits[key]
                waits.discard(wait)
                if not waits:
                    del self._waits[key]

    @contextmanager
    def _limit(self, decision: Decision) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            waited = f"{self._missing(decision)}, and {format_seconds(self._seconds)} have passed"
            raise BindError(f"{decision.task.key} is not bound to {decision.node}: {waited}", lasting=True) from error

    def _missing(self, decision: Decision) -> str:
        """What the pod waits for, in words."""
        left = [one for one in self._reserved(decision) if not self._is_bound(one.claim)]
        parts = [
            f"claim {one.claim} waits for {one.volume or f'a new volume of class {one.storage_class}'}" for one in left
        ]
        return "; ".join(parts) or "its volumes are being bound"

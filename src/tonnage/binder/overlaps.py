"""Overlaps: bound pods that hold the same part of a card, of which the later one is evicted.

Overlaps cannot happen as long as writes take effect when they are sent. But a write that the network delays until
another replica leads and has given its place away looks like a lost one. So every newly bound pod is checked: it is
suspect if one of its cards is over-committed, and is evicted if that is still so 1.5 seconds later. A card that has
shrunk under its pods makes no pod suspect.

Which pod is the later one is what this process saw, never what an annotation says: a pod counts from the reservation
that this process made for it, or else from when it was first seen with a node; a pod that comes to name another card
counts from then on. Of pods that were bound before this process started the order is not known, so none of them is
evicted; their overlaps are logged.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tonnage.binder.binding import pod_path
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import CardUse
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import MIG_MODE, Device
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.resource import Change
from tonnage.model.pod import Pod

log = logging.getLogger(__name__)

MOMENT = 1.5
"""Seconds that the watch of nodes has to catch up with the watch of pods."""
_BEAT = 0.5
_AGAIN = 5.0
"""Seconds until a refused eviction is repeated."""
_NOT_FOUND, _CONFLICT = 404, 409


class Suspect:
    """A pod that was bound to a card without room for it."""

    __slots__ = ("again", "uid", "why")

    def __init__(self, uid: str | None, why: str, since: float) -> None:
        self.uid = uid
        self.why = why
        self.again = since + MOMENT
        """When to check the pod next."""


class Overlaps:
    """Checks newly bound pods, and evicts while `run` runs and this replica leads."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        clock: Callable[[], float],
        on_evicted: Callable[[Pod, str], None],
        may_evict: Callable[[], bool],
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._on_evicted = on_evicted
        """Called with every evicted pod and the reason."""
        self._may_evict = may_evict
        self._is_settled = False
        """Whether all pods were listed, so that a bound pod that appears now was bound just now."""
        self._start = 0
        """The number of the last holding that was there when this process started."""
        self._checked: dict[str, tuple[str | None, int]] = {}
        """By bound pod, its UID and the number of its holding when it was checked."""
        self.suspects: dict[str, Suspect] = {}

    def settle(self) -> None:
        """All pods were listed: what is bound from now on is later than what was listed."""
        self._is_settled = True
        self._start = max(self._cluster.holdings.since.values(), default=0)
        for state in self._cluster.nodes.values():
            if self._is_crowded(state):
                for key in state.holdings:
                    for why in overlapped(self._cluster, key):
                        log.warning("%s %s hold too; who came later is not known, so nobody is evicted", key, why)

    def _is_crowded(self, state: NodeState) -> bool:
        """Whether more may be held of a card of the node than it has."""
        free = self._cluster.columns.card_free[:, :, state.row]
        return bool(np.any(free < 0)) or any(len(placements) > 1 for placements in state.mig.values())

    def seen(self, changes: Sequence[Change]) -> None:
        """Check newly bound pods, and those that came to name other cards."""
        news: list[str] = []
        for change in changes:
            pod: Pod | None = change.object
            if change.is_gone:
                self._checked.pop(change.key, None)
            elif pod is not None and pod.node is not None:
                now = pod.metadata.uid, self._number(change.key)
                if self._checked.get(change.key) != now:
                    self._checked[change.key] = now
                    news.append(change.key)
        for key in news if self._is_settled else ():
            self._check(key)

    def _check(self, key: str) -> None:
        """Suspect a pod, and later ones on its node, if earlier pods leave no room for them."""
        for pod in sorted({key, *self._later(key)} & self._checked.keys(), key=self._number):
            why = next(overlapped(self._cluster, pod, {*self.suspects, *self._later(pod)}), "")
            if why and pod not in self.suspects and self._number(pod):
                self.suspects[pod] = Suspect(self._checked[pod][0], f"{why} held before", self._clock())

    def _number(self, key: str) -> int:
        """The place of a pod's holding in the order in which they became known; 0 if it was there at the start."""
        number = self._cluster.holdings.since.get(key, 0)
        return number if number > self._start else 0

    def _later(self, key: str) -> set[str]:
        """The pods on a pod's node that were seen later than it."""
        state = self._cluster.nodes.get(self._cluster.holders.get(key, ""))
        number = self._number(key)
        return {other for other in state.holdings if self._number(other) > number} if state is not None else set()

    async def run(self) -> None:
        """Evict overlapping pods until cancelled."""
        while True:
            await asyncio.sleep(_BEAT)
            if self._may_evict():
                for task, why in self.to_evict():
                    await self._evict(task, why)

    def to_evict(self) -> list[tuple[Task, str]]:
        """The pods to evict now, each with the reason; earlier pods stay as far as there is room."""
        found: list[tuple[Task, str]] = []
        left_out = set(self.suspects)
        for key, suspect in sorted(self.suspects.items(), key=lambda one: self._number(one[0])):
            task = self._cluster.running.get(key)
            if task is None or task.uid != suspect.uid:
                del self.suspects[key]
            elif not task.pod.is_leaving and self._clock() >= suspect.again:
                if any(overlapped(self._cluster, key, {*left_out, *self._later(key)})):
                    suspect.again = self._clock() + _AGAIN
                    found.append((task, suspect.why))
                else:
                    del self.suspects[key]
                    left_out.discard(key)
        return found

    async def _evict(self, task: Task, why: str) -> None:
        path = pod_path(task.namespace, task.name, "eviction")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": task.name, "namespace": task.namespace},
            "deleteOptions": {"preconditions": {"uid": task.uid}},
        }
        try:
            await self._client.request("POST", path, body=body, timeout=5)
        except StatusError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                log.warning("%s: %s; it cannot be evicted yet: %s", task.key, why, error)
            return
        except KubeError as error:
            log.warning("%s: %s; whether it is evicted is not known: %s", task.key, why, error)
            return
        self._on_evicted(task.pod, f"evicted: {why}")


def overlapped(cluster: Cluster, key: str, without: Iterable[str] = ()) -> Iterator[str]:
    """What a bound pod holds too much of its cards, in words that end with the other pods; `without` do not count."""
    state = cluster.nodes.get(cluster.holders.get(key, ""))
    if state is None or key not in state.holdings:
        return
    for use in state.holdings[key].vendors:
        for card in use.cards:
            position = state.position(card.uuid, use.vendor)
            if position is None:
                continue
            others = list(_others(cluster, state, use.vendor, card.uuid, {key, *without}))
            device = state.devices[position]
            if device.mode == MIG_MODE:
                what = _same_instance(card, [other for _, other in others])
            else:
                what = _too_much(card, [other for _, other in others], device, state.capacities[position])
            if what:
                names = ", ".join(sorted(name for name, _ in others))
                vendor = cluster.vendors[use.vendor].name
                yield f"{what} of {vendor} card {card.uuid} of {state.name}, which {names}"


def _others(
    cluster: Cluster, state: NodeState, vendor: int, uuid: str, without: set[str]
) -> Iterator[tuple[str, CardUse]]:
    """The bound pods on a card, and what they hold of it; reserved places do not count."""
    for key, holding in state.holdings.items():
        if key not in without and key in cluster.running:
            for use in holding.vendors:
                if use.vendor == vendor:
                    yield from ((key, card) for card in use.cards if card.uuid == uuid)


def _too_much(card: CardUse, others: Sequence[CardUse], device: Device, there: tuple[int, int, int]) -> str:
    parts = ("slots", "memory", "cores")
    for name, room in zip(parts, there, strict=True):
        before = sum(getattr(other, name) for other in others)
        taken = before + getattr(card, name)
        # If the others alone exceed the card, it has shrunk, or its size is unknown.
        if before <= room < taken and room > 0:
            if name == "memory" and not device.memory_known:
                return f"holds {device.share(taken - room)} too much ({device.share(taken)} in use)"
            return f"holds {taken - room} {name} too many ({taken} of {room} in use)"
    return ""


def _same_instance(card: CardUse, others: Sequence[CardUse]) -> str:
    taken = [placement for other in others for placement in other.placements]
    for placement in card.placements:
        for other in taken:
            if placement.overlaps(other):
                return f"holds the MIG instance at {placement.start}"
    return ""

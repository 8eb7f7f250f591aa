"""Overlaps: bound pods that hold the same part of a card, of which the later one is evicted.

Overlaps cannot happen as long as writes take effect when they are sent. But a write that the network delays until
another replica leads and has given its place away looks like a lost one. So every newly bound pod is checked: it is
suspect if one of its cards is over-committed, and is evicted if that is still so 1.5 seconds later. A card that has
shrunk under its pods makes no pod suspect.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from tonnage.binder.binding import BIND_TIME
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import CardUse
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import MIG_MODE
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.resource import Change
from tonnage.model.pod import Pod

log = logging.getLogger(__name__)

MOMENT = 1.5
"""Seconds that the watch of nodes has to catch up with the watch of pods."""
RECENT = 60.0
"""When this process starts, it checks pods that were bound within so many seconds."""
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
        now: Callable[[], float],
        clock: Callable[[], float],
        on_evicted: Callable[[Pod, str], None],
        may_evict: Callable[[], bool],
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._now = now
        """Seconds since 1970, to which the times of binds are compared."""
        self._clock = clock
        self._on_evicted = on_evicted
        """Called with every evicted pod and the reason."""
        self._may_evict = may_evict
        self.is_settled = False
        """Whether all pods were listed, so that a bound pod that appears now was bound just now."""
        self._known: dict[str, str | None] = {}
        """The UID of every bound pod that was checked."""
        self.suspects: dict[str, Suspect] = {}
        """By the time at which they were bound."""

    def seen(self, changes: Sequence[Change]) -> None:
        """Check newly bound pods."""
        new: list[Pod] = []
        for change in changes:
            pod: Pod | None = change.object
            if change.is_gone:
                self._known.pop(change.key, None)
            elif pod is not None and pod.node is not None:
                uid = pod.metadata.uid
                if self._known.get(change.key, "") != uid:
                    self._known[change.key] = uid
                    new.append(pod)
        oldest = 0.0 if self.is_settled else self._now() - RECENT
        self._check(sorted((pod for pod in new if bound_at(pod) >= oldest), key=bound_at))

    def _check(self, pods: Sequence[Pod]) -> None:
        """Suspect each pod for which earlier pods leave no room."""
        left_out = {*self.suspects, *(pod.key for pod in pods)}
        for pod in pods:
            why = next(overlapped(self._cluster, pod.key, left_out), "")
            if why:
                self.suspects[pod.key] = Suspect(pod.metadata.uid, why, self._clock())
            else:
                left_out.discard(pod.key)

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
        for key, suspect in list(self.suspects.items()):
            task = self._cluster.running.get(key)
            if task is None or task.uid != suspect.uid:
                del self.suspects[key]
            elif not task.pod.is_leaving and self._clock() >= suspect.again:
                if any(overlapped(self._cluster, key, left_out)):
                    suspect.again = self._clock() + _AGAIN
                    found.append((task, suspect.why))
                else:
                    del self.suspects[key]
                    left_out.discard(key)
        return found

    async def _evict(self, task: Task, why: str) -> None:
        path = f"/api/v1/namespaces/{task.namespace}/pods/{task.name}/eviction"
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


def bound_at(pod: Pod) -> float:
    """When a pod was bound, in seconds since 1970; 0 if its annotation does not say."""
    text = pod.annotations.get(BIND_TIME, "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def overlapped(cluster: Cluster, key: str, without: Iterable[str] = ()) -> Iterator[str]:
    """What a bound pod holds of its cards that other pods hold too, in words; pods in `without` do not count."""
    state = cluster.nodes.get(cluster.holders.get(key, ""))
    if state is None or key not in state.holdings:
        return
    for use in state.holdings[key].vendors:
        for card in use.cards:
            position = state.position(card.uuid, use.vendor)
            if position is None:
                continue
            others = list(_others(cluster, state, use.vendor, card.uuid, {key, *without}))
            if state.devices[position].mode == MIG_MODE:
                what = _same_instance(card, [other for _, other in others])
            else:
                what = _too_much(card, [other for _, other in others], state.capacities[position])
            if what:
                names = ", ".join(sorted(name for name, _ in others))
                vendor = cluster.vendors[use.vendor].name
                yield f"{what} of {vendor} card {card.uuid} of {state.name}, which {names} held before"


def _others(
    cluster: Cluster, state: NodeState, vendor: int, uuid: str, without: set[str]
) -> Iterator[tuple[str, CardUse]]:
    """The bound pods on a card, and what they hold of it; reserved places do not count."""
    for key, holding in state.holdings.items():
        if key not in without and key in cluster.running:
            for use in holding.vendors:
                if use.vendor == vendor:
                    yield from ((key, card) for card in use.cards if card.uuid == uuid)


def _too_much(card: CardUse, others: Sequence[CardUse], there: tuple[int, int, int]) -> str:
    parts = ("slots", "memory", "cores")
    for name, room in zip(parts, there, strict=True):
        before = sum(getattr(other, name) for other in others)
        taken = before + getattr(card, name)
        # If the others alone exceed the card, it has shrunk, or its size is unknown.
        if before <= room < taken and room > 0:
            return f"holds {taken - room} {name} too many ({taken} of {room} in use)"
    return ""


def _same_instance(card: CardUse, others: Sequence[CardUse]) -> str:
    taken = [placement for other in others for placement in other.placements]
    for placement in card.placements:
        for other in taken:
            if placement.overlaps(other):
                return f"holds the MIG instance at {placement.start}"
    return ""

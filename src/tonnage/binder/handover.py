"""One pod per node at a time between its Binding and its device plugin's answer.

The kubelet tells a device plugin no pod's name, so HAMi's plugins guess it: the pod that the node's lock names, or the
first pending one. With one such pod per node the guess is right. Later binds for the node wait here, in memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tonnage.model.pod import Pod

BIND_PHASE = "hami.io/bind-phase"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
PENDING = "Pending"
SILENCE_SECONDS = 30.0
"""After so long without an answer the node gets no new pods; the one that waits there keeps its place."""


def is_allocating(pod: Pod) -> bool:
    """Whether a bound pod's device plugin has still to answer."""
    pending = pod.status.phase in (None, PENDING)
    return pod.node is not None and pending and pod.annotations.get(BIND_PHASE) == ALLOCATING


class PodHandover:
    """A pod that is being handed its devices."""

    __slots__ = ("is_over", "is_shown", "is_written", "node", "pod", "since")

    def __init__(self, node: str, pod: Pod, since: float, is_shown: bool = False) -> None:
        self.node = node
        self.pod = pod
        self.since = since
        self.is_shown = is_shown
        """Whether the watch has shown it since it came in, so that news of another of its name are later ones."""
        self.is_written = is_shown
        """Whether no write of its bind is on the way any more; until then it stays, even if the pod is gone."""
        self.is_over = False
        """Whether the plugin has nothing more to do with it."""

    def is_same(self, pod: Pod) -> bool:
        """Whether a pod is this one and not another of the same name."""
        uids = self.pod.metadata.uid, pod.metadata.uid
        return self.pod.key == pod.key and (None in uids or uids[0] == uids[1])

    def is_done(self, shown: Pod | None, is_gone: bool) -> bool:
        """Whether the node's plugin has nothing more to do with it, by what is shown of the pod of this name."""
        if shown is None:
            return is_gone
        if not self.is_same(shown):
            later = (shown.metadata.creationTimestamp or "") > (self.pod.metadata.creationTimestamp or "")
            return self.is_shown or later
        self.is_shown = True
        # Without a node it is old news of a pod whose Binding is on its way.
        return is_gone or (shown.node is not None and (shown.node != self.node or not is_allocating(shown)))


class HandoverQueue:
    """Who is being handed its devices on which node, and who waits for that."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._inside: dict[str, list[PodHandover]] = {}
        """By node; more than one only where somebody else has bound pods too."""
        self._named: dict[str, list[PodHandover]] = {}
        """The same by the pod's key."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.observer: Callable[[float], None] | None = None
        """Told how many seconds each waited, whether its turn came or not."""

    async def enter(self, node: str, pod: Pod, timeout: float) -> bool:
        """Wait for the pod's turn on the node; whether it came in time."""
        begun = self._clock()
        try:
            return await self._enter(node, pod, begun + timeout)
        finally:
            if self.observer is not None:
                self.observer(self._clock() - begun)

    async def _enter(self, node: str, pod: Pod, deadline: float) -> bool:
        while any(not handover.is_same(pod) for handover in self._inside.get(node, ())):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(node, deque()).append(turn)
            try:
                async with asyncio.timeout(deadline - self._clock()):
                    await turn
            except TimeoutError:
                self._give_up(node, turn)
                return False
            except asyncio.CancelledError:
                self._give_up(node, turn)
                raise
        if node not in self._inside:
            self._let_in(PodHandover(node, pod, self._clock()))
        return True

    def leave(self, node: str, pod: Pod) -> None:
        """The pod was answered, or never came: the next one's turn."""
        for handover in [handover for handover in self._inside.get(node, ()) if handover.is_same(pod)]:
            self._let_out(handover)

    def written(self, node: str, pod: Pod) -> None:
        """The pod is bound, or may be: its bind writes nothing more."""
        for handover in [handover for handover in self._inside.get(node, ()) if handover.is_same(pod)]:
            handover.is_written = True
            self._look(handover)

    def seen(self, key: str, pod: Pod | None, is_gone: bool) -> None:
        """Take over what the API server shows of a pod."""
        for handover in list(self._named.get(key, ())):
            handover.is_over = handover.is_over or handover.is_done(pod, is_gone)
            self._look(handover)
        if pod is None or pod.node is None or is_gone or not is_allocating(pod):
            return
        if not any(handover.is_same(pod) for handover in self._named.get(key, ())):
            # Bound by somebody else, or by this process before it started anew.
            self._let_in(PodHandover(pod.node, pod, self._clock(), is_shown=True))

    def silent(self) -> set[str]:
        """Nodes on which a pod has waited too long for its devices."""
        before = self._clock() - SILENCE_SECONDS
        return {
            node for node, handovers in self._inside.items() if any(handover.since <= before for handover in handovers)
        }

    def inside(self, node: str) -> str | None:
        """The pod that is being handed its devices."""
        return self._inside[node][0].pod.key if node in self._inside else None

    @property
    def waiting(self) -> int:
        """How many binds wait for their turn."""
        return sum(len(turns) for turns in self._waiting.values())

    def _let_in(self, handover: PodHandover) -> None:
        self._inside.setdefault(handover.node, []).append(handover)
        self._named.setdefault(handover.pod.key, []).append(handover)

    def _look(self, handover: PodHandover) -> None:
        if handover.is_over and handover.is_written:
            self._let_out(handover)

    def _let_out(self, handover: PodHandover) -> None:
        """The next one's turn comes when nobody is left."""
        for handovers, name in ((self._named, handover.pod.key), (self._inside, handover.node)):
            handovers[name].remove(handover)
            if not handovers[name]:
                del handovers[name]
        if handover.node not in self._inside:
            self._wake(handover.node)

    def _wake(self, node: str) -> None:
        turns = self._waiting.get(node)
        while turns:
            turn = turns.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if not turns:
            self._waiting.pop(node, None)

    def _give_up(self, node: str, turn: asyncio.Future[None]) -> None:
        """Stop waiting; a turn that came just then goes to the next."""
        turns = self._waiting.get(node)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[node]
        if turn.done() and not turn.cancelled() and node not in self._inside:
            self._wake(node)

"""HandoverQueue: on each node one pod at a time is between its Binding and its device plugin's answer.

The kubelet tells a device plugin no pod's name, so HAMi's plugins guess it: the pod that the node's lock names, or the
first pending one. With one such pod per node the guess is right. Later binds to the node wait here, in memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tonnage.model.pod import Pod

BIND_PHASE = "hami.io/bind-phase"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
PENDING = "Pending"
SILENCE_SECONDS = 30.0
"""After so many seconds without an answer the node gets no new pods; the pod that waits there keeps its place."""


def is_allocating(pod: Pod) -> bool:
    """Whether a bound pod still waits for its device plugin's answer."""
    pending = pod.status.phase in (None, PENDING)
    return pod.node is not None and pending and pod.annotations.get(BIND_PHASE) == ALLOCATING


class PodHandover:
    """A pod whose device plugin has not answered yet."""

    __slots__ = ("is_over", "is_shown", "is_written", "node", "pod", "since")

    def __init__(self, node: str, pod: Pod, since: float, is_shown: bool = False) -> None:
        self.node = node
        self.pod = pod
        self.since = since
        self.is_shown = is_shown
        """Whether the watch has shown the pod, so that another pod of its name is a later one."""
        self.is_written = is_shown
        """Whether the bind writes nothing more; until then the hand-over lasts, even if the pod is gone."""
        self.is_over = False
        """Whether the plugin has nothing more to do with the pod."""

    def is_same(self, pod: Pod) -> bool:
        """Whether a pod is this one, and not another of the same name."""
        uids = self.pod.metadata.uid, pod.metadata.uid
        return self.pod.key == pod.key and (None in uids or uids[0] == uids[1])

    def is_done(self, shown: Pod | None, is_gone: bool) -> bool:
        """Whether the node's plugin has nothing more to do with the pod, in view of what the watch shows."""
        if shown is None:
            return is_gone
        if not self.is_same(shown):
            later = (shown.metadata.creationTimestamp or "") > (self.pod.metadata.creationTimestamp or "")
            return self.is_shown or later
        self.is_shown = True
        # Without a node this is an old event of a pod whose Binding is being written.
        return is_gone or (shown.node is not None and (shown.node != self.node or not is_allocating(shown)))


class HandoverQueue:
    """The hand-overs in progress on each node, and the binds that wait for them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_node: dict[str, list[PodHandover]] = {}
        """More than one on a node only if another process binds pods too."""
        self._by_pod: dict[str, list[PodHandover]] = {}
        self._waiters: dict[str, deque[asyncio.Future[None]]] = {}
        """By node, the binds that wait for their turn, the first first."""
        self.observer: Callable[[float], None] | None = None
        """Called with the seconds that each bind waited, whether its turn came or not."""

    async def acquire(self, node: str, pod: Pod, timeout: float) -> bool:
        """Wait for the pod's turn on the node; whether it came in time."""
        begun = self._clock()
        try:
            return await self._acquire(node, pod, begun + timeout)
        finally:
            if self.observer is not None:
                self.observer(self._clock() - begun)

    async def _acquire(self, node: str, pod: Pod, deadline: float) -> bool:
        while any(not handover.is_same(pod) for handover in self._by_node.get(node, ())):
            turn = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(node, deque()).append(turn)
            try:
                async with asyncio.timeout(deadline - self._clock()):
                    await turn
            except TimeoutError:
                self._give_up(node, turn)
                return False
            except asyncio.CancelledError:
                self._give_up(node, turn)
                raise
        if node not in self._by_node:
            self._add(PodHandover(node, pod, self._clock()))
        return True

    def release(self, node: str, pod: Pod) -> None:
        """The pod is handed over or was not bound: the next pod gets its turn."""
        for handover in [handover for handover in self._by_node.get(node, ()) if handover.is_same(pod)]:
            self._remove(handover)

    def written(self, node: str, pod: Pod) -> None:
        """The pod is bound, or may be: its bind writes nothing more."""
        for handover in [handover for handover in self._by_node.get(node, ()) if handover.is_same(pod)]:
            handover.is_written = True
            self._remove_if_done(handover)

    def seen(self, key: str, pod: Pod | None, is_gone: bool) -> None:
        """Take over what the watch shows of a pod."""
        for handover in list(self._by_pod.get(key, ())):
            handover.is_over = handover.is_over or handover.is_done(pod, is_gone)
            self._remove_if_done(handover)
        if pod is None or pod.node is None or is_gone or not is_allocating(pod):
            return
        if not any(handover.is_same(pod) for handover in self._by_pod.get(key, ())):
            # Bound by another process, or by this one before a restart.
            self._add(PodHandover(pod.node, pod, self._clock(), is_shown=True))

    def silent(self) -> set[str]:
        """Nodes whose device plugin has not answered for 30 seconds."""
        before = self._clock() - SILENCE_SECONDS
        return {
            node for node, handovers in self._by_node.items() if any(handover.since <= before for handover in handovers)
        }

    def holder(self, node: str) -> str | None:
        """The pod that is being handed its devices on the node."""
        return self._by_node[node][0].pod.key if node in self._by_node else None

    @property
    def waiting(self) -> int:
        """How many binds wait for their turn."""
        return sum(len(waiters) for waiters in self._waiters.values())

    def _add(self, handover: PodHandover) -> None:
        self._by_node.setdefault(handover.node, []).append(handover)
        self._by_pod.setdefault(handover.pod.key, []).append(handover)

    def _remove_if_done(self, handover: PodHandover) -> None:
        if handover.is_over and handover.is_written:
            self._remove(handover)

    def _remove(self, handover: PodHandover) -> None:
        """End a hand-over; if it was the node's last, the next pod gets its turn."""
        for handovers, name in ((self._by_pod, handover.pod.key), (self._by_node, handover.node)):
            handovers[name].remove(handover)
            if not handovers[name]:
                del handovers[name]
        if handover.node not in self._by_node:
            self._notify(handover.node)

    def _notify(self, node: str) -> None:
        waiters = self._waiters.get(node)
        while waiters:
            turn = waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if not waiters:
            self._waiters.pop(node, None)

    def _give_up(self, node: str, turn: asyncio.Future[None]) -> None:
        """Stop waiting; a turn that came just now goes to the next pod."""
        waiters = self._waiters.get(node)
        if waiters is not None and turn in waiters:
            waiters.remove(turn)
            if not waiters:
                del self._waiters[node]
        if turn.done() and not turn.cancelled() and node not in self._by_node:
            self._notify(node)

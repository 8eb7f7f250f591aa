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


class Gates:
    """Who is being handed its devices on which node, and who waits for that."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._inside: dict[str, tuple[str, float]] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.observer: Callable[[float], None] | None = None
        """Told how many seconds each waited, whether its turn came or not."""

    async def enter(self, node: str, pod: str, timeout: float) -> bool:
        """Wait for the pod's turn on the node; whether it came in time."""
        begun = self._clock()
        try:
            return await self._enter(node, pod, begun + timeout)
        finally:
            if self.observer is not None:
                self.observer(self._clock() - begun)

    async def _enter(self, node: str, pod: str, deadline: float) -> bool:
        while self._inside.get(node, (pod, 0.0))[0] != pod:
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
        self._inside[node] = (pod, self._clock())
        return True

    def leave(self, node: str, pod: str) -> None:
        """The pod was answered, or never came: the next one's turn."""
        if self._inside.get(node, ("", 0.0))[0] == pod:
            del self._inside[node]
            self._wake(node)

    def seen(self, key: str, pod: Pod | None, is_gone: bool) -> None:
        """Take over what the API server shows of a pod."""
        if is_gone:
            for node in [node for node, (inside, _) in self._inside.items() if inside == key]:
                self.leave(node, key)
        elif pod is None or pod.node is None:
            # Nothing that can be read, or old news of a pod whose Binding is on its way.
            return
        elif not is_allocating(pod):
            self.leave(pod.node, key)
        elif pod.node not in self._inside:
            # Bound by somebody else, or by this process before it started anew.
            self._inside[pod.node] = (key, self._clock())

    def silent(self) -> set[str]:
        """Nodes on which a pod has waited too long for its devices."""
        now = self._clock()
        return {node for node, (_, since) in self._inside.items() if now - since >= SILENCE_SECONDS}

    def inside(self, node: str) -> str | None:
        """The pod that is being handed its devices."""
        return self._inside[node][0] if node in self._inside else None

    @property
    def waiting(self) -> int:
        """How many binds wait for their turn."""
        return sum(len(turns) for turns in self._waiting.values())

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

"""HandoverQueue: on each node one pod at a time is between its Binding and its device plugin's answer.

The kubelet tells a device plugin no pod's name, so HAMi's plugins guess it: the pod that the node's lock names, or the
first pending one. With one such pod per node the guess is right. Later binds to the node wait here, in memory. An agent
asks the kubelet instead of guessing: on its node no pod waits.

Tenants may write the annotations that say how far a pod is, so they are believed only within bounds. A pod takes part
only if the kubelet asks a device plugin of its node for it, whatever its scheduler's name. It takes part once: what is
written after the plugin's answer changes nothing. A pod that this process did not bind keeps others waiting for 30
seconds at most and silences no node; if its plugin is really dead, the next pod that this process binds there shows it.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import containers_of
from tonnage.devices.base import PLAIN_MODE, RequestError, Vendor, whole_number
from tonnage.model.annotations import AGENT, ALLOCATING, BIND_PHASE
from tonnage.model.node import Node
from tonnage.model.pod import Pod

BIND_TIME = "hami.io/bind-time"
NODE_ANNOTATION = "hami.io/vgpu-node"
PENDING = "Pending"
SILENCE_SECONDS = 30.0
"""After so many seconds without an answer the node gets no new pods; the pod that waits there keeps its place."""


def is_allocating(pod: Pod) -> bool:
    """Whether a bound pod still waits for its device plugin's answer."""
    pending = pod.status.phase in (None, PENDING)
    return pod.node is not None and pending and pod.annotations.get(BIND_PHASE) == ALLOCATING


def has_agent(node: Node, vendor: Vendor) -> bool:
    """Whether the node's agent serves the vendor's cards: the kubelet offers none once the agent is gone."""
    return vendor.is_served_by_agent and AGENT in node.annotations and vendor.is_offered(node)


class GuessingPlugins:
    """The device plugins of a cluster that guess which pod the kubelet asks about; on unknown nodes there is one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._vendors = {vendor.count_resource: number for number, vendor in enumerate(cluster.vendors)}

    def serve(self, node: str) -> bool:
        """Whether there is one on a node: it may take any pending pod that was bound there with cards for another."""
        state = self._cluster.nodes.get(node)
        return state is None or any(self._guesses(state, number) for number in set(state.vendors))

    def are_asked(self, pod: Pod, node: str) -> bool:
        """Whether the kubelet of a node asks one for the cards that it counts for a pod."""
        state = self._cluster.nodes.get(node)
        for container, _ in containers_of(pod):
            requested = {*(container.resources.limits or ()), *(container.resources.requests or ())}
            for name in requested & self._vendors.keys():
                try:
                    count = whole_number(container, name)
                except RequestError:
                    count = 1
                if count and (state is None or self._guesses(state, self._vendors[name])):
                    return True
        return False

    def _guesses(self, state: NodeState, number: int) -> bool:
        """Whether one registers cards of a vendor on the node."""
        if has_agent(state.node, self._cluster.vendors[number]):
            return False
        pairs = zip(state.vendors, state.devices, strict=True)
        return any(owner == number and device.mode != PLAIN_MODE for owner, device in pairs)


class PodHandover:
    """A pod whose device plugin has not answered yet."""

    __slots__ = ("is_foreign", "is_over", "is_shown", "is_written", "node", "pod", "since")

    def __init__(self, node: str, pod: Pod, since: float, is_foreign: bool = False) -> None:
        self.node = node
        self.pod = pod
        self.since = since
        self.is_foreign = is_foreign
        """Whether another process bound the pod, or this one before a restart, or nobody but the pod's author."""
        self.is_shown = is_foreign
        """Whether the watch has shown the pod, so that another pod of its name is a later one."""
        self.is_written = is_foreign
        """Whether the bind writes nothing more; until then the hand-over lasts, even if the pod is gone."""
        self.is_over = False
        """Whether the plugin has nothing more to do with the pod."""

    def is_same(self, pod: Pod) -> bool:
        """Whether a pod is this one, and not another of the same name."""
        uids = self.pod.metadata.uid, pod.metadata.uid
        return self.pod.key == pod.key and (None in uids or uids[0] == uids[1])

    def is_done(self, shown: Pod | None, is_gone: bool, is_waiting: bool) -> bool:
        """Whether the node's plugin has nothing more to do with the pod, in view of what the watch shows."""
        if shown is None:
            return is_gone
        if not self.is_same(shown):
            later = (shown.metadata.creationTimestamp or "") > (self.pod.metadata.creationTimestamp or "")
            return self.is_shown or later
        self.is_shown = True
        # Without a node this is an old event of a pod whose Binding is being written.
        return is_gone or (shown.node is not None and (shown.node != self.node or not is_waiting))


class HandoverQueue:
    """The hand-overs in progress on each node, and the binds that wait for them."""

    def __init__(self, clock: Callable[[], float], plugins: GuessingPlugins | None = None) -> None:
        self._clock = clock
        self._plugins = plugins
        """Without them every node has one, which is asked for every pod."""
        self._answered: dict[str, str] = {}
        """The UIDs of pending pods that have nothing more to wait for."""
        self._by_node: dict[str, list[PodHandover]] = {}
        """More than one on a node only if another process binds pods too."""
        self._by_pod: dict[str, list[PodHandover]] = {}
        self._foreign: list[PodHandover] = []
        """Those of pods that this process did not bind, the oldest first."""
        self._waiters: dict[str, deque[asyncio.Future[None]]] = {}
        """By node, the binds that wait for their turn, the first first."""
        self._late: set[str] = set()
        """Nodes at which a bind has waited for too long; until nobody waits there any more."""
        self.observer: Callable[[float], None] | None = None
        """Called with the seconds that each bind waited, whether its turn came or not."""

    async def acquire(self, node: str, pod: Pod, timeout: float) -> bool:
        """Wait for the turn of a pod with cards; whether it came in time. Where nobody guesses, it is now."""
        if self._plugins is not None and not self._plugins.serve(node):
            return True
        begun = self._clock()
        try:
            return await self._acquire(node, pod, begun + timeout)
        finally:
            if self.observer is not None:
                self.observer(self._clock() - begun)

    async def _acquire(self, node: str, pod: Pod, deadline: float) -> bool:
        self._end_foreign()
        while any(not handover.is_same(pod) for handover in self._by_node.get(node, ())):
            turn = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(node, deque()).append(turn)
            try:
                async with asyncio.timeout(deadline - self._clock()):
                    await turn
            except TimeoutError:
                # The node may have become free since the time was up, and nobody would say so again.
                if node in self._by_node:
                    self._late.add(node)
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
        is_waiting = pod is not None and not is_gone and self._is_waiting(pod)
        for handover in list(self._by_pod.get(key, ())):
            handover.is_over = handover.is_over or handover.is_done(pod, is_gone, is_waiting)
            self._remove_if_done(handover)
        if pod is None or pod.node is None or is_gone or pod.status.phase not in (None, PENDING):
            self._answered.pop(key, None)
        elif not is_waiting:
            self._answered[key] = pod.metadata.uid or ""
        elif not any(handover.is_same(pod) for handover in self._by_pod.get(key, ())):
            self._add(PodHandover(pod.node, pod, self._clock(), is_foreign=True))

    def _is_waiting(self, pod: Pod) -> bool:
        """Whether a pod still waits for its device plugin's first answer."""
        uid = pod.metadata.uid
        is_answered = uid is not None and self._answered.get(pod.key) == uid
        is_asked = self._plugins is None or self._plugins.are_asked(pod, pod.node or "")
        return is_asked and not is_answered and is_allocating(pod)

    def silent(self) -> set[str]:
        """Nodes whose device plugin has not answered for 30 seconds about a pod that this process bound."""
        self._end_foreign()
        before = self._clock() - SILENCE_SECONDS
        return {
            node for node, handovers in self._by_node.items() if any(handover.since <= before for handover in handovers)
        }

    def busy(self) -> set[str]:
        """Nodes at which a bind has waited for too long and whose device plugin still serves other pods."""
        self._end_foreign()
        return set(self._late)

    def _end_foreign(self) -> None:
        """Wait no longer for pods that this process did not bind and whose plugin has not answered for 30 seconds."""
        before = self._clock() - SILENCE_SECONDS
        while self._foreign and self._foreign[0].since <= before:
            late = self._foreign[0]
            self._answered[late.pod.key] = late.pod.metadata.uid or ""
            self._remove(late)

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
        if handover.is_foreign:
            self._foreign.append(handover)

    def _remove_if_done(self, handover: PodHandover) -> None:
        if handover.is_over and handover.is_written:
            self._remove(handover)

    def _remove(self, handover: PodHandover) -> None:
        """End a hand-over; if it was the node's last, the next pod gets its turn."""
        if handover.is_foreign:
            self._foreign.remove(handover)
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
        else:
            self._late.discard(node)
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

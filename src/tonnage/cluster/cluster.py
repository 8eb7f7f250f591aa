"""The one picture of the world, kept current by events.

Nodes and pods are added, changed and removed; placements are reserved, confirmed and released. Each event writes the
rows it concerns; usage is never recounted for a decision. What is wrong with an object is kept as a problem beside it.
"""

from collections.abc import Iterator, Sequence

from tonnage.cluster.holding import Holding, VendorUse, card_uses, group_uses
from tonnage.cluster.implicitdevices import assign, found_uses, keep_seats, make_way, release
from tonnage.cluster.jobs.index import JobIndex
from tonnage.cluster.jobs.job import LEAVING, PIPELINED, PLACED, RUNNING, WAITING
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.podindex import PodIndex
from tonnage.cluster.rows import Rows
from tonnage.cluster.surroundings import Surroundings
from tonnage.cluster.task import Task, TaskMaker
from tonnage.cluster.topology import Membership, membership, topology_problems
from tonnage.devices.base import DecodeError, PodUses, Vendor
from tonnage.model.hypernode import HyperNode
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem, annotation_field
from tonnage.model.storage import Namespace, Surrounding
from tonnage.model.topology import Topology

Grant = tuple[tuple[int, PodUses], ...]
"""Per vendor, the slices that a pod's containers were given."""


class Cluster(Rows):
    """Nodes, devices and pods."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        super().__init__(vendors)
        self._tasks = TaskMaker(self.vendors)
        self.waiting: dict[str, Task] = {}
        """Pods without a node, which nothing was reserved for."""
        self.reserved: dict[str, Task] = {}
        """Pods whose placement was decided and is not confirmed yet."""
        self.running: dict[str, Task] = {}
        """Pods that have a node."""
        self.promised: set[str] = set()
        """Reserved pods whose place others have to leave first."""
        self.holders: dict[str, str] = {}
        """The node of each pod that holds something."""
        self.hypernodes: dict[str, HyperNode] = {}
        self.topologies: dict[str, Topology] = {}
        self.topology_version = 0
        """Goes up whenever HyperNodes, nodes or their labels change."""
        self._membership: tuple[int, Membership] = -1, Membership({}, [])
        self.groups = JobIndex(self.status)
        """Jobs, queues and priority classes."""
        self.queues = self.groups.queues
        self.surroundings = Surroundings()
        self.placed = PodIndex(self.columns, self.nodes, self.surroundings.namespaces, self._everyone)
        """Pods with a node, by what rules about other pods ask."""
        self.now: float | None = None
        """Seconds since 1970, as whoever uses the cluster tells it; nothing if nobody does."""
        self._orphans: dict[str, dict[str, Holding]] = {}
        self._pod_problems: dict[str, list[Problem]] = {}

    # -- nodes

    def upsert_node(self, node: Node) -> None:
        """Add a node or take over its change; one that says nothing new costs nothing."""
        state = self.nodes.get(node.name)
        is_new = state is None
        if state is None:
            state = NodeState(self.columns.append())
            self.states.append(state)
            self.nodes[node.name] = state
            state.holdings = self._orphans.pop(node.name, {})
            self.labels.forget()
            self.images.forget()
            self.topology_version += 1
        elif state.node == node:
            return
        else:
            self.topology_version += state.node.labels != node.labels
            self._index_cards(state, -1)
            self._reset_foreign(state)
            self.labels.change(state.row, node)
            self.images.change(state.row, node)
            self.images.count(state.node, -1)
        state.read(self.images.shared(node), self.vendors)
        self.images.count(node, 1)
        self._index_cards(state, 1)
        self._write(state)
        if is_new:
            # Pods that were there before their node are taken in as if they came now, in the order in which they came.
            for key in state.holdings:
                self._take_in(state, key)
        else:
            keep_seats(state)
            for key, holding in state.holdings.items():
                if self._counts_now(key):
                    self._apply(state, holding, () if key in state.loose else holding.vendors, 1)
            for key in state.loose:
                self._seat(state, key)
        self.columns.touch(state.row)

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods are kept aside until they go or the node comes back."""
        state = self.nodes.pop(name, None)
        if state is None:
            return
        self.topology_version += 1
        self._index_cards(state, -1)
        self._reset_foreign(state)
        self.images.count(state.node, -1)
        self.columns.remove(state.row)
        for key in state.loose:
            self._note(key, state.holdings[key].vendors)
        if state.holdings:
            self._orphans[name] = state.holdings

    # -- HyperNodes

    def upsert_hypernode(self, hypernode: HyperNode) -> None:
        """Add a HyperNode or take over its change."""
        if self.hypernodes.get(hypernode.name) != hypernode:
            self.hypernodes[hypernode.name] = hypernode
            self._change_topology()

    def remove_hypernode(self, name: str) -> None:
        """Forget a HyperNode; its nodes stay."""
        if self.hypernodes.pop(name, None) is not None:
            self._change_topology()

    def upsert_topology(self, topology: Topology) -> None:
        """Add a Topology or take over its change."""
        self.topologies[topology.name] = topology

    def remove_topology(self, name: str) -> None:
        """Forget a Topology; jobs that require one of its levels wait."""
        self.topologies.pop(name, None)

    def membership(self) -> Membership:
        """Which nodes are in which HyperNode, and what is wrong with HyperNodes."""
        version, known = self._membership
        if version != self.topology_version:
            known = membership(self.hypernodes, {name: state.node for name, state in self.nodes.items()})
            self._membership = self.topology_version, known
        return known

    def _change_topology(self) -> None:
        self.topology_version += 1
        # What is known about pods may depend on it, although no row has changed.
        self.columns.layout += 1

    # -- pods

    def upsert_pod(self, pod: Pod) -> None:
        """Add a pod or take over its change."""
        key = pod.key
        if pod.is_over or (pod.is_leaving and pod.node is None):
            self.remove_pod(key)
            if pod.has_succeeded:
                self.groups.finish(pod)
            return
        task = self._tasks.make(pod)
        if pod.node is None:
            # A device annotation without a node is a left-over of an attempt that came to nothing: it counts nothing.
            self.restore(key)
            self.running.pop(key, None)
            # A pod of the same name that is not the same pod gets nothing of what the other one was promised.
            if key in self.reserved and self.reserved[key].uid == task.uid:
                self.reserved[key] = task
                self._stand(task, self.holders[key])
            else:
                self.reserved.pop(key, None)
                self.promised.discard(key)
                self._let_go(key)
                self.waiting[key] = task
            self.groups.put(task, self.status(key))
            self._pod_problems.pop(key, None)
            return
        self.waiting.pop(key, None)
        self.reserved.pop(key, None)
        self.promised.discard(key)
        self.running[key] = task
        self.groups.put(task, self.status(key))
        problems: list[Problem] = []
        holding = Holding(pod.node, task.requests, tuple(self._uses_of(task, problems)), task.unstated)
        if task.fault:
            problems.append(Problem(f"Pod/{key}", "spec.containers", "", "requests that can be read", task.fault))
        if problems:
            self._pod_problems[key] = problems
        else:
            self._pod_problems.pop(key, None)
        self._replace(key, holding)
        self._stand(task, pod.node)
        if pod.is_leaving:
            self.evict(key)
        else:
            self.restore(key)

    def pods(self) -> set[str]:
        """Every pod that waits, or holds something, or has something reserved."""
        return {*self.waiting, *self.reserved, *self.holders}

    def remove_pod(self, key: str) -> None:
        """Forget a pod and free what it held."""
        for tasks in (self.waiting, self.reserved, self.running):
            tasks.pop(key, None)
        self._pod_problems.pop(key, None)
        self._let_go(key)
        self.leaving.discard(key)
        self.promised.discard(key)
        self.groups.drop(key)

    def status(self, key: str) -> int:
        """Where a pod stands; one that is not known waits."""
        if key in self.running:
            return LEAVING if key in self.leaving else RUNNING
        if key in self.reserved:
            return PIPELINED if key in self.promised else PLACED
        return WAITING

    def _moved(self, key: str) -> None:
        """Tell a pod's job where it stands now."""
        job = self.groups.of_pod.get(key)
        if job is not None:
            job.move(key, self.status(key))

    def promise(self, key: str) -> None:
        """A reserved pod waits after all, with the place that it has."""
        if key in self.reserved:
            self.promised.add(key)
            self._moved(key)

    def _replace(self, key: str, holding: Holding) -> None:
        """Take over what a running pod holds; a card that it has without naming it stays its own."""
        held = self.held(key)
        if held == holding:
            return
        before: list[str] = []
        if held is not None and held.node == holding.node:
            state = self.nodes.get(held.node)
            if state is None:
                self._orphans[held.node][key] = holding
                self._note(key, holding.vendors)
                return
            before = [card.uuid for use in state.uses(key) for card in use.cards]
        left = self._let_go(key, fill_up=False)
        self.holders[key] = holding.node
        state = self.nodes.get(holding.node)
        if state is None:
            self._orphans.setdefault(holding.node, {})[key] = holding
            self._note(key, holding.vendors)
        else:
            state.holdings[key] = holding
            self._take_in(state, key, before)
        if left is not None and left.loose:
            self._fill_up(left)

    # -- placements

    def reserve(self, task: Task, node: str, grant: Grant) -> None:
        """Hold a decided placement; an earlier one of the same pod is given up first."""
        vendors = tuple(
            [
                VendorUse(number, card_uses(task.kinds, uses, self.vendors[number], task.annotations))
                for number, uses in grant
            ]
        )
        self.reserve_holding(task, Holding(node, task.requests, vendors, task.unstated))

    def reserve_holding(self, task: Task, holding: Holding) -> None:
        """Hold for a pod what a reservation of it holds elsewhere."""
        self._let_go(task.key)
        self.leaving.discard(task.key)
        self.waiting.pop(task.key, None)
        self.running.pop(task.key, None)
        self.reserved[task.key] = task
        if self.is_ahead:
            self.promised.add(task.key)
        else:
            self.promised.discard(task.key)
        self._moved(task.key)
        self._hold(task.key, holding)
        if task.rules is not None or self.placed.awake:
            self.placed.put(task, holding.node)

    def confirm(self, key: str) -> None:
        """A reserved placement has become real: the pod runs."""
        task = self.reserved.pop(key, None)
        if task is not None:
            self.running[key] = task
            self.promised.discard(key)
            self._moved(key)

    def release(self, key: str) -> None:
        """Undo a reservation; the pod waits again."""
        task = self.reserved.pop(key, None)
        if task is not None:
            self._let_go(key)
            self.waiting[key] = task
            self.promised.discard(key)
            self._moved(key)

    # -- looking ahead

    def evict(self, key: str) -> bool:
        """A running pod is on its way out; whether it was not before."""
        if key not in self.running or key in self.leaving:
            return False
        self._count(key, -1)
        self.leaving.add(key)
        self._moved(key)
        return True

    def restore(self, key: str) -> bool:
        """A pod stays after all; whether it was on its way out."""
        if key not in self.leaving:
            return False
        self.leaving.discard(key)
        self._count(key, 1)
        self._moved(key)
        return True

    def look_ahead(self, ahead: bool) -> None:
        """Show the cluster as it will be once the leaving pods have left, or as it is."""
        if ahead == self.is_ahead:
            return
        self.is_ahead = True
        for key in self.leaving:
            self._count(key, -1 if ahead else 1)
        self.is_ahead = ahead

    def _count(self, key: str, sign: int) -> None:
        """Add or take away what a pod holds, if the columns show the cluster without those that leave."""
        node, task = self.holders[key], self.running[key]
        state = self.nodes.get(node)
        if not self.is_ahead:
            if state is not None:
                self.columns.touch(state.row)
            return
        uses = self._orphans[node][key].vendors if state is None else state.uses(key)
        if state is not None:
            self._apply(state, state.holdings[key], uses, sign)
        self.quotas.hold(key, uses if sign > 0 else ())
        if sign < 0:
            self.placed.drop(key)
        elif task.rules is not None or self.placed.awake:
            self.placed.put(task, node)

    def _note(self, key: str, uses: Sequence[VendorUse]) -> None:
        """Say what a pod holds of cards to the quotas of its namespace."""
        if self._counts_now(key):
            self.quotas.hold(key, uses)

    # -- namespaces and storage

    def upsert_surrounding(self, thing: Surrounding) -> None:
        """Add a namespace or a part of storage, or take over its change; one that says nothing new costs nothing."""
        if self.surroundings.upsert(thing):
            self._forget_answers(thing)

    def remove_surrounding(self, thing: Surrounding) -> None:
        """Forget a namespace or a part of storage."""
        self.surroundings.remove(thing)
        self._forget_answers(thing)

    def _forget_answers(self, thing: Surrounding) -> None:
        """What was found out about nodes may be different now for any of them."""
        if isinstance(thing, Namespace):
            self.placed.forget()
        self.columns.layout += 1

    # -- what is wrong

    def problems(self) -> Iterator[Problem]:
        """All that is wrong with nodes, HyperNodes, Topologies, groups, quotas and pods, each in the order of names."""
        for name in sorted(self.nodes):
            state = self.nodes[name]
            yield from state.problems
            for uuid in state.positions:
                first = min(self.cards[uuid])
                if first != name:
                    message = f"{uuid} is registered on node {first} too; both count"
                    yield Problem(f"Node/{name}", "devices", uuid, "every UUID on one node", message)
        yield from self.membership().problems
        for name in sorted(self.topologies):
            yield from topology_problems(self.topologies[name])
        yield from self.groups.problems()
        yield from self.quotas.problems()
        for key in sorted(self._pod_problems.keys() | self.holders.keys()):
            yield from self._pod_problems.get(key, ())
            if key in self.holders:
                yield from self._problems_of(key)

    def _problems_of(self, key: str) -> Iterator[Problem]:
        name = f"Pod/{key}"
        node = self.holders[key]
        state = self.nodes.get(node)
        if state is None:
            yield Problem(
                name, "spec.nodeName", "", "a known node", f"node {node} is not known; the pod counts nowhere"
            )
            return
        for use in state.uses(key):
            vendor = self.vendors[use.vendor]
            if use.unknown and key not in self._pod_problems:
                message = (
                    f"holds {use.unknown} {vendor.count_resource} on {node} without saying which cards; "
                    f"they count against the node's slots, and none of its cards is given out whole"
                )
                yield Problem(name, annotation_field(vendor.allocated), "", "the cards the pod was given", message)
            for card in use.cards:
                if state.position(card.uuid, use.vendor) is None:
                    message = f"node {node} has no {vendor.name} card {card.uuid}; counted against the node's slots"
                    yield Problem(name, annotation_field(vendor.allocated), card.uuid, f"a card of {node}", message)

    # -- holdings

    def _uses_of(self, task: Task, problems: list[Problem]) -> Iterator[VendorUse]:
        """What a running pod's annotations say it holds, or how much it must hold without saying so."""
        counts = dict(task.requests)
        for number, vendor in enumerate(self.vendors):
            uses = None
            if vendor.allocated in task.annotations:
                try:
                    uses = vendor.decode_pod(task.pod)
                except DecodeError as error:
                    message = f"{error.message}; the pod is counted without knowing its cards"
                    field = annotation_field(vendor.allocated)
                    problems.append(Problem(f"Pod/{task.key}", field, error.position, error.expected, message))
            cards = card_uses(task.kinds, uses, vendor, task.annotations) if uses else ()
            groups = group_uses(task, vendor, cards) if vendor.sharing_annotations else ()
            if cards or groups:
                yield VendorUse(number, cards, groups=groups)
            elif counts.get(vendor.count_resource, 0) > 0:
                yield VendorUse(number, unknown=counts[vendor.count_resource])

    def held(self, key: str) -> Holding | None:
        """What a pod holds, on a node that may not be known."""
        node = self.holders.get(key)
        if node is None:
            return None
        state = self.nodes.get(node)
        return (state.holdings if state is not None else self._orphans[node]).get(key)

    def _hold(self, key: str, holding: Holding) -> None:
        self.holders[key] = holding.node
        self._note(key, holding.vendors)
        state = self.nodes.get(holding.node)
        if state is None:
            self._orphans.setdefault(holding.node, {})[key] = holding
            return
        state.holdings[key] = holding
        if self._counts_now(key):
            self._apply(state, holding, holding.vendors, 1)

    def _everyone(self) -> Iterator[tuple[Task, str]]:
        """Every pod with a node, known or not."""
        for key, node in self.holders.items():
            if self._counts_now(key):
                yield self.running.get(key) or self.reserved[key], node

    def _stand(self, task: Task, node: str) -> None:
        """Note what a pod on a node means to others; labels may change while what it holds does not."""
        if not self._counts_now(task.key):
            return
        if task.rules is not None or self.placed.awake or task.key in self.placed.spots:
            state = self.nodes.get(node)
            if self.placed.put(task, node) and state is not None:
                self.columns.touch(state.row)

    def _take_in(self, state: NodeState, key: str, before: Sequence[str] = ()) -> None:
        """Write down a pod that has come to a node, with cards for what it does not name."""
        holding = state.holdings[key]
        moving = make_way(state, holding) if state.seats else []
        for other in moving:
            self._apply_loose(state, other, -1)
        if holding.is_loose:
            assign(state, self.columns, key, holding, before)
            state.loose[key] = found_uses(state, key, holding)
        if self._counts_now(key):
            self._apply(state, holding, state.uses(key), 1)
        self._note(key, state.uses(key))
        for other in moving:
            self._seat(state, other)
        if holding.knows_cards_of_groups:
            self._fill_up(state)

    def _seat(self, state: NodeState, key: str) -> None:
        """Write down the cards of a pod that does not name them, with seats if it has none."""
        holding = state.holdings[key]
        assign(state, self.columns, key, holding)
        state.loose[key] = found_uses(state, key, holding)
        self._apply_loose(state, key, 1)
        self._note(key, state.loose[key])

    def _apply_loose(self, state: NodeState, key: str, sign: int) -> None:
        if self._counts_now(key):
            self._apply_cards(state, state.loose[key], sign)

    def adopt_seats(self, other: "Cluster") -> None:
        """Give pods that do not name their cards those that they have in another picture of the same world."""
        for name in self.nodes.keys() & other.nodes.keys():
            state = self.nodes[name]
            for key in state.loose:
                self._apply_loose(state, key, -1)
            state.seats = dict(other.nodes[name].seats)
            keep_seats(state)
            for key in state.loose:
                self._seat(state, key)

    def _fill_up(self, state: NodeState) -> None:
        """Give free cards to pods of a node that hold some for which there was no room.

        Not while looking ahead: cards that look free then may be those of pods that have not left yet.
        """
        for key, uses in state.loose.items():
            if not self.is_ahead and any(use.unknown for use in uses):
                self._apply_loose(state, key, -1)
                self._seat(state, key)

    def _let_go(self, key: str, fill_up: bool = True) -> NodeState | None:
        """Free what a pod holds; the node it was on, if that is known."""
        node = self.holders.pop(key, None)
        if node is None:
            return None
        self.quotas.hold(key, ())
        if self.placed.spots:
            self.placed.drop(key)
        state = self.nodes.get(node)
        if state is None:
            aside = self._orphans[node]
            del aside[key]
            if not aside:
                del self._orphans[node]
            return None
        if self._counts_now(key):
            self._apply(state, state.holdings[key], state.uses(key), -1)
        holding = state.holdings.pop(key)
        if state.loose:
            if state.loose.pop(key, None) is not None:
                release(state, key, holding)
            if fill_up:
                self._fill_up(state)
        return state

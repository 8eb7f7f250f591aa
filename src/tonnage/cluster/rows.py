"""The rows of nodes: the columns with everything that writes them, and nodes and cards by name.

Every node has a row. A change of the node rewrites its row; pods then add what they hold to it and subtract it again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tonnage.cluster.columns import (
    CORES,
    COUNTED,
    FREE,
    LARGEST,
    MEMORY,
    SLOTS,
    UNLIMITED,
    USED,
    Array,
    CardModel,
    Columns,
    Nodes,
)
from tonnage.cluster.holding import Holding, VendorUse
from tonnage.cluster.images import Images
from tonnage.cluster.labels import LabelColumn, Labels
from tonnage.cluster.memo import Memo
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Requests
from tonnage.devices.base import MIG_MODE, PLAIN_MODE, Vendor
from tonnage.model.node import Node
from tonnage.model.problem import Problem
from tonnage.model.resources import NATIVE, UNSTATED, Additions


class Rows:
    """The nodes as rows of the columns; which pods they hold is the business of `Holdings`."""

    def __init__(self, vendors: tuple[Vendor, ...]) -> None:
        self.vendors = vendors
        self._counts = {vendor.count_resource for vendor in vendors}
        self.columns = Columns(len(vendors))
        self.labels = Labels()
        self.images = Images()
        self.states: list[NodeState] = []
        """By row; the list is the same one for ever."""
        self.nodes: dict[str, NodeState] = {}
        self.cards: dict[str, list[str]] = {}
        """Nodes that register a card of that UUID."""
        self._vectors: Memo[Requests, Array] = Memo()
        self._changes: Memo[tuple[Requests, Additions], Array] = Memo()

    # -- nodes

    def read(self, node: Node) -> NodeState:
        """Read a node object, which changes nothing."""
        state = NodeState()
        state.read(self.images.shared(node), self.vendors)
        return state

    def add(self, state: NodeState) -> None:
        """Append a row for a new node; `write` fills it."""
        state.row = self.columns.append()
        self.states.append(state)
        self.nodes[state.name] = state
        self.labels.forget()
        self.images.forget()
        self._index(state)

    def change(self, state: NodeState, news: NodeState) -> None:
        """Take over what was read of a changed node; `write` then rewrites its row."""
        self._index_cards(state, -1)
        self._reset_foreign(state)
        self.labels.change(state.row, news.node)
        self.images.change(state.row, news.node)
        self.images.count(state.node, -1)
        state.adopt(news)
        self._index(state)

    def _index(self, state: NodeState) -> None:
        self.images.count(state.node, 1)
        self._index_cards(state, 1)

    def remove(self, name: str) -> NodeState | None:
        """Forget a node; its last state, if it was known."""
        state = self.nodes.pop(name, None)
        if state is not None:
            self._index_cards(state, -1)
            self._reset_foreign(state)
            self.images.count(state.node, -1)
            self.columns.remove(state.row)
        return state

    def rebuild(self) -> None:
        """Write all rows anew from what was read of the nodes, as if no pod held anything."""
        self.states[:] = [self.nodes[name] for name in sorted(self.nodes)]
        self.cards.clear()
        self.labels.forget()
        self.images.forget()
        self.images.spread.clear()
        self._vectors.clear()
        self._changes.clear()
        self.columns.allot(len(self.states))
        for row, state in enumerate(self.states):
            state.row = row
            self._index(state)
            self.add_resources(state.offers)
        for state in self.states:
            self.write(state)

    # -- reading

    def settle(self) -> None:
        """Bring rows into the order of node names; call it before reading columns."""
        if self.columns.dense:
            return
        order = self.columns.settle([state.name for state in self.states])
        self.states[:] = [self.states[row] for row in order.tolist()]
        for row, state in enumerate(self.states):
            state.row = row
        self.labels.forget()
        self.images.forget()

    def all_nodes(self) -> Nodes:
        """Every node, in the order of names."""
        self.settle()
        return Nodes(self.columns)

    def mask(self, names: Iterable[str]) -> Array:
        """Which nodes have one of the names, as a column; names of unknown nodes are passed over."""
        self.settle()
        result = np.zeros(len(self.states), np.bool_)
        nodes = self.nodes
        result[[nodes[name].row for name in names if name in nodes]] = True
        return result

    def label(self, key: str) -> LabelColumn:
        """A label of all nodes as a column."""
        return self.labels.column(key, lambda: (state.node for state in self.states))

    def image(self, name: str) -> Array:
        """How large an image is on each node; 0 where it is not."""
        return self.images.column(name, lambda: (state.node for state in self.states))

    def vector(self, requests: Requests) -> Array:
        """Requests as a column over the resources that nodes know; others are left out."""
        known = self._vectors.get(requests)
        if known is None:
            known = np.zeros(len(self.columns.resources), np.int64)
            for name, value in requests:
                position = self.columns.resources.get(name)
                if position is not None:
                    known[position] = min(value, LARGEST)
            self._vectors.keep(requests, known)
        return known

    # -- writing

    def change_by(self, holding: Holding) -> Array:
        """How a pod that holds this changes the amounts of its node, as (kind, resources)."""
        key = (holding.requests, holding.unstated)
        known = self._changes.get(key)
        if known is None:
            vector = self.vector(holding.requests)
            known = np.zeros((4, len(vector)), np.int64)
            known[FREE], known[USED], known[COUNTED] = -vector, vector, vector
            for name, more in zip(UNSTATED, holding.unstated, strict=True):
                known[COUNTED, self.columns.resources[name]] += more
            self._changes.keep(key, known)
        return known

    def add_resources(self, names: Iterable[str]) -> list[int]:
        """Make room for resources that no node offered before; their positions."""
        new = [name for name in names if name not in self.columns.resources]
        if new:
            self._vectors.clear()
            self._changes.clear()
        return [self.columns.add_resource(name, UNLIMITED if name in self._counts else 0) for name in new]

    def write(self, state: NodeState) -> None:
        """Write a node's row as if no pod held anything on it."""
        columns, row = self.columns, state.row
        offers = []
        for name in columns.resources:
            missing = UNLIMITED if name in NATIVE or name in self._counts else 0
            offered = state.offers.get(name)
            offers.append(missing if offered is None else min(offered, LARGEST))
        columns.offer(row, np.array(offers, np.int64))
        columns.taints[row] = self.labels.taint_id(state.node)
        columns.widen(len(state.devices))
        columns.card_total[:, :, row] = 0
        columns.model[:, row] = 0
        columns.vendor_cards[:, row] = 0
        columns.particular[:, row] = False
        columns.tenancy[:, row] = 0
        state.mig, state.tenancy = {}, {}
        for position, (device, vendor) in enumerate(zip(state.devices, state.vendors, strict=True)):
            condition = "" if device.healthy else "unhealthy"
            condition = condition or ("cordoned" if device.uuid in state.cordoned else "")
            columns.card_total[SLOTS, position, row] = device.count
            columns.card_total[MEMORY, position, row] = device.memory
            columns.card_total[CORES, position, row] = device.cores
            columns.model[position, row] = columns.model_id(
                CardModel(vendor, device.type, device.mode, device.profiles, condition, device.memory_known)
            )
            columns.vendor_cards[vendor, row] += 1
            columns.particular[vendor, row] |= device.mode == MIG_MODE
            columns.particulars |= device.mode == MIG_MODE
            columns.plain |= device.mode == PLAIN_MODE
            columns.incomplete |= not (device.count and device.memory and device.cores)
        columns.set_outfit(row)
        columns.card_free[:, :, row] = columns.card_total[:, :, row]
        total = columns.card_total[:, :, row].sum(axis=1)
        # As in HAMi, a node whose cards lack a quantity altogether has the score 0.
        columns.node_total[:, row] = total if total.all() else np.inf
        columns.node_used[:, row] = 0

    def apply(self, state: NodeState, holding: Holding, uses: Sequence[VendorUse], sign: int) -> None:
        """Add what a pod holds to its node's row (sign 1), or subtract it (sign -1)."""
        amounts, change = self.columns.amounts[:, :, state.row], self.change_by(holding)
        amounts += change if sign > 0 else -change
        self.apply_cards(state, uses, sign)

    def apply_cards(self, state: NodeState, uses: Sequence[VendorUse], sign: int) -> None:
        """Add what a pod holds of cards to its node's row, or subtract it."""
        columns, row = self.columns, state.row
        free, used = columns.card_free, columns.node_used
        for use in uses:
            unknown = use.unknown
            for card in use.cards:
                position = state.position(card.uuid, use.vendor)
                if position is None:
                    unknown += card.slots
                    continue
                slots, memory, cores = sign * card.slots, sign * card.memory, sign * card.cores
                free[SLOTS, position, row] -= slots
                free[MEMORY, position, row] -= memory
                free[CORES, position, row] -= cores
                used[SLOTS, row] += slots
                used[MEMORY, row] += memory
                used[CORES, row] += cores
                for placement in card.placements:
                    taken = state.mig.setdefault(position, [])
                    taken.append(placement) if sign > 0 else taken.remove(placement)
                if card.tenancy:
                    present = state.tenancy.setdefault(position, Counter())
                    present.update(dict.fromkeys(card.tenancy, sign))
                    columns.tenancy[position, row] = columns.tenancy_id(frozenset(+present))
            if unknown:
                columns.foreign[use.vendor, row] += sign * unknown
                columns.foreign_total += sign * unknown
        columns.touch(row)

    def _reset_foreign(self, state: NodeState) -> None:
        self.columns.foreign_total -= int(self.columns.foreign[:, state.row].sum())
        self.columns.foreign[:, state.row] = 0

    def _index_cards(self, state: NodeState, sign: int) -> None:
        for uuid in state.positions:
            if sign > 0:
                self.cards.setdefault(uuid, []).append(state.name)
            else:
                self.cards[uuid].remove(state.name)
                if not self.cards[uuid]:
                    del self.cards[uuid]

    # -- problems

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with nodes, in the order of names."""
        for name in sorted(self.nodes):
            state = self.nodes[name]
            yield from state.problems
            for uuid in state.positions:
                first = min(self.cards[uuid])
                if first != name:
                    message = f"{uuid} is registered on node {first} too; both count"
                    yield Problem(f"Node/{name}", "devices", uuid, "every UUID on one node", message)

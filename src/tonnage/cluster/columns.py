"""The columns: the cluster as arrays, with one entry per node and a block of cards per node.

Every array has the node on its last axis. Between `settle` calls nodes may be appended or marked as gone; after it the
rows are dense and in name order, so that the first of equals is the first by name. `version` says when a row last
changed and `layout` when row numbers or shapes did.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tonnage.devices.base import MigProfile
from tonnage.model.resources import NATIVE

Array = NDArray[Any]

SLOTS, CORES, MEMORY = range(3)
"""The kinds of capacity of a card: slots for containers, percent of compute, MiB of memory."""
UNLIMITED = 2**62
"""The allocatable amount of a resource that a node does not state and that is not checked there."""
FREE, USED, COUNTED, OFFERED = range(4)
"""The amounts kept of each resource: free, used, used as Kubernetes' scores count it, and offered, which is 0 where a
node does not state it."""
_MOST_TOUCHED = 1024
FEW = 8
"""Up to this many nodes are faster to visit one by one than as arrays."""
LARGEST = 2**52
"""Larger amounts are cut to this, so that sums of thousands of them fit into 64 bits."""

Look = tuple[int, bytes, bytes, bytes]
"""Outfit, amounts of resources, and free capacity and tenancies of the cards of one node, as a key for memos."""

_ARRAYS = (
    "version",
    "gone",
    "amounts",
    "allocatable",
    "card_total",
    "card_free",
    "model",
    "outfit",
    "tenancy",
    "foreign",
    "node_total",
    "node_used",
    "vendor_cards",
    "particular",
    "taints",
)


class CardModel(msgspec.Struct, gc=False, frozen=True):
    """The properties of a card that do not change with its use: cards of one model differ only in free capacity."""

    vendor: int
    type: str
    mode: str
    profiles: tuple[MigProfile, ...] = ()
    state: str = ""
    """`unhealthy` or `cordoned` if the card accepts no new pods."""
    memory_known: bool = True


NO_CARD = CardModel(vendor=-1, type="", mode="")


class Columns:
    """Arrays that grow; `Rows` writes them."""

    def __init__(self, vendors: int) -> None:
        self._vendors = vendors
        self.width = 1
        self.clock = 0
        self.layout = 0
        self.resources: dict[str, int] = {name: position for position, name in enumerate(NATIVE)}
        self.models: list[CardModel] = [NO_CARD]
        self._model_ids: dict[CardModel, int] = {NO_CARD: 0}
        self.tenancies: list[frozenset[str]] = [frozenset()]
        """The sets of tenants that occur on cards whose vendor cares who shares them; `tenancy` has their numbers."""
        self._tenancy_ids: dict[frozenset[str], int] = {frozenset(): 0}
        self._outfit_ids: dict[tuple[bytes, bytes], int] = {}
        self.particulars = False
        """Whether there may be MIG cards, whose instances have to be placed; free amounts are not enough to decide."""
        self.incomplete = False
        """Whether there may be cards without any slots, compute or memory, which need rules of their own."""
        self.plain = False
        """Whether there may be plain cards, which are granted whole unless an annotation asks for a part."""
        self.nodes_changed = 0
        """The clock when a node object last changed; only pods have come and gone since."""
        self._touched: list[int] = []
        """The rows that changed last, the oldest first."""
        self.allot(0)

    def allot(self, count: int) -> None:
        """Begin anew with that many rows of zeros, in the order of node names."""
        kinds, vendors = len(self.resources), self._vendors
        self.size = count
        self.foreign_total = 0
        """The sum of `foreign`: cards held by pods that do not name them, over all nodes."""
        self._touched.clear()
        self.dense = True
        """Whether rows have no gaps and are in the order of node names."""
        self.clock += 1
        self.layout += 1
        self.version = np.full(count, self.clock, np.int64)
        self.gone = np.zeros(count, np.bool_)
        self.amounts = np.zeros((4, kinds, count), np.int64)
        self.allocatable = np.zeros((kinds, count), np.int64)
        self.card_total = np.zeros((3, self.width, count), np.int64)
        self.card_free = np.zeros((3, self.width, count), np.int64)
        self.model = np.zeros((self.width, count), np.intp)
        self.outfit = np.zeros(count, np.intp)
        """The number of what the cards of each node are, whatever is free: equal nodes have equal numbers."""
        self.tenancy = np.zeros((self.width, count), np.intp)
        self.foreign = np.zeros((vendors, count), np.int64)
        """Cards of each vendor that pods hold without naming them, or that the node does not have."""
        self.node_used = np.zeros((3, count), np.int64)
        self.node_total = np.zeros((3, count), np.float32)
        """The capacity of all cards of a node; infinite where it is none, so that the used share is 0."""
        self.vendor_cards = np.zeros((vendors, count), np.int32)
        self.particular = np.zeros((vendors, count), np.bool_)
        """Whether a node has MIG cards of each vendor."""
        self.taints = np.zeros(count, np.intp)

    @property
    def free(self) -> Array:
        """What is left of each resource."""
        result: Array = self.amounts[FREE]
        return result

    def touch(self, row: int) -> None:
        """Record that a row has changed."""
        self.clock += 1
        self.version[row] = self.clock
        if len(self._touched) == _MOST_TOUCHED:
            self._touched.clear()
        self._touched.append(row)

    def touch_node(self, row: int) -> None:
        """Record that a node object has changed."""
        self.touch(row)
        self.nodes_changed = self.clock

    def changed_since(self, clock: int) -> Array:
        """The rows that changed after that clock."""
        ago = self.clock - clock
        if ago > len(self._touched):
            # Comparing with a NumPy integer saves a conversion that takes longer than the comparison.
            return (self.version > np.int64(clock)).nonzero()[0]
        return np.array(sorted(set(self._touched[-ago:])), np.intp)

    def nodes_since(self, clock: int) -> "Nodes":
        """The nodes that changed after that clock."""
        ago, touched = self.clock - clock, self._touched
        if ago <= len(touched):
            row = touched[-1]
            if ago == 1 or touched[-ago:].count(row) == ago:
                # A single row becomes a slice, which gives views instead of copies.
                return Nodes(self, slice(row, row + 1))
        return Nodes(self, self.changed_since(clock))

    def look(self, row: int) -> Look:
        """What a node offers, what is left of it, and its cards; nodes that look alike differ in their names."""
        amounts, free, tenancy = self.amounts[:, :, row], self.card_free[:, :, row], self.tenancy[:, row]
        return self.outfit.item(row), amounts.tobytes(), free.tobytes(), tenancy.tobytes()

    def append(self) -> int:
        """Append a row of zeros."""
        capacity = len(self.version)
        if self.size == capacity:
            self._reshape({name: (*getattr(self, name).shape[:-1], capacity + max(64, capacity)) for name in _ARRAYS})
        row = self.size
        self.size += 1
        self.dense = False
        self.touch(row)
        return row

    def remove(self, row: int) -> None:
        """Mark a row as gone; it disappears at the next `settle`."""
        self.gone[row] = True
        self.dense = False
        self.touch(row)

    def settle(self, names: list[str]) -> Array:
        """Close the gaps and sort rows by name; the result is the old number of each row."""
        alive = np.flatnonzero(~self.gone[: self.size])
        order = np.array(sorted(alive.tolist(), key=lambda row: names[row]), dtype=np.intp)
        for name in _ARRAYS:
            setattr(self, name, np.ascontiguousarray(getattr(self, name).take(order, axis=-1)))
        self.size = len(order)
        self._touched.clear()
        self.dense = True
        self.layout += 1
        return order

    def widen(self, cards: int) -> None:
        """Make room for that many cards on each node."""
        if cards <= self.width:
            return
        shapes = {}
        for name in ("card_total", "card_free", "model", "tenancy"):
            *outer, _, nodes = getattr(self, name).shape
            shapes[name] = (*outer, cards, nodes)
        self._reshape(shapes)
        self.width = cards
        self.layout += 1

    def add_resource(self, name: str, missing: int) -> int:
        """Add a resource; every node offers `missing` of it until its row is written."""
        position = len(self.resources)
        self.resources[name] = position
        nodes = len(self.version)
        self._reshape({"amounts": (4, position + 1, nodes), "allocatable": (position + 1, nodes)})
        self.free[position] = self.allocatable[position] = missing
        self.layout += 1
        return position

    def offer(self, row: int, allocatable: Array) -> None:
        """Write what a node offers, with nothing in use."""
        self.allocatable[:, row] = self.amounts[FREE, :, row] = allocatable
        self.amounts[USED, :, row] = self.amounts[COUNTED, :, row] = 0
        self.amounts[OFFERED, :, row] = np.where(allocatable < UNLIMITED, allocatable, 0)

    def model_id(self, model: CardModel) -> int:
        """The number of a card model, allocated on first use."""
        known = self._model_ids.get(model)
        if known is None:
            self.models.append(model)
            known = self._model_ids[model] = len(self.models) - 1
        return known

    def set_outfit(self, row: int) -> None:
        """Number the models and capacities of a node's cards."""
        outfit = self.model[:, row].tobytes(), self.card_total[:, :, row].tobytes()
        self.outfit[row] = self._outfit_ids.setdefault(outfit, len(self._outfit_ids))

    def tenancy_id(self, tenancy: frozenset[str]) -> int:
        """The number of a set of tenants, allocated on first use."""
        known = self._tenancy_ids.get(tenancy)
        if known is None:
            self.tenancies.append(tenancy)
            known = self._tenancy_ids[tenancy] = len(self.tenancies) - 1
        return known

    def _reshape(self, shapes: dict[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            old = getattr(self, name)
            new = np.zeros(shape, old.dtype)
            new[tuple(slice(length) for length in old.shape)] = old
            setattr(self, name, new)


class Nodes:
    """Some or all nodes as plugins see them: columns with these nodes on the last axis."""

    __slots__ = ("_allocatable", "_amounts", "_cards", "_each", "columns", "rows")

    def __init__(self, columns: Columns, rows: Array | slice | None = None) -> None:
        self.columns = columns
        self.rows = rows
        self._cards: Cards | None = None
        self._amounts: Array | None = None
        self._allocatable: Array | None = None
        self._each: list[list[list[int]]] | None = None

    def __len__(self) -> int:
        return len(self.pick(self.columns.version))

    def pick(self, column: Array) -> Array:
        """A column of these nodes; it may be a view, so do not write to it."""
        rows = self.rows
        if rows is None:
            return column
        return column[..., rows] if type(rows) is slice else column.take(rows, axis=-1)

    @property
    def amounts(self) -> Array:
        """What is free, used, counted and offered of each resource, as (kind, resources, nodes)."""
        if self._amounts is None:
            self._amounts = self.pick(self.columns.amounts)
        return self._amounts

    @property
    def free(self) -> Array:
        """What is left of each resource, as (resources, nodes)."""
        result: Array = self.amounts[FREE]
        return result

    @property
    def allocatable(self) -> Array:
        """What the nodes offer of each resource, as (resources, nodes)."""
        if self._allocatable is None:
            self._allocatable = self.pick(self.columns.allocatable)
        return self._allocatable

    @property
    def each(self) -> list[list[list[int]]] | None:
        """For at most FEW nodes: free, used, counted and offered amounts by node and resource."""
        if self._each is None and self.rows is not None and self.amounts.shape[-1] <= FEW:
            self._each = self.amounts.T.tolist()
        return self._each

    @property
    def cards(self) -> "Cards":
        if self._cards is None:
            self._cards = Cards(self)
        return self._cards


class Cards:
    """The cards of some nodes as arrays of (cards, nodes); `free` and `total` are (kinds of capacity, cards, nodes)."""

    __slots__ = ("_free", "_model", "_tenancy", "_total", "nodes")

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._free: Array | None = None
        self._total: Array | None = None
        self._model: Array | None = None
        self._tenancy: Array | None = None

    @property
    def free(self) -> Array:
        if self._free is None:
            self._free = self.nodes.pick(self.nodes.columns.card_free)
        return self._free

    @property
    def total(self) -> Array:
        if self._total is None:
            self._total = self.nodes.pick(self.nodes.columns.card_total)
        return self._total

    @property
    def model(self) -> Array:
        if self._model is None:
            self._model = self.nodes.pick(self.nodes.columns.model)
        return self._model

    @property
    def tenancy(self) -> Array:
        if self._tenancy is None:
            self._tenancy = self.nodes.pick(self.nodes.columns.tenancy)
        return self._tenancy

    def with_free(self, free: Array) -> "Cards":
        """The same cards with other free capacity."""
        others = Cards(self.nodes)
        others._free = free
        return others

    def copy(self) -> "Cards":
        """The same cards with copies of free capacity and tenancies, for trial grants."""
        trial = Cards(self.nodes)
        trial._free = self.free.copy()
        trial._tenancy = self.tenancy.copy()
        return trial

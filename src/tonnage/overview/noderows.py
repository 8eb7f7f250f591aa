"""Node rows: each node with its cards, who holds what of them, and what is free, stranded or unhealthy.

A row is made again only when its node has changed, so that a picture of a large cluster is followed at the cost of its
changes. Every row carries the stamp of the update that made it.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, UNLIMITED
from tonnage.cluster.nodestate import NodeState
from tonnage.model.resources import CPU
from tonnage.overview.strandedcards import REASONS, StrandedCards, node_trouble
from tonnage.plugins.fragmentation.usablecards import UsableCards

MOST_GONE = 10_000
"""Nodes that are remembered as gone."""
_RAM = "memory"


class CardHolder(msgspec.Struct, frozen=True, gc=False):
    """What a pod holds of a card."""

    pod: str
    queue: str
    memory: int
    """MiB."""
    cores: int
    """Percent of the card's compute."""


class CardRow(msgspec.Struct, frozen=True, gc=False):
    """A card: its size, its holders, and what is left of it."""

    uuid: str
    index: int
    model: str
    memory: int
    """MiB; an assumption if `memory_known` is false."""
    memory_used: int
    cores: int
    """Percent, 100 unless scaled."""
    cores_used: int
    slots: int
    """Containers that may share it."""
    slots_used: int
    free: float
    """The free part of it, from 0 to 1."""
    usable: float
    """The part of it that a typical pod can use, on average."""
    stranded: str
    """The reason for which no typical pod can use what is left; empty if one can, or if nothing is left."""
    health: str
    """`unhealthy` or `cordoned` if the card takes no new pods."""
    holders: tuple[CardHolder, ...]
    memory_known: bool = True


class NodeRow(msgspec.Struct, frozen=True, gc=False):
    """A node and its cards."""

    name: str
    trouble: str
    """The reason for which it takes no new pods with cards; empty if it takes them."""
    cards: tuple[CardRow, ...]
    pods: int
    unnamed: int
    """Cards that pods hold without naming them."""
    cpu: int
    """Millicores."""
    cpu_free: int
    ram: int
    """Bytes."""
    ram_free: int
    stamp: int
    """The update that made this row."""

    @property
    def model(self) -> str:
        """The model of its cards; the first one if they differ."""
        return self.cards[0].model if self.cards else ""

    @property
    def stranded(self) -> int:
        """How many of its cards only look free."""
        return sum([bool(card.stranded) for card in self.cards])


class NodeRows:
    """The rows of a cluster's nodes, by name."""

    def __init__(self, cluster: Cluster, usable: UsableCards) -> None:
        self._cluster = cluster
        self._usable = usable
        self._stranded = StrandedCards(cluster, usable)
        self._workload: object = None
        self._versions: dict[str, int] = {}
        self.rows: dict[str, NodeRow] = {}
        self.gone: dict[str, int] = {}
        """Nodes that are gone, with the stamp of the update that noticed."""
        self.stamp = 0

    def update(self) -> None:
        """Make the rows of nodes that have changed."""
        cluster = self._cluster
        cluster.settle()
        self._usable.learn()
        everything = self._workload is not self._usable.fragments.workload
        self._workload = self._usable.fragments.workload
        versions = cluster.columns.version[: cluster.columns.size].tolist()
        changed = [
            state
            for state, version in zip(cluster.states, versions, strict=True)
            if everything or self._versions.get(state.name) != version
        ]
        gone = self.rows.keys() - cluster.nodes.keys() if len(self.rows) + len(changed) > len(versions) else ()
        stamp = self.stamp + 1
        news = {row.name: row for row in self._made(changed, stamp) if not self._is_known(row)}
        self._versions.update([(state.name, versions[state.row]) for state in changed])
        for name in sorted(gone):
            del self.rows[name], self._versions[name]
            self.gone[name] = stamp
        while len(self.gone) > MOST_GONE:
            del self.gone[next(iter(self.gone))]
        for name in news:
            self.gone.pop(name, None)
        self.rows.update(news)
        if news or gone:
            self.stamp = stamp

    def since(self, stamp: int) -> tuple[list[NodeRow], list[str]]:
        """The rows that are newer than a stamp, and the nodes that have gone since."""
        if stamp >= self.stamp:
            return [], []
        changed = [row for row in self.rows.values() if row.stamp > stamp]
        return changed, [name for name, when in self.gone.items() if when > stamp]

    def _is_known(self, row: NodeRow) -> bool:
        known = self.rows.get(row.name)
        return known is not None and msgspec.structs.replace(row, stamp=known.stamp) == known

    def _made(self, states: list[NodeState], stamp: int) -> Iterator[NodeRow]:
        if not states:
            return
        cluster, columns = self._cluster, self._cluster.columns
        rows = np.array([state.row for state in states], np.intp)
        room = self._stranded.of(rows)
        free, usable = room.free.T.tolist(), room.usable.T.tolist()
        codes = room.stranded.T.tolist()
        left = columns.card_free.take(rows, axis=-1).T.tolist()
        unnamed = columns.foreign.take(rows, axis=-1).sum(axis=0).tolist()
        names = [columns.resources[CPU], columns.resources[_RAM]]
        offered = columns.allocatable.take(rows, axis=-1)[names].T.tolist()
        spare = columns.free.take(rows, axis=-1)[names].T.tolist()
        for place, state in enumerate(states):
            holders = self._holders(state)
            cards = []
            for position, device in enumerate(state.devices):
                slots, cores, memory = (left[place][position][part] for part in (SLOTS, CORES, MEMORY))
                cards.append(
                    CardRow(
                        device.uuid,
                        device.index,
                        device.type,
                        device.memory,
                        device.memory - memory,
                        device.cores,
                        device.cores - cores,
                        device.count,
                        device.count - slots,
                        free[place][position],
                        usable[place][position],
                        REASONS[codes[place][position]],
                        _health(state, device.uuid, device.healthy),
                        tuple(holders.get(position, ())),
                        device.memory_known,
                    )
                )
            cpu, ram = [0 if amount >= UNLIMITED else amount for amount in offered[place]]
            yield NodeRow(
                state.name,
                node_trouble(cluster, state),
                tuple(cards),
                len(state.holdings),
                unnamed[place],
                cpu,
                min(spare[place][0], cpu),
                ram,
                min(spare[place][1], ram),
                stamp,
            )

    def _holders(self, state: NodeState) -> dict[int, list[CardHolder]]:
        """Who holds the node's cards, by position."""
        found: dict[int, list[CardHolder]] = {}
        for key in state.holdings:
            queue = None
            for use in state.uses(key):
                for card in use.cards:
                    position = state.position(card.uuid, use.vendor)
                    if position is not None:
                        queue = self._queue(key) if queue is None else queue
                        found.setdefault(position, []).append(CardHolder(key, queue, card.memory, card.cores))
        return found

    def _queue(self, key: str) -> str:
        task = self._cluster.running.get(key) or self._cluster.reserved.get(key)
        return self._cluster.groups.queue_of(task) if task is not None else ""


def _health(state: NodeState, uuid: str, healthy: bool) -> str:
    if not healthy:
        return "unhealthy"
    return "cordoned" if uuid in state.cordoned else ""

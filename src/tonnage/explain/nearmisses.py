"""Near misses: the nodes that lack least of what a pod asks for, what exactly, and who holds it.

A node's distance is the sum of the missing parts of the request: half of the memory on a card is as far as half of the
CPU. Nodes that reject the pod for a reason that stays whatever pods leave are none.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import CORES, MEMORY, SLOTS, UNLIMITED, Array, Nodes
from tonnage.cluster.task import Task
from tonnage.devices.base import PLAIN_MODE, WHOLE_CARD
from tonnage.explain.holders import grouped, holders_of_card, holders_of_resource
from tonnage.explain.record import NearMiss, PodHolding, Shortage
from tonnage.framework.session import Session
from tonnage.model.resources import show
from tonnage.plugins.helpers.cardrules import NO_SLOT, CardAsk

MOST_MISSES = 3
_MOST_HOLDERS = 5
_TOO_SMALL = 1e6
"""What is added to the distance of a card that is smaller than the request."""
_FAR = 1e9
"""The distance of a card that can never serve the request."""


class _CardDistance(NamedTuple):
    """How far the cards are from serving one request, as arrays of (cards, nodes)."""

    ask: CardAsk
    wanted: Array
    """What the request needs of each card, by kind of capacity."""
    total: Array
    distance: Array

    def of_nodes(self) -> Array:
        """For each node the sum over the nearest cards, as many as the request wants."""
        nearest = np.sort(self.distance, axis=0)[: self.ask.request.count]
        if len(nearest) < self.ask.request.count:
            return np.full(nearest.shape[1], _FAR)
        total: Array = nearest.sum(axis=0)
        return total

    def is_too_small(self, row: int) -> bool:
        """Whether even the largest card of a node is smaller than the request."""
        card = self.last_of(row)
        return card is not None and bool((self.wanted[:, card, row] > self.total[:, card, row])[MEMORY])

    def last_of(self, row: int) -> int | None:
        """The last of a node's nearest cards that the request needs, if that one does not fit."""
        order = self.distance[:, row].argsort(kind="stable")
        if len(order) < self.ask.request.count:
            return None
        card = int(order[self.ask.request.count - 1])
        return card if 0 < self.distance[card, row] < _FAR else None


class NearMisses:
    """The nearest nodes for one pod, in an open session in which the pod has no place."""

    def __init__(self, session: Session, task: Task, among: Array | None = None) -> None:
        self._session, self._task = session, task
        self._cluster = session.cluster
        self._cluster.settle()
        self._nodes = self._cluster.all_nodes()
        self._needs = self._cluster.vector(task.requests)
        self._cards = [self._distances(ask) for ask in _asks(session, task)]
        self._among = among

    def order(self, most: int) -> list[int]:
        """Rows of the nearest nodes that would fit if pods left, the nearest first; the first by name among equals."""
        distance = self._short_share().sum(axis=0)
        for cards in self._cards:
            distance = distance + cards.of_nodes()
        distance[self._session.lasting(self._task).nodes] = _FAR
        if self._among is not None:
            distance[~self._among] = _FAR
        nearest = distance.argsort(kind="stable")[:most].tolist()
        return [row for row in nearest if distance[row] < _FAR]

    def all(self) -> list[NearMiss]:
        """The nearest nodes with what they lack."""
        return [self._miss(row) for row in self.order(MOST_MISSES)]

    def left(self, row: int) -> dict[str, int]:
        """What is free of each resource that a node, or the best card of it, has too little of.

        Of a card that is in use and wanted whole, memory and compute are what a smaller request could get.
        """
        found = {name: left for name, _, left in self._short_resources(row)}
        for cards in self._cards:
            card = cards.last_of(row)
            if card is None:
                continue
            free, wanted = self._on_card(cards, card, row)
            shared = self._is_in_use(cards.ask, card, row)
            vendor = cards.ask.vendor
            if free[MEMORY] < wanted[MEMORY]:
                found[vendor.memory_resource] = free[MEMORY] // vendor.memory_unit
            if free[CORES] < wanted[CORES] or shared:
                found[vendor.cores_resource] = min(free[CORES], WHOLE_CARD - 1)
        return found

    def shortages(self, row: int) -> list[Shortage]:
        """What a node lacks."""
        found = [
            Shortage(name, *[show(name, amount) for amount in (wanted, left, wanted - left)])
            for name, wanted, left in self._short_resources(row)
        ]
        short = {one.resource for one in found}
        for cards in self._cards:
            # Where the kubelet counts whole cards, a node that lacks cards says so already.
            found += [one for one in self._short_of_card(cards, row) if cards.ask.vendor.count_resource not in short]
        return found

    def _short_resources(self, row: int) -> Iterator[tuple[str, int, int]]:
        """The resources that a node has too little of: name, wanted, free."""
        columns = self._cluster.columns
        for name, position in columns.resources.items():
            wanted, left = int(self._needs[position]), max(0, int(columns.free[position, row]))
            if wanted > 0 and left < wanted and columns.allocatable[position, row] < UNLIMITED:
                yield name, wanted, left

    def _on_card(self, cards: _CardDistance, card: int, row: int) -> tuple[list[int], list[int]]:
        """What is free of a card and what the request wants of it, by kind of capacity."""
        free = np.maximum(self._cluster.columns.card_free[:, card, row], 0)
        return free.tolist(), cards.wanted[:, card, row].astype(np.int64).tolist()

    # -- one node

    def _miss(self, row: int) -> NearMiss:
        state = self._cluster.states[row]
        found = self.shortages(row)
        holders: dict[str, PodHolding] = {}
        for one in found:
            for holder in (
                holders_of_card(self._cluster, state, state.positions[one.card])
                if one.card
                else holders_of_resource(self._cluster, state, one.resource)
            ):
                holders.setdefault(holder.pod, holder)
        held = list(holders.values())
        return NearMiss(state.name, self._sentence(row, found, held), found, held[:_MOST_HOLDERS], len(held))

    def _sentence(self, row: int, found: Sequence[Shortage], held: Sequence[PodHolding]) -> str:
        name = self._cluster.states[row].name
        if not found:
            among = np.zeros(len(self._cluster.states), np.bool_)
            among[row] = True
            rejected = self._session.decide(self._task, among).rejected
            return rejected[0].message if rejected else f"{name} fits, and is kept for others"
        parts = list(dict.fromkeys([_said(one) for one in found]))
        if any(cards.is_too_small(row) for cards in self._cards):
            parts[-1] += " (the card is smaller than the request)"
        who = f"; {_count(held)} it" if held else ""
        fitting = "".join(dict.fromkeys([f" ({one.cards} cards fit)" for one in found if one.cards]))
        return f"{name} lacks {', '.join(parts)}{fitting}{who}"

    def _short_of_card(self, cards: _CardDistance, row: int) -> list[Shortage]:
        """What the last of the nearest cards of a node lacks for one request."""
        card = cards.last_of(row)
        if card is None:
            return []
        device = self._cluster.states[row].devices[card]
        free, wanted = self._on_card(cards, card, row)
        count = cards.ask.request.count
        several = f"{np.count_nonzero(cards.distance[:, row] == 0)} of {count}" if count > 1 else ""
        if self._is_in_use(cards.ask, card, row):
            left = grouped(device.share(free[MEMORY]))
            return [Shortage("card", "a whole card", left, "a card that nobody uses", device.uuid, several)]
        found = []
        for kind, name, unit in ((SLOTS, "slots", ""), (MEMORY, "memory", " MiB"), (CORES, "cores", " %")):
            if free[kind] < wanted[kind]:
                amounts = (wanted[kind], free[kind], wanted[kind] - free[kind])
                in_memory = kind == MEMORY
                texts = [grouped(device.share(one)) if in_memory else f"{one}{unit}" for one in amounts]
                found.append(Shortage(f"card {name}", texts[0], texts[1], texts[2], device.uuid, several))
        return found

    # -- all nodes

    def _short_share(self) -> Array:
        """The missing part of each resource on each node."""
        wanted = np.maximum(self._needs, 0)[:, None]
        short: Array = np.clip(wanted - np.maximum(self._nodes.free, 0), 0, None) / np.maximum(wanted, 1)
        return short

    def _distances(self, ask: CardAsk) -> _CardDistance:
        columns, cards = self._cluster.columns, Nodes(self._cluster.columns).cards
        wanted = np.zeros(cards.total.shape)
        wanted[SLOTS] = 1
        wanted[MEMORY] = ask.request.memory_on(cards.total[MEMORY])
        wanted[CORES] = ask.request.cores_on(cards.total[CORES]) if ask.request.scales else ask.cores
        short = np.clip(wanted - np.maximum(cards.free, 0), 0, None) / np.maximum(wanted, 1)
        distance = short.sum(axis=0)
        codes = ask.codes(cards, columns)
        # A request for a whole card needs one without other pods, however little these hold.
        if ask.cores == WHOLE_CARD or not ask.request.shares:
            used = 1 - np.maximum(cards.free[MEMORY], 0) / np.maximum(cards.total[MEMORY], 1)
            shared = (cards.free[SLOTS] < cards.total[SLOTS]) & (ask.plain(cards) | (ask.cores == WHOLE_CARD))
            distance = np.where(shared, np.maximum(distance, np.maximum(used, 0.01)), distance)
        # Pods that leave do not make a card larger.
        distance = np.where(wanted[MEMORY] > cards.total[MEMORY], distance + _TOO_SMALL, distance)
        distance[codes < NO_SLOT] = _FAR
        return _CardDistance(ask, wanted, cards.total, distance)

    def _is_in_use(self, ask: CardAsk, card: int, row: int) -> bool:
        """Whether the request wants the card for itself, and others use it."""
        columns, device = self._cluster.columns, self._cluster.states[row].devices[card]
        alone = ask.cores == WHOLE_CARD or (device.mode == PLAIN_MODE and not ask.request.shares)
        return alone and bool(columns.card_free[SLOTS, card, row] < columns.card_total[SLOTS, card, row])


def _asks(session: Session, task: Task) -> list[CardAsk]:
    """The pod's different requests for cards."""
    numbers, vendors = session.cluster.vendor_numbers, session.cluster.vendors
    requests = dict.fromkeys([request for demand in task.demands for request in demand.requests])
    return [CardAsk(one, task, vendors[numbers[one.vendor]], numbers[one.vendor]) for one in requests]


def _said(shortage: Shortage) -> str:
    if shortage.resource == "card":
        return shortage.short
    if shortage.card:
        what = {"card slots": "slots", "card memory": "", "card cores": "compute"}[shortage.resource]
        return f"{shortage.short} {what}".rstrip() + " on its best card"
    return f"{shortage.short} {shortage.resource}"


def _count(held: Sequence[PodHolding]) -> str:
    return "1 pod holds" if len(held) == 1 else f"{len(held)} pods hold"

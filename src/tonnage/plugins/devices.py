"""Devices: a pod fits where enough cards of the right kind have a place, memory and compute left for each container.

The rules of a card are asked of all nodes at once while searching, and of one node, with what earlier containers of the
pod took away, while its cards are handed out. Pods whose containers compete for cards, or whose cards must fit
together, are confirmed node by node; for all others counting fitting cards is enough.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.state import NodeState
from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import MIG_MODE, Device, DeviceUse, MigPlacement
from tonnage.devices.mig import choose as choose_instance
from tonnage.framework.classes import FITS, MAYBE
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins import cardrules
from tonnage.plugins.cardrules import CARD_FITS, CardAsk, describe, mark

_MOST_PLANS = 1024

Plan = tuple[tuple[CardAsk, ...], ...]
"""A task's requests, prepared: per demand, per vendor."""
Free = list[list[int]]
"""What is free on one node: per kind, per card."""
Taken = dict[int, tuple[MigPlacement, ...]]
"""MIG placements in use on one node, per card."""


class Devices(Plugin):
    """Keeps cards within their slots, memory and compute, and hands them out."""

    name = "devices"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._plans: dict[Hashable, Plan] = {}
        number = session.add_predicate(
            self._fits, key=self._key, reasons=cardrules.REASONS, detail=self._detail, confirm=self._confirm
        )
        session.set_assign(self._assign, number)

    def _key(self, task: Task) -> Hashable:
        return (task.demands, task.constraints, self._session.gpu_key(task)) if task.demands else ()

    def _plan(self, task: Task) -> Plan:
        key = (task.demands, task.constraints)
        known = self._plans.get(key)
        if known is None:
            numbers, vendors = self._cluster.vendor_numbers, self._cluster.vendors
            known = tuple(
                tuple(CardAsk(r, task, vendors[numbers[r.vendor]], numbers[r.vendor]) for r in demand.requests)
                for demand in task.demands
            )
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = known
        return known

    # -- all nodes at once

    def _fits(self, task: Task, nodes: Nodes) -> tuple[Array, Array] | None:
        """A code per node, and the codes of its cards for the request that decided it."""
        if not task.demands:
            return None
        asks = [ask for asks in self._plan(task) for ask in asks]
        cards = nodes.cards
        card_codes = self._card_codes(task, asks[0], cards)
        node_codes = self._node_codes(task, asks[0], card_codes, nodes)
        for ask in asks[1:]:
            codes = self._card_codes(task, ask, cards)
            undecided = node_codes == CARD_FITS
            np.copyto(node_codes, self._node_codes(task, ask, codes, nodes), where=undecided)
            np.copyto(card_codes, codes, where=undecided)
        together = len(asks) > 1 or asks[0].one_numa or asks[0].vendor.is_particular(asks[0].request)
        if together or self._cluster.columns.particulars:
            closer = nodes.pick(self._cluster.columns.particular) | together
            node_codes[(node_codes == CARD_FITS) & closer] = MAYBE
        return node_codes, card_codes

    def _card_codes(self, task: Task, ask: CardAsk, cards: Cards) -> Array:
        """For each card the first rule that keeps the request off it, the other plugins' included."""
        columns = self._cluster.columns
        codes = ask.codes(cards, columns.models, columns.coreless)
        rejected = self._session.rejected_cards(task, ask.request, cards)
        if rejected is not None:
            mark(codes, rejected, cardrules.RULED_OUT)
        if ask.wanted_uuids is not None:
            mark(codes, ~self._places(ask.wanted_uuids, cards.nodes), cardrules.UUID)
        if ask.refused_uuids:
            mark(codes, self._places(ask.refused_uuids, cards.nodes), cardrules.UUID)
        return codes

    def _places(self, uuids: frozenset[str], nodes: Nodes) -> Array:
        """Which of the nodes' cards have one of the UUIDs."""
        found = np.zeros((nodes.columns.width, nodes.columns.size), np.bool_)
        for uuid in uuids:
            for name in self._cluster.cards.get(uuid, ()):
                state = self._cluster.nodes[name]
                found[state.positions[uuid], state.row] = True
        return nodes.pick(found)

    def _node_codes(self, task: Task, ask: CardAsk, codes: Array, nodes: Nodes) -> Array:
        """For each node whether enough of its cards fit, else the reason of the card nearest to fitting."""
        columns, count = self._cluster.columns, ask.request.count
        result: Array = np.maximum.reduce(codes, axis=0)
        if count > 1:
            fitting = np.add.reduce((codes == CARD_FITS).view(np.uint8), axis=0, dtype=np.uint8)
            owned = nodes.pick(columns.vendor_cards[ask.number])
            # A card cut into MIG instances can serve a request for several.
            few = (fitting < count) & ~((fitting > 0) & nodes.pick(columns.particular))
            result[few & (fitting > 0)] = cardrules.FEW_FIT
            result[few & (owned > 0) & (owned < count)] = cardrules.FEW_CARDS
        if columns.foreign_total:
            self._mark_foreign(task, ask, codes, nodes, result)
        return result

    def _mark_foreign(self, task: Task, ask: CardAsk, codes: Array, nodes: Nodes, result: Array) -> None:
        """Count cards that pods hold without saying which: slots of the node, and no card of it can be given whole."""
        held = nodes.pick(self._cluster.columns.foreign[ask.number])
        free = np.where(codes != cardrules.NO_CARD, np.maximum(nodes.cards.free[SLOTS], 0), 0).sum(axis=0)
        concerned = (held > 0) & (result == CARD_FITS)
        result[concerned & (free - held < ask.request.count)] = cardrules.NO_SLOT
        if ask.takes_whole_cards or self._session.rejected_cards(task, ask.request, nodes.cards) is not None:
            result[concerned] = cardrules.SHARED

    # -- one node

    def _confirm(self, task: Task, row: int) -> int:
        granted = self._assign(task, row, None)
        return granted if isinstance(granted, int) else FITS

    def _assign(self, task: Task, row: int, card_codes: Array | None) -> Grant | int:
        """Hand out the node's cards container by container; init containers give theirs back before the next."""
        state = self._cluster.states[row]
        cards = Nodes(self._cluster.columns, slice(row, row + 1)).cards
        plan = self._plan(task)
        alone = len(plan) == 1 and len(plan[0]) == 1
        if not alone:
            cards = cards.copy()
        taken: Taken = {card: tuple(places) for card, places in state.mig.items()}
        uses: dict[int, list[tuple[DeviceUse, ...]]] = {}
        for demand, asks in zip(task.demands, plan, strict=True):
            trial, trial_taken = (cards.copy(), dict(taken)) if demand.kind == INIT and not alone else (cards, taken)
            for ask in asks:
                if alone and card_codes is not None:
                    codes: list[int] = card_codes[:, row].tolist()
                else:
                    codes = self._card_codes(task, ask, trial)[:, 0].tolist()
                free: Free = trial.free[:, :, 0].tolist()
                given = self._choose(task, ask, state, codes, free, trial_taken)
                if isinstance(given, int):
                    return given
                if not alone:
                    trial.free[:, :, 0] = free
                uses.setdefault(ask.number, [()] * len(task.kinds))[demand.position] = tuple(given)
        return tuple([(number, tuple(containers)) for number, containers in sorted(uses.items())])

    def _choose(
        self, task: Task, ask: CardAsk, state: NodeState, codes: Sequence[int], free: Free, taken: Taken
    ) -> list[DeviceUse] | int:
        """Slices of the node's cards for one request, taken away from `free` and `taken`; or the code of why not."""
        request = ask.request
        fitting = [card for card, code in enumerate(codes) if code == CARD_FITS]
        if not fitting:
            return max(codes)
        chosen = self._pick(task, ask, state, self._session.order_cards(task, request, state, free, fitting))
        if isinstance(chosen, int):
            return chosen
        given: list[DeviceUse] = []
        for card in chosen:
            device = state.devices[card]
            memory = request.memory_on(device.memory)
            if device.mode == MIG_MODE:
                _cut(device, card, request.count - len(given), memory, ask.cores, free, taken, given)
            else:
                _take(free, card, memory, ask.cores)
                given.append(DeviceUse(device.uuid, memory, ask.cores))
            if len(given) == request.count:
                return given
        return cardrules.MIG if any(state.devices[card].mode == MIG_MODE for card in chosen) else cardrules.FEW_FIT

    def _pick(self, task: Task, ask: CardAsk, state: NodeState, candidates: Sequence[int]) -> Sequence[int] | int:
        """Which of the fitting cards to take, in order of preference."""
        if ask.one_numa:
            groups: dict[int, list[int]] = {}
            for card in candidates:
                groups.setdefault(state.devices[card].numa, []).append(card)
            roomy = [group for group in groups.values() if len(group) >= ask.request.count]
            if not roomy:
                return cardrules.NUMA
            candidates = roomy[0]
        chosen = self._session.choose_set(task, ask.request, state.row, candidates)
        if chosen is not None:
            return chosen
        positions = ask.vendor.pick(ask.request, [state.devices[card] for card in candidates], task.annotations)
        if positions is None:
            return candidates
        return [candidates[position] for position in positions] or cardrules.SET

    def _detail(self, task: Task, row: int, code: int, card_codes: Array | None) -> Callable[[], str]:
        columns, node = self._cluster.columns, self._cluster.states[row].name
        codes: list[int] = [] if card_codes is None else card_codes[:, row].tolist()
        free, total = columns.card_free[:, :, row].copy(), columns.card_total[:, :, row].copy()
        held = {
            self._cluster.vendors[v].name: int(columns.foreign[v, row]) for v in columns.foreign[:, row].nonzero()[0]
        }
        return lambda: f"{node}: {describe(task, code, codes, total, free, held)}"


def _take(free: Free, card: int, memory: int, cores: int) -> None:
    free[SLOTS][card] -= 1
    free[MEMORY][card] -= memory
    free[CORES][card] -= cores


def _cut(
    device: Device, card: int, most: int, memory: int, cores: int, free: Free, taken: Taken, given: list[DeviceUse]
) -> None:
    """Cut up to that many MIG instances out of one card; an instance takes its profile's memory and compute."""
    for _ in range(most):
        instance = choose_instance(device.profiles, memory, taken.get(card, ()))
        if instance is None or free[SLOTS][card] < 1 or free[MEMORY][card] < memory or free[CORES][card] < cores:
            return
        profile, placement = instance
        part = DeviceUse(
            device.uuid,
            min(profile.memory, free[MEMORY][card]),
            min(profile.cores, free[CORES][card]),
            profile.name,
            placement,
        )
        taken[card] = (*taken.get(card, ()), placement)
        _take(free, card, part.memory, part.cores)
        given.append(part)

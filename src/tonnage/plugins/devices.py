"""Devices: a pod fits where enough cards of the right kind have a place, memory and compute left for each container.

The rules of one card are written once, over arrays of (cards, nodes): for all nodes while searching, and for one node
with what earlier containers of the pod took away while its cards are handed out. Pods whose containers compete for
cards, or whose cards must fit together, are confirmed node by node; for all others counting fitting cards is enough.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.state import NodeState
from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import MIG_MODE, WHOLE_CARD, Device, DeviceRequest, DeviceUse, MigPlacement, Vendor
from tonnage.devices.mig import choose as choose_instance
from tonnage.framework.classes import FITS, MAYBE
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

REASONS = (
    "NodeUnregistered",
    "CardNotHealth",
    "CardCordoned",
    "CardTypeMismatch",
    "CardUuidMismatch",
    "CardTimeSlicingExhausted",
    "ExclusiveDeviceAllocateConflict",
    "CardInsufficientMemory",
    "CardInsufficientCore",
    "ExclusiveDeviceAllocateConflict",
    "CardComputeUnitsExhausted",
    "NodeInsufficientDevice",
    "AllocatedCardsInsufficientRequest",
    "NumaNotFit",
    "CardMigTopologyInfeasible",
    "CardSetInfeasible",
)
"""In the order in which a card is checked: the highest code on a node is the one nearest to fitting."""
(
    _NO_CARD,
    _UNHEALTHY,
    _CORDONED,
    _TYPE,
    _UUID,
    _SLOTS,
    _MUTEX,
    _MEMORY,
    _CORES,
    _EXCLUSIVE,
    _FULL,
    _FEW_CARDS,
    _FEW_FIT,
    _NUMA,
    _MIG,
    _SET,
) = range(1, len(REASONS) + 1)


def _first_short(cores_code: int) -> Array:
    """For each combination of too few slots, too little memory and too little compute, what is reported."""
    order = ((1 << SLOTS, _SLOTS), (1 << MEMORY, _MEMORY), (1 << CORES, cores_code))
    return np.array([next((code for bit, code in order if short & bit), FITS) for short in range(8)], np.uint8)


_SHORT = _first_short(_CORES)
_SHORT_OF_ANY = _first_short(_FULL)
_STATES = {"unhealthy": _UNHEALTHY, "cordoned": _CORDONED}

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
        self._by_model: dict[Hashable, Array] = {}
        number = session.add_predicate(
            self._fits, key=self._key, reasons=REASONS, detail=self._detail, confirm=self._confirm
        )
        session.set_assign(self._assign, number)

    def _key(self, task: Task) -> Hashable:
        if not task.demands:
            return ()
        return task.demands, task.constraints, self._session.gpu_key(task)

    def _vendor(self, request: DeviceRequest) -> Vendor:
        return self._cluster.vendors[self._cluster.vendor_numbers[request.vendor]]

    # -- all nodes at once

    def _fits(self, task: Task, nodes: Nodes) -> tuple[Array, Array] | None:
        """A code per node, and the codes of its cards for the request that decided it."""
        node_codes: Array | None = None
        card_codes: Array
        for demand in task.demands:
            for request in demand.requests:
                codes = self._card_codes(task, request, nodes.cards)
                found = self._node_codes(task, request, codes, nodes)
                if node_codes is None:
                    node_codes, card_codes = found, codes
                else:
                    undecided = node_codes == FITS
                    np.copyto(card_codes, codes, where=undecided)
                    np.copyto(node_codes, found, where=undecided)
        if node_codes is None:
            return None
        doubtful = self._needs_confirmation(task)
        if doubtful or self._cluster.columns.particulars:
            closer = nodes.pick(self._cluster.columns.particular) | doubtful
            node_codes[(node_codes == FITS) & closer] = MAYBE
        return node_codes, card_codes

    def _needs_confirmation(self, task: Task) -> bool:
        """Whether containers compete for cards, or the cards of one must fit together."""
        requests = [request for demand in task.demands for request in demand.requests]
        return len(requests) > 1 or any(
            self._vendor(r).is_particular(r) or (r.count > 1 and self._vendor(r).wants_one_numa(task.annotations))
            for r in requests
        )

    def _card_codes(self, task: Task, request: DeviceRequest, cards: Cards) -> Array:
        """For each card the first rule that keeps the request off it, 0 if none does."""
        cores = min(request.cores, WHOLE_CARD)
        # A container that asks for no compute shares what there is, so there must be some.
        needs = np.array((1, request.memory, cores or 1))[:, None, None]
        short = cards.free < needs
        if not request.memory and request.percentage <= WHOLE_CARD:
            short[MEMORY] = cards.free[MEMORY] < request.memory_on(cards.total[MEMORY])
        if self._cluster.columns.coreless and not cores:
            short[CORES] &= cards.total[CORES] > 0
        codes: Array = (_SHORT if cores else _SHORT_OF_ANY)[np.packbits(short, axis=0, bitorder="little")[0]]
        if cores == WHOLE_CARD:
            shared = (cards.total[CORES] == WHOLE_CARD) & (cards.free[SLOTS] < cards.total[SLOTS])
            np.putmask(codes, shared & (codes == FITS), _EXCLUSIVE)
        rejected = self._session.rejected_cards(task, request, cards)
        if rejected is not None:
            np.putmask(codes, rejected & (codes != _SLOTS), _MUTEX)
        if task.constraints:
            self._mark_uuids(task, request, codes, cards.nodes)
        fixed = self._codes_by_model(task, request)[cards.model]
        np.copyto(codes, fixed, where=fixed > FITS)
        return codes

    def _codes_by_model(self, task: Task, request: DeviceRequest) -> Array:
        """For each card model whether the request can use it at all."""
        key = (request.vendor, task.constraints)
        known = self._by_model.get(key)
        models = self._cluster.columns.models
        if known is not None and len(known) == len(models):
            return known
        vendor, number = self._vendor(request), self._cluster.vendor_numbers[request.vendor]
        codes = np.zeros(len(models), np.uint8)
        for position, model in enumerate(models):
            if model.vendor != number:
                codes[position] = _NO_CARD
            elif model.state:
                codes[position] = _STATES[model.state]
            elif not vendor.accepts_type(model.type, model.mode, task.annotations):
                codes[position] = _TYPE
        if len(self._by_model) > 1024:
            self._by_model.clear()
        self._by_model[key] = codes
        return codes

    def _mark_uuids(self, task: Task, request: DeviceRequest, codes: Array, nodes: Nodes) -> None:
        """Mark the cards that the pod's lists of UUIDs rule out."""
        wanted, refused = self._vendor(request).uuid_lists(task.annotations)
        if wanted is not None:
            codes[~self._places(wanted, nodes)] = _UUID
        if refused:
            codes[self._places(refused, nodes)] = _UUID

    def _places(self, uuids: frozenset[str], nodes: Nodes) -> Array:
        """Which of the nodes' cards have one of the UUIDs."""
        found = np.zeros((nodes.columns.width, nodes.columns.size), np.bool_)
        for uuid in uuids:
            for name in self._cluster.cards.get(uuid, ()):
                state = self._cluster.nodes[name]
                found[state.positions[uuid], state.row] = True
        return nodes.pick(found)

    def _node_codes(self, task: Task, request: DeviceRequest, codes: Array, nodes: Nodes) -> Array:
        """For each node whether enough of its cards fit, else the reason of the card nearest to fitting."""
        columns = self._cluster.columns
        result: Array = np.maximum.reduce(codes, axis=0)
        if request.count == 1:
            result[np.minimum.reduce(codes, axis=0) == FITS] = FITS
        else:
            fitting = np.add.reduce((codes == FITS).view(np.uint8), axis=0, dtype=np.uint8)
            owned = nodes.pick(columns.vendor_cards[self._cluster.vendor_numbers[request.vendor]])
            result[fitting > 0] = _FEW_FIT
            result[(owned > 0) & (owned < request.count)] = _FEW_CARDS
            # A card cut into MIG instances can serve a request for several.
            result[(fitting >= request.count) | ((fitting > 0) & nodes.pick(columns.particular))] = FITS
        if columns.foreign_total:
            self._mark_foreign(task, request, codes, nodes, result)
        return result

    def _mark_foreign(self, task: Task, request: DeviceRequest, codes: Array, nodes: Nodes, result: Array) -> None:
        """Count cards that pods hold without saying which: slots of the node, and no card of it can be given whole."""
        cards = nodes.cards
        held = nodes.pick(self._cluster.columns.foreign[self._cluster.vendor_numbers[request.vendor]])
        free = np.where(codes != _NO_CARD, np.maximum(cards.free[SLOTS], 0), 0).sum(axis=0)
        fits = result == FITS
        result[fits & (held > 0) & (free - held < request.count)] = _SLOTS
        whole = request.cores >= WHOLE_CARD or (not request.memory and request.percentage == WHOLE_CARD)
        if whole or self._session.rejected_cards(task, request, cards) is not None:
            result[fits & (held > 0)] = _EXCLUSIVE

    # -- one node

    def _confirm(self, task: Task, row: int) -> int:
        granted = self._assign(task, row, None)
        return granted if isinstance(granted, int) else FITS

    def _assign(self, task: Task, row: int, card_codes: Array | None) -> Grant | int:
        """Hand out the node's cards container by container; init containers give theirs back before the next."""
        state = self._cluster.states[row]
        cards = Nodes(self._cluster.columns, slice(row, row + 1)).cards
        alone = len(task.demands) == 1 and len(task.demands[0].requests) == 1
        if not alone:
            cards = cards.copy()
        taken: Taken = {card: tuple(places) for card, places in state.mig.items()}
        uses: dict[int, list[tuple[DeviceUse, ...]]] = {}
        for demand in task.demands:
            trial, trial_taken = (cards.copy(), dict(taken)) if demand.kind == INIT and not alone else (cards, taken)
            for request in demand.requests:
                if alone and card_codes is not None:
                    codes = card_codes[:, row]
                else:
                    codes = self._card_codes(task, request, trial)[:, 0]
                free: Free = trial.free[:, :, 0].tolist()
                given = self._choose(task, request, state, codes, free, trial_taken)
                if isinstance(given, int):
                    return given
                if not alone:
                    trial.free[:, :, 0] = free
                number = self._cluster.vendor_numbers[request.vendor]
                uses.setdefault(number, [()] * len(task.kinds))[demand.position] = tuple(given)
        return tuple((number, tuple(containers)) for number, containers in sorted(uses.items()))

    def _choose(
        self, task: Task, request: DeviceRequest, state: NodeState, codes: Array, free: Free, taken: Taken
    ) -> list[DeviceUse] | int:
        """Slices of the node's cards for one request, taken away from `free` and `taken`; or the code of why not."""
        fitting = [card for card, code in enumerate(codes.tolist()) if code == FITS]
        if not fitting:
            return int(codes.max())
        chosen = self._pick(task, request, state, self._session.order_cards(task, request, state, free, fitting))
        if isinstance(chosen, int):
            return chosen
        cores = min(request.cores, WHOLE_CARD)
        given: list[DeviceUse] = []
        for card in chosen:
            device = state.devices[card]
            memory = request.memory_on(device.memory)
            if device.mode == MIG_MODE:
                self._cut(device, card, request.count - len(given), (1, memory, cores), free, taken, given)
            else:
                _take(free, card, memory, cores)
                given.append(DeviceUse(device.uuid, memory, cores))
            if len(given) == request.count:
                return given
        return _MIG if any(state.devices[card].mode == MIG_MODE for card in chosen) else _FEW_FIT

    @staticmethod
    def _cut(
        device: Device,
        card: int,
        most: int,
        needs: tuple[int, int, int],
        free: Free,
        taken: Taken,
        given: list[DeviceUse],
    ) -> None:
        """Cut up to that many MIG instances out of one card."""
        for _ in range(most):
            instance = choose_instance(device.profiles, needs[MEMORY], taken.get(card, ()))
            if instance is None or any(free[kind][card] < need for kind, need in enumerate(needs)):
                return
            profile, placement = instance
            memory, cores = min(profile.memory, free[MEMORY][card]), min(profile.cores, free[CORES][card])
            taken[card] = (*taken.get(card, ()), placement)
            _take(free, card, memory, cores)
            given.append(DeviceUse(device.uuid, memory, cores, profile.name, placement))

    def _pick(
        self, task: Task, request: DeviceRequest, state: NodeState, candidates: Sequence[int]
    ) -> Sequence[int] | int:
        """Which of the fitting cards to take, in order of preference."""
        vendor = self._vendor(request)
        if request.count > 1 and vendor.wants_one_numa(task.annotations):
            groups: dict[int, list[int]] = {}
            for card in candidates:
                groups.setdefault(state.devices[card].numa, []).append(card)
            roomy = [group for group in groups.values() if len(group) >= request.count]
            if not roomy:
                return _NUMA
            candidates = roomy[0]
        chosen = self._session.choose_set(task, request, state.row, candidates)
        if chosen is not None:
            return list(chosen)
        positions = vendor.pick(request, [state.devices[card] for card in candidates], task.annotations)
        if positions is None:
            return candidates
        return [candidates[position] for position in positions] or _SET

    # -- sentences

    def _detail(self, task: Task, row: int, code: int, card_codes: Array | None) -> Callable[[], str]:
        assert card_codes is not None
        codes = card_codes[:, row].copy()
        node, free = self._cluster.states[row].name, self._cluster.columns.card_free[:, :, row].copy()
        total = self._cluster.columns.card_total[:, :, row].copy()
        foreign = self._cluster.columns.foreign[:, row].copy()

        def render() -> str:
            return f"{node}: {describe(task, code, codes, total, free, foreign, self._cluster.vendor_numbers)}"

        return render


def _take(free: Free, card: int, memory: int, cores: int) -> None:
    free[SLOTS][card] -= 1
    free[MEMORY][card] -= memory
    free[CORES][card] -= cores


def describe(
    task: Task, code: int, codes: Array, total: Array, free: Array, foreign: Array, vendors: Mapping[str, int]
) -> str:
    """Why a node's cards will not do, with numbers."""
    request = max((r for d in task.demands for r in d.requests), key=lambda r: r.count)
    cards = int((codes != _NO_CARD).sum())
    if code == _NO_CARD:
        return f"no {request.vendor} card is registered"
    if code == _FEW_CARDS:
        return f"wants {request.count} {request.vendor} cards, the node has {cards}"
    counts: dict[str, int] = {}
    for value in codes.tolist():
        if value not in (FITS, _NO_CARD):
            counts[REASONS[value - 1]] = counts.get(REASONS[value - 1], 0) + 1
    text = ", ".join(f"{count}/{cards} {reason}" for reason, count in sorted(counts.items()))
    if code not in codes:
        text = REASONS[code - 1] + (f"; {text}" if text else "")
    own = codes != _NO_CARD
    if code == _FEW_FIT:
        text += f"; wants {request.count} cards, {int((codes == FITS).sum())} fit"
    elif code == _MEMORY:
        wanted = f"{request.memory} MiB" if request.memory else f"{request.percentage} % of the memory"
        text += f"; wants {wanted} on a card, at most {int(free[MEMORY][own].max())} of "
        text += f"{int(total[MEMORY][own].max())} MiB are free"
    elif code == _CORES:
        text += f"; wants {request.cores} % of a card's compute, at most {int(free[CORES][own].max())} % are free"
    held = int(foreign[vendors[request.vendor]])
    if held:
        text += f"; {held} {request.vendor} cards are held by pods that do not say which"
    return text

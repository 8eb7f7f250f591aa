"""Devices: a pod fits where enough cards of the right kind have a free slot, memory and compute.

Card rules are evaluated over all nodes during the search, and again on one node while its cards are assigned, with what
earlier containers of the pod took. Pods whose containers compete for cards, or whose cards must fit together, are
confirmed node by node; for all others it is enough to count fitting cards.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import INIT, Task
from tonnage.devices.base import MIG_MODE, Device, DeviceRequest, DeviceUse, MigPlacement
from tonnage.framework.classfit import FITS, MAYBE
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.plugins.helpers import cardrules
from tonnage.plugins.helpers.cardrules import CARD_FITS, CardAsk, describe, mark

Slice = tuple[int, DeviceUse]
"""A card's position and the part that is taken of it."""
Taken = dict[int, tuple[MigPlacement, ...]]
"""MIG placements in use on one node, per card."""
_MANY = 16
"""The number of requests of one pod from which a sum over the node is cheaper than trying each."""


class DevicePlan:
    """A task's card requests, prepared."""

    __slots__ = ("alone", "asks", "by_demand", "different", "lasting", "together")

    def __init__(self, by_demand: tuple[tuple[CardAsk, ...], ...], kinds: Sequence[str]) -> None:
        self.by_demand = by_demand
        """Per demand, per vendor."""
        self.asks = tuple(ask for asks in by_demand for ask in asks)
        self.alone = self.asks[0] if len(self.asks) == 1 else None
        """The only request, which competes with no other of the pod; nothing if there are several."""
        self.together = len(self.asks) > 1 or any(a.one_numa or a.vendor.is_particular(a.request) for a in self.asks)
        """Whether containers compete for cards, or the cards of one must fit together."""
        different: dict[tuple[int, DeviceRequest], CardAsk] = {}
        for ask in self.asks:
            different.setdefault((ask.number, ask.request), ask)
        self.different = tuple(different.values())
        """The distinct requests."""
        self.lasting = tuple(ask for kind, asks in zip(kinds, by_demand, strict=True) if kind != INIT for ask in asks)
        """The requests held concurrently; init containers release theirs."""


class Devices(Plugin, trusted=True):
    """Keeps cards within their slots, memory and compute, and assigns them."""

    name = "devices"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._plans: Memo[Hashable, DevicePlan] = Memo()
        self._planned: tuple[Task | None, DevicePlan | None] = (None, None)
        number = session.add_batch_predicate(
            self._fits,
            key=self._key,
            reasons=cardrules.REASONS,
            detail=self._detail,
            confirm=self._confirm,
            fits=CARD_FITS,
            detail_per_class=True,
            reads=self._reads,
        )
        session.set_assign(self._assign, number)

    def _key(self, task: Task) -> Hashable:
        return (task.demands, task.constraints, self._session.cards.key(task)) if task.demands else UNCONCERNED

    def _reads(self, task: Task) -> Reads:
        names_cards = any(ask.wanted_uuids is not None or ask.refused_uuids for ask in self._plan(task).asks)
        return Reads.LOOK if self._session.cards.follow_looks and not names_cards else Reads.EVERYTHING

    def _plan(self, task: Task) -> DevicePlan:
        last, plan = self._planned
        if task is last and plan is not None:
            return plan
        key = (task.demands, task.constraints)
        known = self._plans.get(key)
        if known is None:
            numbers, vendors = self._cluster.vendor_numbers, self._cluster.vendors
            by_demand = tuple(
                tuple(CardAsk(r, task, vendors[numbers[r.vendor]], numbers[r.vendor]) for r in demand.requests)
                for demand in task.demands
            )
            known = self._plans.keep(key, DevicePlan(by_demand, [demand.kind for demand in task.demands]))
        self._planned = (task, known)
        return known

    # -- all nodes at once

    def _fits(self, task: Task, nodes: Nodes) -> tuple[Array, Array]:
        """A code per node, and the card codes of the request that decided it."""
        plan = self._plan(task)
        first, cards = plan.asks[0], nodes.cards
        card_codes = self._card_codes(task, first, cards)
        node_codes = self._node_codes(task, first, card_codes, cards)
        for ask in plan.different[1:]:
            codes = self._card_codes(task, ask, cards)
            undecided = node_codes == CARD_FITS
            np.copyto(node_codes, self._node_codes(task, ask, codes, cards), where=undecided)
            np.copyto(card_codes, codes, where=undecided)
        if len(plan.asks) > _MANY:
            self._mark_too_little(plan, cards, node_codes)
        if self._cluster.device_plugins.are_closed:
            self._mark_closed(nodes, node_codes)
        if plan.together or self._cluster.columns.particulars:
            particular = self._cluster.columns.particular
            closer = np.logical_or.reduce([nodes.pick(particular[ask.number]) for ask in plan.asks]) | plan.together
            node_codes[(node_codes == CARD_FITS) & closer] = MAYBE
        return node_codes, card_codes

    def _card_codes(self, task: Task, ask: CardAsk, cards: Cards) -> Array:
        """For each card the first rule that rejects the request, other plugins' rules included."""
        codes = ask.codes(cards, self._cluster.columns)
        rejected = self._session.cards.rejected(task, ask.request, cards)
        if rejected is not None:
            mark(codes, rejected, cardrules.RULED_OUT)
        if ask.wanted_uuids is not None:
            mark(codes, ~self._places(ask.wanted_uuids, cards.nodes), cardrules.UUID)
        if ask.refused_uuids:
            mark(codes, self._places(ask.refused_uuids, cards.nodes), cardrules.UUID)
        return codes

    def _places(self, uuids: frozenset[str], nodes: Nodes) -> Array:
        """Which cards have one of the UUIDs."""
        found = np.zeros((nodes.columns.width, nodes.columns.size), np.bool_)
        for uuid in uuids:
            for name in self._cluster.rows.cards.get(uuid, ()):
                state = self._cluster.nodes[name]
                found[state.positions[uuid], state.row] = True
        return nodes.pick(found)

    def _node_codes(self, task: Task, ask: CardAsk, codes: Array, cards: Cards) -> Array:
        """For each node whether enough cards fit, else the code of the card nearest to fitting."""
        columns, count = self._cluster.columns, ask.request.count
        result: Array
        if codes.shape[1] == 1:
            result = np.array([self._node_code(ask, codes.tobytes(), cards)], np.uint8)
        else:
            result = np.maximum.reduce(codes, axis=0)
            if count > 1:
                fitting = np.add.reduce((codes == CARD_FITS).view(np.uint8), axis=0, dtype=np.uint8)
                owned = cards.nodes.pick(columns.vendor_cards[ask.number])
                # A card in MIG mode can serve a request for several instances.
                particular = cards.nodes.pick(columns.particular[ask.number])
                few = (fitting < count) & ~((fitting > 0) & particular)
                result[few & (fitting > 0)] = cardrules.FEW_FIT
                result[few & (owned > 0) & (owned < count) & ~particular] = cardrules.FEW_CARDS
        if columns.foreign_total:
            self._mark_foreign(task, ask, codes, cards, result)
        return result

    def _node_code(self, ask: CardAsk, codes: bytes, cards: Cards) -> int:
        """The same for one node: counting a few bytes is much faster than arrays of length 1."""
        columns, count = self._cluster.columns, ask.request.count
        best, fitting = max(codes), codes.count(CARD_FITS)
        if fitting >= count or count == 1:
            return best
        particular = bool(cards.nodes.pick(columns.particular[ask.number])[0])
        if not particular and 0 < int(cards.nodes.pick(columns.vendor_cards[ask.number])[0]) < count:
            return cardrules.FEW_CARDS
        return cardrules.FEW_FIT if fitting and not particular else best

    def _mark_foreign(self, task: Task, ask: CardAsk, codes: Array, cards: Cards, result: Array) -> None:
        """Count cards that pods hold without naming them: they use slots, and no card of the node can be exclusive."""
        held = cards.nodes.pick(self._cluster.columns.foreign[ask.number])
        free = np.where(codes != cardrules.NO_CARD, np.maximum(cards.free[SLOTS], 0), 0).sum(axis=0)
        concerned = (held > 0) & (result == CARD_FITS)
        result[concerned & (free - held < ask.request.count)] = cardrules.NO_SLOT
        if ask.takes_whole_cards or self._session.cards.rejected(task, ask.request, cards) is not None:
            result[concerned] = cardrules.SHARED
        elif self._cluster.columns.plain and not ask.request.shares:
            result[concerned & ask.plain(cards).any(axis=0)] = cardrules.SHARED

    def _mark_too_little(self, plan: DevicePlan, cards: Cards, result: Array) -> None:
        """Reject nodes where less is free in total than the pod asks for in total; MIG cards are skipped."""
        columns = self._cluster.columns
        for number in {ask.number for ask in plan.lasting}:
            asks = [ask for ask in plan.lasting if ask.number == number]
            owned = asks[0].codes(cards, columns) != cardrules.NO_CARD
            shared = ~cards.nodes.pick(columns.particular[number])
            for column, code, wanted in (
                (SLOTS, cardrules.NO_SLOT, sum(ask.request.count for ask in asks)),
                (MEMORY, cardrules.LITTLE_MEMORY, sum(ask.request.count * ask.request.memory for ask in asks)),
            ):
                free = np.where(owned, np.maximum(cards.free[column], 0), 0).sum(axis=0)
                result[(free < wanted) & shared & (result == CARD_FITS)] = code

    def _mark_closed(self, nodes: Nodes, result: Array) -> None:
        """Reject nodes that would fit, but whose device plugin keeps other pods waiting."""
        closed, fits = self._cluster.device_plugins, result == CARD_FITS
        for names, code in ((closed.busy, cardrules.PLUGIN_BUSY), (closed.silent, cardrules.PLUGIN_SILENT)):
            if names:
                result[fits & nodes.pick(self._cluster.mask(names))] = code

    # -- one node

    def _confirm(self, task: Task, row: int) -> int:
        granted = self._attempt(task, row, None)
        return granted.code if isinstance(granted, CardFailure) else FITS

    def _assign(self, task: Task, row: int, card_codes: Array | None) -> Grant | int:
        granted = self._attempt(task, row, card_codes)
        return granted.code if isinstance(granted, CardFailure) else granted

    def _attempt(self, task: Task, row: int, card_codes: Array | None) -> "Grant | CardFailure":
        """Assign the node's cards container by container; init containers release theirs before the next."""
        columns, state = self._cluster.columns, self._cluster.states[row]
        plan = self._plan(task)
        ask = plan.alone
        if ask is not None and card_codes is not None and not columns.particular[ask.number, row]:
            # No other request of this pod competes for the cards, so the codes of the search still hold.
            codes = card_codes[:, row].tolist()
            given = self._choose(task, ask, state, codes, columns.card_free[:, :, row].tolist(), {})
            if isinstance(given, int):
                return CardFailure(given, ask, codes, columns.card_free[:, :, row])
            places: list[tuple[DeviceUse, ...]] = [()] * len(task.kinds)
            places[task.demands[0].position] = tuple([use for _, use in given])
            return ((ask.number, tuple(places)),)
        cards = Nodes(columns, slice(row, row + 1)).cards.copy()
        taken: Taken = {card: tuple(places) for card, places in state.mig.items()}
        uses: dict[int, list[tuple[DeviceUse, ...]]] = {}
        for demand, asks in zip(task.demands, plan.by_demand, strict=True):
            trial, trial_taken = (cards.copy(), dict(taken)) if demand.kind == INIT else (cards, taken)
            for ask in asks:
                found = self._card_codes(task, ask, trial)
                code = int(self._node_codes(task, ask, found, trial)[0])
                codes = found[:, 0].tolist()
                if code != CARD_FITS:
                    return CardFailure(code, ask, codes, trial.free[:, :, 0])
                if ask.vendor.one_set_per_pod and ask.number in uses:
                    codes = _same_set(codes, state, uses[ask.number])
                instances = self._instances_of_all(ask, state, codes, trial, trial_taken)
                given = self._choose(task, ask, state, codes, trial.free[:, :, 0].tolist(), instances)
                if isinstance(given, int):
                    return CardFailure(given, ask, codes, trial.free[:, :, 0])
                _take(given, trial, trial_taken)
                if ask.vendor.is_choosy:
                    _meet(given, ask, trial)
                uses.setdefault(ask.number, [()] * len(task.kinds))[demand.position] = tuple([use for _, use in given])
        return tuple([(number, tuple(containers)) for number, containers in sorted(uses.items())])

    def _choose(
        self,
        task: Task,
        ask: CardAsk,
        state: NodeState,
        codes: Sequence[int],
        free: Sequence[Sequence[int]],
        instances: Mapping[int, list[DeviceUse]],
    ) -> "list[Slice] | int":
        """Slices of the node's cards for one request, or the code of why there are none.

        `instances` are the possible instances of the cards in MIG mode.
        """
        request = ask.request
        fitting = [card for card, code in enumerate(codes) if code == CARD_FITS]
        if instances:
            fitting = [card for card in fitting if instances.get(card, True)]
            if not fitting:
                return cardrules.MIG
        order = self._session.cards.ordered(task, request, state, free, fitting)
        if instances:
            order = [card for card in order for _ in instances.get(card, (card,))]
        if len(order) < request.count:
            return cardrules.MIG if instances else cardrules.FEW_FIT
        chosen = self._pick(task, ask, state, order)
        if isinstance(chosen, int):
            return chosen
        given: list[Slice] = []
        for card in chosen[: request.count]:
            if card in instances:
                given.append((card, instances[card].pop(0)))
            else:
                given.append((card, ask.use(state.devices[card], free[CORES][card])))
        return given

    def _instances_of_all(
        self, ask: CardAsk, state: NodeState, codes: Sequence[int], cards: Cards, taken: Taken
    ) -> dict[int, list[DeviceUse]]:
        """The possible MIG instances of each fitting card in MIG mode."""
        if not self._cluster.columns.particular[ask.number, state.row]:
            return {}
        return {
            card: self._instances(ask, device, card, cards, taken)
            for card, device in enumerate(state.devices)
            if device.mode == MIG_MODE and codes[card] == CARD_FITS
        }

    def _instances(self, ask: CardAsk, device: Device, card: int, cards: Cards, taken: Taken) -> list[DeviceUse]:
        """The possible instances of a card for a request; each must pass the rules of the vendor's cards again.

        Rules of other plugins are about the card before the request: one that must be idle may serve several instances.
        """
        trial, placements = cards.copy(), dict(taken)
        found: list[DeviceUse] = []
        while ask.codes(trial, self._cluster.columns)[card, 0] == CARD_FITS:
            memory, cores = int(trial.free[MEMORY, card, 0]), int(trial.free[CORES, card, 0])
            instance = ask.vendor.instance(device, ask.request, placements.get(card, ()), memory, cores)
            if instance is None:
                break
            found.append(instance)
            _take([(card, found[-1])], trial, placements)
        return found

    def _pick(self, task: Task, ask: CardAsk, state: NodeState, candidates: Sequence[int]) -> Sequence[int] | int:
        """The fitting cards to take, in order of preference; a card that can be taken twice is listed twice."""
        if ask.one_numa:
            groups: dict[int, list[int]] = {}
            for card in candidates:
                groups.setdefault(state.devices[card].numa, []).append(card)
            roomy = [group for group in groups.values() if len(group) >= ask.request.count]
            if not roomy:
                return cardrules.NUMA
            candidates = roomy[0]
        if ask.vendor.has_set_rules:
            positions = ask.vendor.pick(ask.request, [state.devices[card] for card in candidates], task.annotations)
            if positions is not None:
                return [candidates[position] for position in positions] or cardrules.SET
        chosen = self._session.cards.choose_set(task, ask.request, state.row, candidates)
        return candidates if chosen is None else chosen

    # -- messages

    def _detail(self, task: Task, row: int, code: int, card_codes: Array | None) -> Callable[[], str]:
        columns, state = self._cluster.columns, self._cluster.states[row]
        plan = self._plan(task)
        failure = None if plan.alone is not None else self._failure(task, row, plan)
        if failure is None:
            codes = b"" if card_codes is None else card_codes[:, row].tobytes()
            failure = CardFailure(code, plan.asks[0], codes, columns.card_free[:, :, row].copy())
        held = int(columns.foreign[failure.ask.number, row]) if columns.foreign_total else 0
        node, devices = state.name, state.devices
        return lambda: f"{node}: {describe(failure.ask, code, failure.codes, devices, failure.free, held)}"

    def _failure(self, task: Task, row: int, plan: DevicePlan) -> "CardFailure | None":
        """The failure of a pod with several requests on a node: of one by itself, or of one after the others."""
        cards = Nodes(self._cluster.columns, slice(row, row + 1)).cards.copy()
        for ask in plan.asks:
            codes = self._card_codes(task, ask, cards)
            code = int(self._node_codes(task, ask, codes, cards)[0])
            if code != CARD_FITS:
                return CardFailure(code, ask, codes[:, 0].tolist(), cards.free[:, :, 0])
        granted = self._attempt(task, row, None)
        return granted if isinstance(granted, CardFailure) else None


class CardFailure:
    """The failed assignment of a node's cards: the request that got none, and the state of the cards then."""

    __slots__ = ("ask", "code", "codes", "free")

    def __init__(self, code: int, ask: CardAsk, codes: Sequence[int], free: Array) -> None:
        self.code = code
        self.ask = ask
        self.codes = codes
        self.free = free


def _same_set(codes: Sequence[int], state: NodeState, given: Sequence[Sequence[DeviceUse]]) -> list[int]:
    """The codes of a node's cards for a pod that must reuse the cards it was given before."""
    before = {use.uuid for uses in given for use in uses}
    outside = [device.uuid not in before for device in state.devices]
    return [
        cardrules.SET if code == CARD_FITS and card < len(outside) and outside[card] else code
        for card, code in enumerate(codes)
    ]


def _meet(slices: Sequence[Slice], ask: CardAsk, cards: Cards) -> None:
    """Make the tenant of these slices visible to the pod's next containers."""
    columns = cards.nodes.columns
    for card, _ in slices:
        others = columns.tenancies[int(cards.tenancy[card, 0])]
        cards.tenancy[card, 0] = columns.tenancy_id(others | {ask.tenancy})


def _take(slices: Sequence[Slice], cards: Cards, taken: Taken) -> None:
    """Subtract slices from one node's cards."""
    for card, use in slices:
        cards.free[SLOTS, card, 0] -= 1
        cards.free[MEMORY, card, 0] -= use.memory
        cards.free[CORES, card, 0] -= use.cores
        if use.placement is not None:
            taken[card] = (*taken.get(card, ()), use.placement)

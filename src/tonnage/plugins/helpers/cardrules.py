"""Card rules over arrays of (cards, nodes), and the names of their reasons.

A card's code says which rule rejects a request there, or that the card fits. Codes are numbered in the order in which
the rules run, and fitting is the highest; so the highest code on a node belongs to the card that came furthest.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from tonnage.cluster.columns import CORES, FEW, MEMORY, SLOTS, Array, CardModel, Cards, Columns
from tonnage.cluster.task import Task
from tonnage.devices.base import PLAIN_MODE, WHOLE_CARD, Device, DeviceRequest, DeviceUse, Vendor

REASONS = (
    "NodeUnregistered",
    "CardNotHealth",
    "CardCordoned",
    "ModeNotFit",
    "CardTypeMismatch",
    "CardUuidMismatch",
    "CardTimeSlicingExhausted",
    "ExclusiveDeviceAllocateConflict",
    "CardAppClassMismatch",
    "CardQosPolicyMismatch",
    "CardTenancyMismatch",
    "CardInsufficientMemory",
    "CardInsufficientCore",
    "ExclusiveDeviceAllocateConflict",
    "CardComputeUnitsExhausted",
    "NodeInsufficientDevice",
    "AllocatedCardsInsufficientRequest",
    "NumaNotFit",
    "CardMigTopologyInfeasible",
    "CardSetInfeasible",
    "DevicePluginBusy",
    "DevicePluginSilent",
)
(
    NO_CARD,
    UNHEALTHY,
    CORDONED,
    MODE,
    TYPE,
    UUID,
    NO_SLOT,
    RULED_OUT,
    APP_CLASS,
    QOS_POLICY,
    TENANCY,
    LITTLE_MEMORY,
    FEW_CORES,
    SHARED,
    NO_CORES,
    FEW_CARDS,
    FEW_FIT,
    NUMA,
    MIG,
    SET,
    PLUGIN_BUSY,
    PLUGIN_SILENT,
    CARD_FITS,
) = range(1, len(REASONS) + 2)
_ABOUT_PLUGINS = {
    PLUGIN_BUSY: "its device plugin is busy with other pods, one of which has waited too long already",
    PLUGIN_SILENT: "its device plugin does not answer about a pod that waits for its devices there",
}
_TENANCY_CODES = {"": 0} | {REASONS[code - 1]: code for code in (APP_CLASS, QOS_POLICY, TENANCY)}
_STATES = {"unhealthy": UNHEALTHY, "cordoned": CORDONED}
_BIT = {SLOTS: 1 << 7, CORES: 1 << 6, MEMORY: 1 << 5}
"""The bit of each kind of capacity in a byte that NumPy's `packbits` makes of three flags."""
_BITS = np.array([_BIT[kind] for kind in sorted(_BIT)], np.uint8)[:, None, None]
"""The same as an array over the kinds of capacity."""


class CardAsk:
    """A request for one vendor's cards, prepared for evaluation over many cards at once."""

    def __init__(self, request: DeviceRequest, task: Task, vendor: Vendor, number: int) -> None:
        self.request = request
        self.vendor = vendor
        self.number = number
        """The vendor's number."""
        self.cores = min(request.cores, WHOLE_CARD)
        self.wanted_uuids, self.refused_uuids = vendor.uuid_lists(task.annotations)
        self.one_numa = request.count > 1 and vendor.wants_one_numa(task.annotations)
        self._annotations = task.annotations
        self._by_share = not request.memory and (request.percentage <= WHOLE_CARD or request.fraction[0] > 0)
        # A container that asks for no compute shares the rest, so some must be left.
        needs = {SLOTS: 1, MEMORY: request.memory, CORES: 1 if vendor.fits_by_instance else self.cores or 1}
        self._needs = np.array([needs[kind] for kind in sorted(needs)])[:, None, None]
        self._codes = _code_table(FEW_CORES if self.cores else NO_CORES)
        self.tenancy = vendor.tenancy(request.memory, task.annotations) if vendor.is_choosy else ""
        self._conflicts = np.zeros(0, np.uint8)
        self._by_model = np.zeros(0, np.uint8)
        self._plain = np.zeros(0, np.bool_)

    @property
    def takes_whole_cards(self) -> bool:
        """Whether the request takes its cards exclusively."""
        return self.cores == WHOLE_CARD or (self._by_share and self.request.percentage == WHOLE_CARD)

    def codes(self, cards: Cards, columns: Columns) -> Array:
        """For each card the code of the first rule that rejects the request, or `CARD_FITS`."""
        free, models = cards.free, columns.models
        short = free < self._needs
        if self._by_share:
            np.less(free[MEMORY], self.request.memory_on(cards.total[MEMORY]), out=short[MEMORY])
        if self.request.scales:
            np.less(free[CORES], self.request.cores_on(cards.total[CORES]), out=short[CORES])
        if columns.incomplete and not self.cores:
            short[CORES] &= cards.total[CORES] > 0
        if len(self._by_model) < len(models):
            self._by_model = np.array([self._code_of(model) for model in models], np.uint8)
            self._plain = np.array([model.mode == PLAIN_MODE for model in models], np.bool_)
        # Each card has one byte: the code of its model in the lower bits, what it is short of in the upper ones.
        codes: Array = self._codes.take(_packed(short) | self._by_model.take(cards.model))
        if self.cores == WHOLE_CARD:
            mark(codes, (cards.total[CORES] == WHOLE_CARD) & (free[SLOTS] < cards.total[SLOTS]), SHARED)
        elif columns.plain and not self.request.shares:
            mark(codes, self.plain(cards) & (free[SLOTS] < cards.total[SLOTS]), SHARED)
        if self.vendor.is_choosy and len(columns.tenancies) > 1:
            conflicts = self._tenancy_codes(columns).take(cards.tenancy)
            np.copyto(codes, conflicts, where=(conflicts > 0) & (codes > conflicts))
        return codes

    def _tenancy_codes(self, columns: Columns) -> Array:
        """For each tenancy the code of why the request may not join it; 0 if it may."""
        if len(self._conflicts) < len(columns.tenancies):
            found = [self.vendor.tenancy_conflict(self.tenancy, others) for others in columns.tenancies]
            self._conflicts = np.array([_TENANCY_CODES[reason] for reason in found], np.uint8)
        return self._conflicts

    def plain(self, cards: Cards) -> Array:
        """Which cards have no device plugin registration, so that a request by resource takes them whole."""
        return self._plain.take(cards.model)

    def use(self, device: Device, free_cores: int) -> DeviceUse:
        """What the request takes of a card, shared or whole."""
        if device.mode == PLAIN_MODE and not self.request.shares:
            return DeviceUse(device.uuid, device.memory, device.cores)
        cores = self.request.cores_on(device.cores) if self.request.scales else self.cores
        cores = self.vendor.compute_given(cores, free_cores)
        return DeviceUse(device.uuid, self.request.memory_on(device.memory), cores)

    def _code_of(self, model: CardModel) -> int:
        """The code of the rule that rejects every card of a model, whatever is free on it; 0 if none does."""
        if model.vendor != self.number:
            return NO_CARD
        if model.state:
            return _STATES[model.state]
        if self.vendor.mode_mismatch(self.request, model.mode, model.profiles):
            return MODE
        return 0 if self.vendor.accepts_type(model.type, model.mode, self._annotations) else TYPE


def _packed(short: Array) -> Array:
    """The three flags of each card in the upper bits of one byte.

    NumPy's `packbits` is the fastest for a few nodes, and goes card by card for many.
    """
    if short.shape[-1] <= FEW:
        first: Array = np.packbits(short, axis=0)[0]
        return first
    packed: Array = np.bitwise_or.reduce(short.view(np.uint8) * _BITS, axis=0)
    return packed


def mark(codes: Array, where: Array, code: int) -> None:
    """Set the code on cards that no earlier rule rejects."""
    np.putmask(codes, where & (codes > code), code)


@cache
def _code_table(cores_code: int) -> Array:
    """The code for each fixed code of a card's model and each combination of exhausted quantities."""
    order = ((_BIT[SLOTS], NO_SLOT), (_BIT[MEMORY], LITTLE_MEMORY), (_BIT[CORES], cores_code))
    model_bits = min(_BIT.values()) - 1
    codes = [card & model_bits or next((code for bit, code in order if card & bit), CARD_FITS) for card in range(256)]
    return np.array(codes, np.uint8)


def describe(ask: CardAsk, code: int, codes: Sequence[int], devices: Sequence[Device], free: Array, held: int) -> str:
    """Why a node's cards do not fit, with numbers; `held` counts cards that pods hold without naming them."""
    request, vendor = ask.request, ask.vendor
    own = [card for card, value in enumerate(codes) if value != NO_CARD]
    if code == NO_CARD:
        return f"no {request.vendor} card is registered"
    if code in _ABOUT_PLUGINS:
        return _ABOUT_PLUGINS[code]
    if code == FEW_CARDS:
        return f"wants {request.count} {request.vendor} cards, the node has {len(own)}"
    counts: dict[str, int] = {}
    for card in own:
        if codes[card] != CARD_FITS:
            reason = REASONS[codes[card] - 1]
            counts[reason] = counts.get(reason, 0) + 1
    parts = [", ".join(f"{count}/{len(own)} {reason}" for reason, count in sorted(counts.items()))] if counts else []
    if code not in codes:
        parts.insert(0, REASONS[code - 1])
    if code == FEW_FIT:
        parts.append(f"wants {request.count} cards, {sum(value == CARD_FITS for value in codes)} fit")
    elif code == LITTLE_MEMORY:
        parts.append(_little_memory(request, [devices[card] for card in own], max(free[MEMORY][own].tolist())))
    elif code == FEW_CORES:
        most_free, unit = max(free[CORES][own].tolist()), "units" if request.scales else "%"
        parts.append(f"wants {request.cores} % of a card's compute, at most {most_free} {unit} are free")
    elif code == MODE:
        told = (vendor.mode_mismatch(request, devices[card].mode, devices[card].profiles) for card in own)
        parts.append(next(filter(None, told)))
    if held:
        parts.append(f"{held} {request.vendor} cards are held by pods that do not say which")
    return "; ".join(parts)


def _little_memory(request: DeviceRequest, cards: Sequence[Device], most_free: int) -> str:
    """Why the memory of cards is too little; in shares of a card if it is not known how much they have."""
    largest = max(cards, key=lambda card: card.memory)
    if largest.memory_known:
        return f"wants {request.memory_asked} on a card, at most {most_free} of {largest.memory} MiB are free"
    if request.shares and request.memory:
        return f"wants {request.memory_asked} on a card, and how much memory the cards have is not known"
    wanted = f"{request.memory_on(largest.memory) / largest.memory:.2g} of a card" if request.shares else "a whole card"
    return f"wants {wanted}, at most {max(most_free, 0) / largest.memory:.2g} of one is free"

"""Holdings of pods on nodes: resources, and slices of cards at the peak over the phases of a pod.

Init containers run one after another before the app containers, so a card needs room only for the largest phase;
sidecars keep running from their turn on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tonnage.cluster.task import APP, SIDECAR, Requests, Task
from tonnage.devices.base import DecodeError, DeviceRequest, MigPlacement, PodUses, Vendor
from tonnage.model.problem import Problem, annotation_field
from tonnage.model.resources import Additions

ImplicitDevice = tuple[int, str, int]
"""A device that is held without naming its card: its vendor, then a pod and a number, or a group of pods and -1."""


class CardUse(msgspec.Struct, gc=False, frozen=True):
    """What a pod holds of one card."""

    uuid: str
    slots: int
    memory: int
    cores: int
    placements: tuple[MigPlacement, ...] = ()
    tenancy: tuple[str, ...] = ()
    """What its containers count as to others on the card, for vendors that care who shares a card."""


class GroupUse(msgspec.Struct, gc=False, frozen=True):
    """What a pod holds of the card of its group, or only which card that is."""

    group: str
    request: DeviceRequest | None = None
    """What it holds of the card; nothing if that cannot be read."""
    card: str = ""
    """The card's UUID, if the pod knows it."""
    holds: bool = True
    """Whether the pod uses the card, rather than only naming it."""


class VendorUse(msgspec.Struct, gc=False, frozen=True):
    """What a pod holds of one vendor's cards, or how many cards it holds without naming them."""

    vendor: int
    cards: tuple[CardUse, ...] = ()
    unknown: int = 0
    groups: tuple[GroupUse, ...] = ()


class Holding(msgspec.Struct, gc=False, frozen=True):
    """Everything a pod holds on a node."""

    node: str
    requests: Requests
    vendors: tuple[VendorUse, ...] = ()
    unstated: Additions = (0, 0)
    """What Kubernetes' scores count beyond the requests."""

    @property
    def has_implicit_devices(self) -> bool:
        """Whether it holds cards without naming them."""
        return any(use.unknown or use.groups for use in self.vendors)

    @property
    def names_group_cards(self) -> bool:
        """Whether it names the card of a group of pods."""
        return any(group.card for use in self.vendors for group in use.groups)


class _Load:
    """Slots, memory and cores on one card, as a sum or a peak."""

    __slots__ = ("cores", "memory", "slots")

    def __init__(self, slots: int = 0, memory: int = 0, cores: int = 0) -> None:
        self.slots, self.memory, self.cores = slots, memory, cores

    def plus(self, memory: int, cores: int) -> "_Load":
        return _Load(self.slots + 1, self.memory + memory, self.cores + cores)

    def peak(self, other: "_Load") -> "_Load":
        return _Load(max(self.slots, other.slots), max(self.memory, other.memory), max(self.cores, other.cores))


def _peaks(pairs: Iterable[tuple[str, tuple[tuple[str, int, int], ...]]]) -> dict[str, _Load]:
    """The largest load of each card over the phases; containers come as (kind, (uuid, memory, cores)...)."""
    nothing = _Load()
    running: dict[str, _Load] = {}
    peaks: dict[str, _Load] = {}
    for kind, uses in pairs:
        stays = kind in (SIDECAR, APP)
        phase = running if stays else dict(running)
        for uuid, memory, cores in uses:
            phase[uuid] = phase.get(uuid, nothing).plus(memory, cores)
        for uuid, _, _ in uses:
            peaks[uuid] = peaks.get(uuid, nothing).peak(phase[uuid])
    return peaks


def card_uses(
    kinds: Sequence[str], uses: PodUses, vendor: Vendor | None = None, annotations: Mapping[str, str] = {}
) -> tuple[CardUse, ...]:
    """What a pod holds of each card; if the uses do not match its containers, all count as running together.

    The vendor and the pod's annotations are needed for vendors that care who shares a card.
    """
    tenancy: dict[str, set[str]] = {}
    if vendor is not None and vendor.is_choosy:
        for use in (use for container in uses for use in container):
            tenancy.setdefault(use.uuid, set()).add(vendor.tenancy(use.memory, annotations))
    if len(uses) == 1 and len(uses[0]) == 1 and uses[0][0].placement is None:
        use = uses[0][0]
        return (CardUse(use.uuid, 1, use.memory, use.cores, tenancy=tuple(tenancy.get(use.uuid, ()))),)
    if len(uses) != len(kinds):
        kinds = (APP,) * len(uses)
    peaks = _peaks(
        (kind, tuple((use.uuid, use.memory, use.cores) for use in container))
        for kind, container in zip(kinds, uses, strict=True)
    )
    placements: dict[str, list[MigPlacement]] = {}
    for container in uses:
        for use in container:
            if use.placement is not None:
                placements.setdefault(use.uuid, []).append(use.placement)
    return tuple(
        CardUse(
            uuid,
            load.slots,
            load.memory,
            load.cores,
            tuple(placements.get(uuid, ())),
            tuple(sorted(tenancy.get(uuid, ()))),
        )
        for uuid, load in peaks.items()
    )


def group_uses(task: Task, vendor: Vendor, cards: Sequence[CardUse]) -> tuple[GroupUse, ...]:
    """What a running pod holds of the cards of its groups, or says about which cards those are."""
    groups = vendor.groups(task.pod) if task.pod.metadata.labels else ()
    if cards:
        named = zip(groups, cards, strict=True) if len(groups) == len(cards) else ()
        return tuple(GroupUse(group.name, card=card.uuid, holds=False) for group, card in named)
    if any(group.is_reservation for group in groups):
        return tuple(GroupUse(group.name, card=group.card, holds=False) for group in groups)
    asked = [r for demand in task.demands for r in demand.requests if r.shares and r.vendor == vendor.name]
    request = asked[0] if asked else None
    names = [group.name for group in groups]
    if request is not None:
        names += [f"{task.key}#{number}" for number in range(len(names), request.count)]
    elif dict(task.requests).get(vendor.count_resource):
        return ()
    return tuple(GroupUse(name, request) for name in names)


def read_holding(task: Task, node: str, vendors: Sequence[Vendor]) -> tuple[Holding, list[Problem]]:
    """What a running pod holds by its requests and annotations, and what is wrong with those."""
    problems: list[Problem] = []
    return Holding(node, task.requests, tuple(_vendor_uses(task, vendors, problems)), task.unstated), problems


def _vendor_uses(task: Task, vendors: Sequence[Vendor], problems: list[Problem]) -> Iterator[VendorUse]:
    """What a running pod holds by its annotations, or else how many cards by its requests."""
    counts = dict(task.requests)
    for number, vendor in enumerate(vendors):
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

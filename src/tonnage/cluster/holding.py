"""Holdings of pods on nodes: resources, and slices of cards at the peak over the phases of a pod.

Init containers run one after another before the app containers, so a card needs room only for the largest phase;
sidecars keep running from their turn on. Once the kubelet has reported that all init containers ended with success,
only what is left running counts on cards. Resources count at the peak for the pod's life, as in Kubernetes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from tonnage.cluster.task import APP, INIT, SIDECAR, Demand, Requests, Task, containers_of
from tonnage.devices.base import (
    PLAIN_MODE,
    DecodeError,
    Device,
    DeviceRequest,
    DeviceUse,
    MigPlacement,
    PodUses,
    RequestError,
    Vendor,
    limit,
    whole_number,
)
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


class VolumeReservation(msgspec.Struct, gc=False, frozen=True):
    """What a claim of a pod that waits for its first consumer is to get."""

    claim: str
    """Namespace and name."""
    volume: str = ""
    """A volume that is free; empty if one is to be provisioned."""
    storage_class: str = ""
    size: int = 0
    """How many bytes the claim asks for."""


class Holding(msgspec.Struct, gc=False, frozen=True):
    """Everything a pod holds on a node."""

    node: str
    requests: Requests
    vendors: tuple[VendorUse, ...] = ()
    unstated: Additions = (0, 0)
    """What Kubernetes' scores count beyond the requests."""
    volumes: tuple[VolumeReservation, ...] = ()
    """What is reserved for its claims until they are bound."""

    @property
    def cards(self) -> frozenset[tuple[int, str]]:
        """Vendors and UUIDs of the cards that it names."""
        return frozenset([(use.vendor, card.uuid) for use in self.vendors for card in use.cards])

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
    is_choosy = vendor is not None and vendor.is_choosy
    if not is_choosy and len(uses) == 1 and len(uses[0]) == 1 and uses[0][0].placement is None:
        # Most pods hold a part of one card.
        use = uses[0][0]
        return (CardUse(use.uuid, 1, use.memory, use.cores),)
    if len(uses) != len(kinds):
        kinds = (APP,) * len(uses)
    tenancy: dict[str, set[str]] = {}
    if vendor is not None and is_choosy:
        for kind, container in zip(kinds, uses, strict=True):
            for use in container if kind != INIT or vendor.init_has_tenancy else ():
                tenancy.setdefault(use.uuid, set()).add(vendor.tenancy(use.memory, annotations))
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
    elif not task.fault or dict(task.requests).get(vendor.count_resource):
        return ()
    return tuple(GroupUse(name, request) for name in names)


CardFinder = Callable[[str, int], Device | None]
"""A card of the pod's node, by UUID and the number of its vendor; None if the node has no such card."""


class HoldingReader:
    """Reads what a running pod holds by its requests and annotations, and what is wrong with those.

    Its author may write the annotations, so they count only as far as any scheduler could have written them for these
    requests: no more cards than requested and, if `is_bounded`, no more of each card than the vendor's rules can give.
    Amounts are not bounded where the device configuration may have been another one when the pod was placed, nor below
    what the pod counted with before, because its node may have registered larger cards then.
    """

    def __init__(
        self, task: Task, find: CardFinder | None = None, before: Holding | None = None, is_bounded: bool = False
    ) -> None:
        self._task = task
        self._find = find
        """None if the node is not known."""
        self._before = before
        self._is_bounded = is_bounded and not task.fault
        self.problems: list[Problem] = []
        self.ignores = False
        """Whether a part of what the annotations claim does not count."""

    def holding(self, node: str, vendors: Sequence[Vendor]) -> Holding:
        """Everything the pod holds on that node."""
        task = self._task
        return Holding(node, task.requests, tuple(self._vendor_uses(vendors)), task.unstated)

    def _vendor_uses(self, vendors: Sequence[Vendor]) -> Iterator[VendorUse]:
        """What the pod holds by its annotations, or else how many cards by its requests."""
        task = self._task
        counts = dict(task.requests)
        for number, vendor in enumerate(vendors):
            is_named = vendor.allocated in task.annotations
            if not is_named and not vendor.sharing_annotations and vendor.count_resource not in counts:
                # As for all vendors but one of most pods.
                continue
            uses: PodUses = ()
            if is_named:
                try:
                    uses = self.uses(number, vendor)
                except DecodeError as error:
                    message = f"{error.message}; the pod is counted without knowing its cards"
                    field = annotation_field(vendor.allocated)
                    self.problems.append(Problem(f"Pod/{task.key}", field, error.position, error.expected, message))
            kept = self.kept(uses, number)
            cards = card_uses(task.kinds, kept, vendor, task.annotations) if kept else ()
            groups = group_uses(task, vendor, cards) if vendor.sharing_annotations else ()
            if any(uses):
                unknown = self._unnamed(vendor, kept)
            else:
                unknown = 0 if groups else counts.get(vendor.count_resource, 0)
            if cards or groups or unknown > 0:
                yield VendorUse(number, cards, unknown, groups)

    def uses(self, number: int, vendor: Vendor) -> PodUses:
        """The devices of a vendor that the pod's annotations name and that count; DecodeError if unreadable."""
        task = self._task
        if not task.annotations[vendor.allocated].strip("; "):
            return ()
        most = self._most_cards(vendor)
        if not most:
            self._ignore(
                vendor, f"the pod requests no {vendor.count_resource}, so the cards that it names do not count"
            )
            return ()
        uses = self._decoded(vendor)
        if self._is_ordinary(uses, number, vendor):
            return uses
        named = sum([len(given) for given in uses])
        if named > most:
            self._ignore(vendor, f"{named} devices are named, but the pod requests {most}; no more than that count")
            uses = self._first(uses, most, number)
        return self._bounded(uses, number, vendor) if self._is_bounded and self._find is not None else uses

    def kept(self, uses: PodUses, number: int) -> PodUses:
        """The devices without those that init containers gave back: once all have ended, only the others count.

        The place of a MIG instance stays taken, because the device plugin keeps the instance as long as the pod; plain
        cards stay taken altogether, because the kubelet does not give them to other pods before.
        """
        kinds, find = self._task.kinds, self._find
        if INIT not in kinds or len(uses) != len(kinds) or find is None or not self._task.pod.is_initialized:
            return uses
        if any((card := find(use.uuid, number)) and card.mode == PLAIN_MODE for given in uses for use in given):
            return uses
        return tuple(
            tuple([replace(use, memory=0, cores=0) for use in given if use.placement is not None])
            if kind == INIT
            else given
            for kind, given in zip(kinds, uses, strict=True)
        )

    def _decoded(self, vendor: Vendor) -> PodUses:
        """All devices that the annotations name; what cannot be read beside the record does not hide the record."""
        pod = self._task.pod
        try:
            return vendor.decode_pod(pod) or ()
        except DecodeError as error:
            besides = [key for key in vendor.record_annotations if key != vendor.allocated and key in pod.annotations]
            if not besides:
                raise
            message = f"{error.message}; the pod's cards count without it"
            field = annotation_field(besides[0])
            kept = {key: text for key, text in pod.annotations.items() if key not in besides}
            uses = vendor.decode_pod(replace(pod, metadata=replace(pod.metadata, annotations=kept))) or ()
            self.problems.append(Problem(f"Pod/{pod.key}", field, error.position, error.expected, message))
            return uses

    def _most_cards(self, vendor: Vendor) -> int:
        """The most cards that all containers together may name."""
        task = self._task
        if task.fault:
            return _readable_count(task, vendor)
        return sum([vendor.most_cards(request) for _, request in self._asked(vendor)])

    def _asked(self, vendor: Vendor) -> list[tuple[Demand, DeviceRequest]]:
        name = vendor.name
        return [(demand, asked) for demand in self._task.demands for asked in demand.requests if asked.vendor == name]

    def _is_ordinary(self, uses: PodUses, number: int, vendor: Vendor) -> bool:
        """Whether the pod names one card, as it requests, and no more of it than it requests: most pods do."""
        demands = self._task.demands
        if len(uses) != 1 or len(uses[0]) != 1 or len(demands) != 1 or len(demands[0].requests) != 1:
            return False
        use, request = uses[0][0], demands[0].requests[0]
        device = self._find(use.uuid, number) if self._find is not None else None
        return (
            request.vendor == vendor.name
            and request.count == 1
            and device is not None
            and use.memory <= request.memory_on(device.memory)
            and use.cores <= request.cores
        )

    def _unnamed(self, vendor: Vendor, uses: PodUses) -> int:
        """How many cards containers that run together request beyond those that the annotations name."""
        lasting = sum([request.count for demand, request in self._asked(vendor) if demand.kind != INIT])
        return max(0, lasting - sum([len(given) for given in uses]))

    def _first(self, uses: PodUses, most: int, number: int) -> PodUses:
        """The first devices of a record, preferably those that the node has."""
        find = self._find
        places = [(slot, place) for slot, given in enumerate(uses) for place in range(len(given))]
        if find is not None:
            places.sort(key=lambda place: find(uses[place[0]][place[1]].uuid, number) is None)
        kept = set(places[:most])
        return tuple(
            tuple([use for place, use in enumerate(given) if (slot, place) in kept]) for slot, given in enumerate(uses)
        )

    def _bounded(self, uses: PodUses, number: int, vendor: Vendor) -> PodUses:
        """The same devices, each with no more memory and compute than its container's request can give."""
        asked = self._asked(vendor)
        by_position = {demand.position: request for demand, request in asked}
        matches = len(uses) == len(self._task.kinds) and all(
            not given or (slot in by_position and len(given) <= vendor.most_cards(by_position[slot]))
            for slot, given in enumerate(uses)
        )
        return tuple(
            tuple(
                [
                    self._bounded_use(
                        use, [(slot, by_position[slot])] if matches else [*by_position.items()], number, vendor
                    )
                    for use in given
                ]
            )
            for slot, given in enumerate(uses)
        )

    def _bounded_use(
        self, use: DeviceUse, asked: Sequence[tuple[int, DeviceRequest]], number: int, vendor: Vendor
    ) -> DeviceUse:
        """A device with no more than the largest of these requests can give of it."""
        device = self._find(use.uuid, number) if self._find is not None else None
        if device is None or any(
            use.memory <= request.memory_on(device.memory) and use.cores <= request.cores for _, request in asked
        ):
            return use
        containers = containers_of(self._task.pod)
        limits = [vendor.most(containers[position][0], request, device) for position, request in asked]
        limits += [(card.memory, card.cores) for card in self._cards_before(number) if card.uuid == use.uuid]
        memory, cores = max(limit[0] for limit in limits), max(limit[1] for limit in limits)
        if use.memory <= memory and use.cores <= cores:
            return use
        bounded = DeviceUse(use.uuid, min(use.memory, memory), min(use.cores, cores), use.profile, use.placement)
        self._ignore(
            vendor,
            f"{device.share(use.memory)} and {use.cores} of compute of {use.uuid} are more than the pod's request can "
            f"give; {device.share(bounded.memory)} and {bounded.cores} count",
        )
        return bounded

    def _cards_before(self, number: int) -> Iterator[CardUse]:
        for use in self._before.vendors if self._before is not None else ():
            if use.vendor == number:
                yield from use.cards

    def _ignore(self, vendor: Vendor, message: str) -> None:
        self.ignores = True
        field = annotation_field(vendor.allocated)
        self.problems.append(Problem(f"Pod/{self._task.key}", field, "", "what the pod requests", message))


def _readable_count(task: Task, vendor: Vendor) -> int:
    """The number of cards that a pod with an unreadable request may hold."""
    count = int(any(name in task.annotations for name in vendor.sharing_annotations))
    for container, _ in containers_of(task.pod):
        try:
            stated = whole_number(container, vendor.count_resource)
        except RequestError:
            stated = 1
        if stated is None:
            stated = int(any(limit(container, name) is not None for name in vendor.side_resources))
        count += stated
    return count

"""Kunlun XPUs, whole or as vXPUs of a quarter, a half or all of a card.

Eight cards make two halves of four. A card is linked to the other cards of its half and to its counterpart in the other
half. Only sets of cards that are linked to each other are allocated.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tonnage.devices._plain import PlainVendor, WholeVendor
from tonnage.devices._sets import by_index
from tonnage.devices.base import (
    AdmissionChange,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    RequestError,
    Vendor,
    limit,
    uuid_lists,
)
from tonnage.devices.entry import Flags, Name, Section, SectionKeys, VendorEntry, from_flags
from tonnage.model.node import Node
from tonnage.model.pod import Container

CARD_MEMORY = 98304
PARTS = (24576, 49152, CARD_MEMORY)
"""MiB of the vXPUs that a card can be cut into."""
COUNTS = (1, 2, 4, 8)
"""The sizes of sets of linked cards."""
HALF = 4
UUID_LISTS = ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid", "hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid")
"""The two pairs of pod annotations that name cards; each pair lists accepted cards, then refused ones."""
TIGHTEST = {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}
"""Preferred numbers of free cards in a half, by requested cards, best first; a single card does not split a pair."""
QUADS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
"""Sets of two cards of each half that are linked."""


class Kunlun(WholeVendor):
    """XPUs that are allocated whole."""

    has_set_rules = True
    stem = "kunlun"
    plugin_annotations = ("BAIDU_COM_DEVICE_IDX",)
    slots = 100
    card_memory = CARD_MEMORY

    def __init__(self, *, count_resource: str = "kunlunxin.com/xpu") -> None:
        super().__init__(
            name="kunlun",
            count_resource=count_resource,
            record="hami.io/kunlun",
            use_uuids=UUID_LISTS[0],
            refuse_uuids=UUID_LISTS[1],
            is_consumed=False,
        )

        self.policy_annotations = UUID_LISTS

    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        return _all_uuid_lists(annotations)

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        return _checked(super().request(container, annotations), container, self.count_resource)

    def devices(self, node: Node) -> list[Device]:
        devices = super().devices(node)
        return [replace(device, numa=int(device.index >= len(devices) // 2)) for device in devices]

    def is_particular(self, request: DeviceRequest) -> bool:
        return request.count > 1

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        return linked(request.count, candidates)

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        indexes = dict.fromkeys(str(handover.devices[use.uuid].index) for container in uses for use in container)
        return {"BAIDU_COM_DEVICE_IDX": ",".join(indexes)}


class KunlunShared(PlainVendor):
    """vXPUs: parts of cards. All parts of one card have the same size."""

    has_set_rules = True
    is_choosy = True
    init_has_tenancy = False

    def __init__(
        self, *, count_resource: str = "kunlunxin.com/vxpu", memory_resource: str = "kunlunxin.com/vxpu-memory"
    ) -> None:
        super().__init__(
            name="XPU",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource="",
            record="hami.io/xpu-devices",
            register="hami.io/node-register-xpu",
            handshake="hami.io/node-handshake-xpu",
            use_uuids=UUID_LISTS[2],
            refuse_uuids=UUID_LISTS[3],
        )
        self.policy_annotations = UUID_LISTS

    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        return _all_uuid_lists(annotations)

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        request = _checked(super().request(container, annotations), container, self.count_resource)
        if request is None:
            return None
        memory = request.memory or CARD_MEMORY
        return replace(request, memory=memory, percentage=0, cores=memory * 100 // CARD_MEMORY)

    def memory(self, container: Container) -> int | None:
        asked = super().memory(container)
        if asked is None:
            return None
        if asked > CARD_MEMORY:
            raise RequestError(
                f"container {container.name!r}: {self.memory_resource}: {asked} MiB is more than "
                f"a card's {CARD_MEMORY} MiB"
            )
        return next(part for part in PARTS if part >= asked)

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        if limit(container, self.memory_resource) is None:
            return ()
        return tuple(
            AdmissionChange(field, self.memory_resource, str(request.memory)) for field in ("limits", "requests")
        )

    def tenancy(self, memory: int, annotations: Mapping[str, str]) -> str:
        return str(next((part for part in PARTS if part >= memory), CARD_MEMORY))

    def tenancy_conflict(self, tenancy: str, others: frozenset[str]) -> str:
        return "" if others <= {tenancy} else "CardTenancyMismatch"

    def is_particular(self, request: DeviceRequest) -> bool:
        return request.count > 1

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        return linked(request.count, candidates)


def _all_uuid_lists(annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The UUIDs that a pod insists on and refuses: whole XPUs and vXPUs heed the lists of both."""
    pairs = [uuid_lists(annotations, use, refuse) for use, refuse in (UUID_LISTS[:2], UUID_LISTS[2:])]
    wanted = [names for names, _ in pairs if names is not None]
    return frozenset.intersection(*wanted) if wanted else None, pairs[0][1] | pairs[1][1]


def _checked(request: DeviceRequest | None, container: Container, resource: str) -> DeviceRequest | None:
    if request is not None and request.count not in COUNTS:
        shown = ", ".join(str(count) for count in COUNTS)
        raise RequestError(f"container {container.name!r}: {resource}: {request.count} is none of {shown}")
    return request


def linked(count: int, candidates: Sequence[Device]) -> list[int]:
    """Positions of cards that are linked to each other; an empty list if there is no such set."""
    positions = {index: position for index, position in by_index(candidates).items() if index < 2 * HALF}
    free = list(positions)
    chosen: Sequence[int] = ()
    if count == 2 * HALF:
        chosen = free if len(free) == count else ()
    else:
        chosen = _of_one_half(count, free) or _across(count, free)
    return [positions[index] for index in chosen]


def _of_one_half(count: int, free: Sequence[int]) -> Sequence[int]:
    """Cards of the half whose free cards match the request most tightly."""
    halves = [index for index in free if index < HALF], [index for index in free if index >= HALF]
    for size in TIGHTEST[count]:
        for half in halves:
            if len(half) == size:
                return half[:count]
    return ()


def _across(count: int, free: Sequence[int]) -> Sequence[int]:
    """Counterparts of both halves; for two pairs, preferably a set that leaves another pair free."""
    pairs = [(index, index + HALF) for index in free if index + HALF in free]
    if count == 2:
        return pairs[0] if pairs else ()
    quads = [quad for quad in QUADS if set(quad) <= {*free}] if count == HALF else []
    leaving_a_pair = [quad for quad in quads if any(not {*pair} & {*quad} for pair in pairs)]
    return next(iter(leaving_a_pair or quads), ())


class _Keys(SectionKeys, frozen=True, rename="camel"):
    """Whole XPUs, and vXPUs under names with a `V`."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = ""
    resource_v_memory_name: Name = ""


def _configured(section: _Keys) -> Iterator[Vendor]:
    if section.resource_count_name:
        yield Kunlun(count_resource=section.resource_count_name)
    if section.resource_v_count_name:
        yield KunlunShared(count_resource=section.resource_v_count_name, memory_resource=section.resource_v_memory_name)


def _usual(flags: Flags) -> Iterator[Vendor]:
    yield Kunlun(**from_flags(flags, count_resource="kunlun_name"))
    yield KunlunShared(**from_flags(flags, count_resource="kunlun_vcount", memory_resource="kunlun_vmemory"))


ENTRY = VendorEntry(
    sections=(Section("kunlun", _Keys, _configured, any_of=("resource_count_name", "resource_v_count_name")),),
    usual=_usual,
)

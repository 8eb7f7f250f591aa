"""Enflame GCUs: whole cards, which register nothing, and cards that DRS cuts into instances of fixed profiles."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tonnage.devices._plain import PlainVendor, WholeVendor
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MIG_MODE,
    MOST_DEVICES,
    WHOLE_CARD,
    AdmissionChange,
    DecodeError,
    Device,
    DeviceRequest,
    DeviceUse,
    Handover,
    MigPlacement,
    MigProfile,
    PodUses,
    RequestError,
    Vendor,
    limit,
    whole_number,
)
from tonnage.devices.codec import decode_json
from tonnage.devices.entry import Flags, Name, Section, SectionKeys, VendorEntry, from_flags
from tonnage.model.node import Node
from tonnage.model.pod import Container
from tonnage.model.wire import encode

REGISTER = "enflame.com/gcu-drs-capacity"
USE_UUID = "enflame.com/use-gpuuuid"
REFUSE_UUID = "enflame.com/nouse-gpuuuid"
MINOR = "minor"
"""The custom fact that is the number of a card's device file."""
GIB = 1024
LARGEST_IN_GIB = 256
"""A request for memory up to this number counts in GiB, a larger one in MiB."""
_PROFILE = re.compile(r"([1-9][0-9]{0,2})g\.([1-9][0-9]{0,5})gb", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class Enflame(WholeVendor):
    """GCUs that are allocated whole."""

    stem = "GCU"
    card_memory = 100

    def __init__(self, *, count_resource: str = "enflame.com/gcu") -> None:
        super().__init__(
            name="GCU",
            count_resource=count_resource,
            record="hami.io/enflame-gcu-devices",
            use_uuids=USE_UUID,
            refuse_uuids=REFUSE_UUID,
        )


class _Card(msgspec.Struct, gc=False, frozen=True):
    index: str | int = ""
    minor: str | int = ""
    capacity: str | int = 0


class _Capacity(msgspec.Struct, gc=False, frozen=True):
    """A node's registration: the number of slices of each card, and the profiles that cards can be cut into."""

    devices: list[_Card] = []
    profiles: dict[str, str] = {}


class _Assigned(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """One container in the annotation for the device plugin."""

    allocated: bool
    request: int
    profile_name: str
    profile_id: str = msgspec.field(name="profileID")


class EnflameSliced(PlainVendor):
    """GCUs cut by DRS. A container gets one instance, by its number of slices or by memory and compute.

    The record has an instance's compute in percent, rounded up. Slices are counted all the same: six instances of 17 %
    fit on a card of six slices, which HAMi refuses.
    """

    fits_by_instance = True

    plugin_annotations = (
        "enflame.com/gcu-assigned",
        "enflame.com/gcu-assigned-time",
        "enflame.com/gcu-assigned-index",
        "enflame.com/gcu-assigned-id",
        "enflame.com/gcu-assigned-minor",
        "enflame.com/gcu-request-size",
        "assigned-containers",
    )

    def __init__(
        self,
        *,
        count_resource: str = "enflame.com/drs-gcu",
        memory_resource: str = "enflame.com/gcu-memory",
        cores_resource: str = "enflame.com/gcu-core",
    ) -> None:
        super().__init__(
            name="Enflame",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/enflame-vgpu-devices",
            register=REGISTER,
            use_uuids=USE_UUID,
            refuse_uuids=REFUSE_UUID,
            is_consumed=False,
        )

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        slices = whole_number(container, self.count_resource)
        if slices:
            return DeviceRequest(self.name, 1, memory=0, percentage=0, cores=0, slices=slices)
        memory = whole_number(container, self.memory_resource, f"GiB up to {LARGEST_IN_GIB} and else in MiB")
        cores = whole_number(container, self.cores_resource, bounds=(0, WHOLE_CARD))
        if slices == 0 or (memory is None and cores is None):
            return None
        if memory == 0:
            raise RequestError(f"container {container.name!r}: {self.memory_resource}: 0 is no memory to run with")
        size = (memory or 0) * (GIB if (memory or 0) <= LARGEST_IN_GIB else 1)
        return DeviceRequest(self.name, 1, memory=size, percentage=0, cores=cores or 0)

    def devices(self, node: Node) -> list[Device]:
        text = node.annotations.get(REGISTER)
        if text is None:
            return []
        told = decode_json(text, _Capacity, "device", "a JSON object with devices and profiles")
        if len(told.devices) > MOST_DEVICES:
            raise DecodeError(f"{len(told.devices)} devices on one node", "", f"at most {MOST_DEVICES} devices")
        profiles = _profiles(told.profiles)
        memory = max(profile.memory for profile in profiles)
        devices = []
        for position, card in enumerate(told.devices):
            index = _number(card.index, f"device {position + 1}, index") if card.index != "" else position
            facts = ((MINOR, str(card.minor).strip() or str(index)), *told.profiles.items())
            devices.append(
                Device(
                    uuid=f"{node.name}-enflame-drs-{index}",
                    index=index,
                    count=_number(card.capacity, f"device {position + 1}, capacity"),
                    memory=memory,
                    cores=WHOLE_CARD,
                    type=self.name,
                    mode=MIG_MODE,
                    profiles=profiles,
                    custom=facts,
                )
            )
        return devices

    def mode_mismatch(self, request: DeviceRequest, mode: str, profiles: Sequence[MigProfile]) -> str:
        if _smallest(profiles, request) is not None:
            return ""
        wanted = f"{request.slices} slices" if request.slices else f"{request.memory} MiB and {request.cores} %"
        return f"none of the profiles {', '.join(profile.name for profile in profiles)} has {wanted}"

    def instance(
        self, device: Device, request: DeviceRequest, taken: Sequence[MigPlacement], memory: int, cores: int
    ) -> DeviceUse | None:
        """The smallest profile that satisfies the request; the device plugin chooses its placement on the card."""
        profile = _smallest(device.profiles, request)
        if profile is None:
            return None
        most = device.profiles[-1].slices
        # What rounding up added is less than a slice, as a card has few.
        in_use = (device.cores - cores) * most // WHOLE_CARD
        fits = profile.memory <= memory and profile.slices <= most - in_use
        return DeviceUse(device.uuid, profile.memory, profile.cores, profile.name) if fits else None

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        """The requested resources are written to both limits and requests."""
        names = (self.count_resource,) if request.slices else (self.memory_resource, self.cores_resource)
        parts = {"limits": container.resources.limits or {}, "requests": container.resources.requests or {}}
        return tuple(
            AdmissionChange(field, name, str(limit(container, name)))
            for name in names
            for field, part in parts.items()
            if name not in part and limit(container, name) is not None
        )

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        assigned: dict[str, _Assigned] = {}
        told: dict[str, str] = {}
        for container, given in zip(handover.containers, uses, strict=True):
            for use in given[:1]:
                device = handover.devices[use.uuid]
                facts = dict(device.custom)
                slices = next((one.slices for one in device.profiles if one.name == use.profile), 1)
                assigned[container.name] = _Assigned(False, slices, use.profile, str(facts.get(use.profile, "")))
                first = {
                    "enflame.com/gcu-assigned-index": str(device.index),
                    "enflame.com/gcu-assigned-id": str(device.index),
                    "enflame.com/gcu-assigned-minor": str(facts[MINOR]),
                    "enflame.com/gcu-request-size": str(slices),
                }
                told = told or first
        return {
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": handover.nanoseconds,
            **told,
            "assigned-containers": encode(assigned).decode(),
        }


def _profiles(told: Mapping[str, str]) -> tuple[MigProfile, ...]:
    """The profiles from the smallest to the largest, without names that cannot be parsed."""
    found = [(match, name) for name in told if (match := _PROFILE.fullmatch(name.strip().lower())) is not None]
    if not found:
        raise DecodeError("there is no profile that can be read", "profiles", "profiles such as 1g.6gb")
    sizes = sorted((int(match[1]), int(match[2]), name) for match, name in found)
    most = sizes[-1][0]
    return tuple(
        MigProfile(name, min(gib * GIB, LARGEST_AMOUNT), -(-slices * WHOLE_CARD // most), slices, ())
        for slices, gib, name in sizes
    )


def _smallest(profiles: Sequence[MigProfile], request: DeviceRequest) -> MigProfile | None:
    """The smallest profile that satisfies a request: of exactly so many slices, or with enough memory and compute."""
    if request.slices:
        return next((profile for profile in profiles if profile.slices == request.slices), None)
    enough = (p for p in profiles if p.memory >= request.memory and p.cores >= request.cores)
    return next(enough, None)


def _number(text: str | int, position: str) -> int:
    digits = str(text).strip()
    if not _NUMBER.fullmatch(digits):
        raise DecodeError(f"{digits[:40]!r} is not such a number", position, "a whole number, 0 or more")
    return int(digits)


class _Keys(SectionKeys, frozen=True, rename="camel"):
    """Whole GCUs, and GCUs cut by DRS; HAMi before 2.10 shared the latter, under the last two names."""

    resource_gcu: Name = msgspec.field(default="", name="resourceNameGCU")
    resource_sliced: Name = msgspec.field(default="", name="resourceNameDRSGCU")
    resource_memory: Name = msgspec.field(default="", name="resourceNameGCUMemory")
    resource_core: Name = msgspec.field(default="", name="resourceNameGCUCore")
    resource_shared: Name = msgspec.field(default="", name="resourceNameVGCU")
    resource_percentage: Name = msgspec.field(default="", name="resourceNameVGCUPercentage")


def _warnings(section: _Keys) -> Iterator[str]:
    if section.resource_percentage:
        yield (
            "resourceNameVGCUPercentage: Tonnage does not know the shared GCUs of before HAMi 2.10; "
            "resourceNameVGCU is read as resourceNameDRSGCU, as HAMi does since"
        )


def _configured(section: _Keys) -> Iterator[Vendor]:
    if section.resource_gcu:
        yield Enflame(count_resource=section.resource_gcu)
    # As in HAMi, the defaults apply to names that the section leaves out.
    names = {
        "count_resource": section.resource_sliced or section.resource_shared,
        "memory_resource": section.resource_memory,
        "cores_resource": section.resource_core,
    }
    yield EnflameSliced(**{key: name for key, name in names.items() if name})


def _usual(flags: Flags) -> Iterator[Vendor]:
    yield Enflame(**from_flags(flags, count_resource="enflame_gcu_resource_name"))
    # HAMi before 2.10 named the counting resource by the second flag.
    drs, shared = "enflame_drs_gcu_resource_name", "enflame_vgcu_resource_name"
    names = from_flags(
        flags,
        count_resource=drs if flags.get(drs) else shared,
        memory_resource="enflame_gcu_memory_resource_name",
        cores_resource="enflame_gcu_core_resource_name",
    )
    yield EnflameSliced(**names)


ENTRY = VendorEntry(
    sections=(
        Section(
            "enflame",
            _Keys,
            _configured,
            any_of=("resource_gcu", "resource_sliced", "resource_shared"),
            warnings=_warnings,
        ),
    ),
    usual=_usual,
)

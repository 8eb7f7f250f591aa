"""MIG instances: the choice of an instance for a request, and the pod annotation that tells the device plugin."""

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from tonnage.devices.base import LARGEST_AMOUNT, DecodeError, DeviceUse, InstanceIds, MigPlacement, MigProfile, PodUses
from tonnage.devices.codec import decode_json
from tonnage.model.wire import encode

FROM_THE_TOP = ("1g.", "3g.")
"""Profiles placed from the highest start, which keeps the low starts free for profiles that fit only there."""

_Position = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]
_Named = Annotated[str, msgspec.Meta(min_length=1)]


def choose(
    profiles: Sequence[MigProfile], memory: int, taken: Sequence[MigPlacement]
) -> tuple[MigProfile, MigPlacement] | None:
    """The smallest profile with that much memory and a free placement, with the placement; None if there is none."""
    for profile in sorted(profiles, key=lambda profile: (profile.memory, profile.slices, profile.name)):
        if profile.memory < memory:
            continue
        from_the_top = profile.name.startswith(FROM_THE_TOP)
        for place in sorted(profile.placements, key=lambda place: place.start, reverse=from_the_top):
            if not any(place.overlaps(other) for other in taken):
                return profile, place
    return None


class _Place(msgspec.Struct, gc=False, frozen=True):
    start: _Position
    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_AMOUNT)]


class _Allocation(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """One instance; its ids are the device plugin's, for others to read: a scheduler goes by the place."""

    container_index: _Position
    device_index: _Position
    uuid: _Named = msgspec.field(name="gpuUUID")
    profile: _Named
    placement: _Place
    mig_uuid: str | None = msgspec.field(name="migUUID", default=None)
    gpu_instance: int | None = msgspec.field(name="gpuInstanceID", default=None)
    compute_instance: int | None = msgspec.field(name="computeInstanceID", default=None)


def encode_allocations(uses: PodUses) -> str:
    """The annotation for the instances among a pod's devices; empty if there are none."""
    allocations = [
        _Allocation(container, device, use.uuid, use.profile, _Place(use.placement.start, use.placement.size))
        for container, given in enumerate(uses)
        for device, use in enumerate(given)
        if use.placement is not None
    ]
    return encode(allocations).decode() if allocations else ""


def with_ids(text: str, find: Callable[[str, MigPlacement], InstanceIds | None]) -> str:
    """The annotation with the ids of the instances, as far as they are found by card and place; DecodeError."""
    allocations = []
    for entry in decode_json(text, list[_Allocation], "instance"):
        ids = find(entry.uuid, MigPlacement(entry.placement.start, entry.placement.size))
        if ids is not None:
            entry = replace(entry, mig_uuid=ids.uuid, gpu_instance=ids.gpu, compute_instance=ids.compute)
        allocations.append(entry)
    return encode(allocations).decode()


def with_allocations(uses: PodUses, text: str) -> PodUses:
    """A pod's devices, completed by the instances that the annotation names."""
    allocations: dict[tuple[int, int], DeviceUse] = {}
    for number, entry in enumerate(decode_json(text, list[_Allocation], "instance"), 1):
        place = entry.container_index, entry.device_index
        if place in allocations:
            expected = "every device once"
            raise DecodeError(f"container {place[0]}, device {place[1]} again", f"instance {number}", expected)
        use = _use_at(uses, place)
        if use is None or use.uuid != entry.uuid:
            found = "no device" if use is None else use.uuid
            message = f"container {place[0]}, device {place[1]} is {found}, not {entry.uuid}"
            raise DecodeError(message, f"instance {number}", "a device that the pod was given")
        placement = MigPlacement(entry.placement.start, entry.placement.size)
        allocations[place] = DeviceUse(use.uuid, use.memory, use.cores, entry.profile, placement)
    return tuple(
        tuple(allocations.get((container, device), use) for device, use in enumerate(given))
        for container, given in enumerate(uses)
    )


def _use_at(uses: PodUses, place: tuple[int, int]) -> DeviceUse | None:
    container, device = place
    return uses[container][device] if container < len(uses) and device < len(uses[container]) else None

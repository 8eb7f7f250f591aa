"""Shared regions as HAMi-core writes them, in all its layouts."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tonnage.agent.monitor.layouts import LAYOUTS, MAGIC, RegionLayout

A, V0, V1, SHIFTED = LAYOUTS


class Process(NamedTuple):
    """A process of a container: what it uses of each device."""

    used: Sequence[tuple[int, int, int, int, int]] = ()
    """Context, module, data, offset, total."""
    utilization: Sequence[int] = ()
    status: int = 1
    host_pid: int = 0


def region_bytes(
    layout: RegionLayout,
    uuids: Sequence[str],
    *,
    limits: Sequence[int] = (),
    processes: Sequence[Process] = (),
    switch: int = 1,
    recent: int = 2,
    priority: int = 1,
    last_kernel: int = 0,
) -> bytes:
    """The content of a region."""
    data = bytearray(layout.file_size)
    struct.pack_into("<i", data, 0, MAGIC)
    if layout.major is not None:
        struct.pack_into("<II", data, 4, layout.major, 1)
    struct.pack_into("<Q", data, layout.count, len(uuids))
    for number, uuid in enumerate(uuids):
        struct.pack_into("96s", data, layout.uuids + 96 * number, uuid.encode())
    for number, limit in enumerate(limits):
        struct.pack_into("<Q", data, layout.limits + 8 * number, limit)
    for number, process in enumerate(processes):
        slot = layout.slots + number * layout.slot_size
        struct.pack_into("<ii", data, slot, number + 1, process.host_pid)
        struct.pack_into("<i", data, slot + layout.status, process.status)
        for device, used in enumerate(process.used):
            struct.pack_into("<5Q", data, slot + layout.used + device * layout.used_size, *used)
        if layout.utilization is not None:
            for device, share in enumerate(process.utilization):
                place = slot + layout.utilization + device * layout.utilization_size
                struct.pack_into("<3Q", data, place, 0, 0, share)
    struct.pack_into("<4i", data, layout.processes, len(processes), switch, recent, priority)
    if layout.has_kernel_time:
        struct.pack_into("<Q", data, layout.processes + 16, last_kernel)
    return bytes(data)


def write_region(containers: Path, folder: str, content: bytes, name: str = "a.cache") -> Path:
    """A container's folder with a region in it."""
    place = containers / folder
    place.mkdir(parents=True, exist_ok=True)
    file = place / name
    file.write_bytes(content)
    return file


def words(file: Path, layout: RegionLayout) -> tuple[int, int]:
    """The recent kernel and the switch of a region."""
    switch, recent = struct.unpack_from("<ii", file.read_bytes(), layout.processes + 4)
    return recent, switch

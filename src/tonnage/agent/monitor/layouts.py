"""Layouts of shared regions: where HAMi-core keeps what, in each of the four forms that it has had.

A region has no reliable version, so its form follows from the exact size of its file. All numbers are little endian.
"""

import msgspec

MAGIC = 19920718
DEVICES = 16
PROCESSES = 1024
UUID_BYTES = 96
WORD = 8


class RegionLayout(msgspec.Struct, frozen=True):
    """The offsets of one form in bytes, and those of a process in its slot."""

    name: str
    file_size: int
    """One byte more than the structure."""
    major: int | None
    """The version that it must state at 4; None if it states none."""
    count: int
    """Number of devices, u64."""
    uuids: int
    """16 texts of 96 bytes."""
    limits: int
    """16 u64, bytes."""
    slots: int
    """1024 processes."""
    slot_size: int
    used: int
    """Of a slot: context, module, data, offset and total of each device, u64."""
    used_size: int
    utilization: int | None
    """Of a slot: decoder, encoder and SM of each device, u64."""
    utilization_size: int
    status: int
    """Of a slot: i32, 0 if no process has it."""
    processes: int
    """Number of slots in use, i32; then the utilization switch, the recent kernel and the priority, i32 each."""
    has_kernel_time: bool = False
    """Whether the time of the last kernel follows, u64, unix seconds."""

    @property
    def switch(self) -> int:
        return self.processes + 4

    @property
    def recent(self) -> int:
        return self.processes + 8


_CURRENT = RegionLayout(
    name="v1",
    file_size=2008953,
    major=1,
    count=56,
    uuids=64,
    limits=1600,
    slots=1856,
    slot_size=1960,
    used=8,
    used_size=64,
    utilization=1160,
    utilization_size=48,
    status=1928,
    processes=2008896,
    has_kernel_time=True,
)
_SHIFT = 32
"""HAMi-core of early 2026 had a second semaphore before the devices."""
_SEQUENCE = 8
"""And a sequence number at the beginning of a slot."""

LAYOUTS = (
    RegionLayout(
        name="A",
        file_size=804681,
        major=None,
        count=48,
        uuids=56,
        limits=1592,
        slots=1848,
        slot_size=784,
        used=8,
        used_size=40,
        utilization=None,
        utilization_size=0,
        status=776,
        processes=804664,
    ),
    RegionLayout(
        name="v0",
        file_size=1197897,
        major=None,
        count=48,
        uuids=56,
        limits=1592,
        slots=1848,
        slot_size=1168,
        used=8,
        used_size=40,
        utilization=776,
        utilization_size=24,
        status=1160,
        processes=1197880,
    ),
    _CURRENT,
    msgspec.structs.replace(
        _CURRENT,
        name="v1 shifted",
        file_size=_CURRENT.file_size + _SHIFT,
        count=_CURRENT.count + _SHIFT,
        uuids=_CURRENT.uuids + _SHIFT,
        limits=_CURRENT.limits + _SHIFT,
        slots=_CURRENT.slots + _SHIFT,
        used=_CURRENT.used + _SEQUENCE,
        utilization=(_CURRENT.utilization or 0) + _SEQUENCE,
        status=_CURRENT.status + _SEQUENCE,
        processes=_CURRENT.processes + _SHIFT,
    ),
)

BY_SIZE = {layout.file_size: layout for layout in LAYOUTS}

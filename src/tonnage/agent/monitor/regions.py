"""Shared regions: the files in which HAMi-core keeps the use of a container's cards, read and written safely.

A container owns its region and the folder around it. So nothing there is believed: a name may be a link, a pipe or a
device, a file may shrink while it is read, numbers may be anything. What is not a region is left out with a reason, and
nothing but a regular file is ever opened.
"""

import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import compress, islice
from pathlib import Path

import msgspec

from tonnage.agent.monitor.layouts import BY_SIZE, DEVICES, MAGIC, PROCESSES, UUID_BYTES, WORD, RegionLayout

WRONG_SIZE, NO_FILE, FOREIGN, UNREADABLE, SEVERAL = "wrong_size", "no_file", "foreign", "unreadable", "several"
REGION_FAULTS = (WRONG_SIZE, NO_FILE, FOREIGN, UNREADABLE, SEVERAL)
"""Kinds of faults for which a region is left out."""
MOST_NAMES = 256
"""Names of a folder that are looked at."""
MOST_BYTES = 2**48
"""No card has as much memory; a region that says so is not believed."""
_ENDING = ".cache"
_UUID = re.compile(rb"(?:GPU|MIG)-[0-9A-Za-z/-]{1,90}")
_TAIL = struct.Struct("<iiii")
_CONTEXT, _MODULE, _DATA, _OFFSET, _TOTAL = range(5)
_SM = 2
_HOST_PID = 4


class RegionError(Exception):
    """A region that is left out: the kind of its fault, and why in words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class SharedRegion(msgspec.Struct, frozen=True):
    """What a region says apart from its processes."""

    layout: RegionLayout
    uuids: tuple[str, ...]
    """The container's devices, in its order."""
    limits: tuple[int, ...]
    """Bytes of each."""
    processes: int
    switch: int
    """1 if the limit of compute holds."""
    recent: int
    """Above 0 if a kernel was launched lately; -1 if launches are held up."""
    priority: int
    last_kernel: int
    """Unix seconds; 0 if it is not known."""


class DeviceUsage(msgspec.Struct, frozen=True):
    """What a container's processes use of one device: bytes, and percent of compute."""

    context: int = 0
    module: int = 0
    data: int = 0
    offset: int = 0
    total: int = 0
    utilization: int = 0


class RegionFile:
    """An open region."""

    def __init__(self, descriptor: int, layout: RegionLayout) -> None:
        self._descriptor = descriptor
        self._layout = layout

    def read(self) -> SharedRegion:
        """What it says apart from its processes; RegionError if it is no region."""
        layout = self._layout
        head = self._bytes(0, layout.slots)
        magic, major = struct.unpack_from("<iI", head)
        if magic != MAGIC or (layout.major is not None and major != layout.major):
            raise RegionError(FOREIGN, "it does not begin as a region does")
        (count,) = struct.unpack_from("<Q", head, layout.count)
        uuids = tuple(_uuid(head, layout.uuids + n * UUID_BYTES) for n in range(min(count, DEVICES)))
        limits = struct.unpack_from(f"<{len(uuids)}Q", head, layout.limits)
        if not uuids or any(limit > MOST_BYTES for limit in limits):
            raise RegionError(FOREIGN, "it names no devices, or limits that no card has")
        tail = self._bytes(layout.processes, _TAIL.size + (WORD if layout.has_kernel_time else 0))
        processes, switch, recent, priority = _TAIL.unpack_from(tail)
        last = struct.unpack_from("<Q", tail, _TAIL.size)[0] if layout.has_kernel_time else 0
        return SharedRegion(
            layout, uuids, limits, max(0, min(processes, PROCESSES)), switch, recent, max(0, priority), last
        )

    def usage(self, region: SharedRegion, is_alive: Callable[[int], bool]) -> tuple[DeviceUsage, ...]:
        """What its live processes use, by device; RegionError if that cannot be read or cannot be so."""
        layout = self._layout
        slots = self._bytes(layout.slots, region.processes * layout.slot_size)
        halves, words = memoryview(slots).cast("i"), memoryview(slots).cast("Q")
        per_slot = layout.slot_size // 4
        states = halves[layout.status // 4 :: per_slot]
        pids = halves[_HOST_PID // 4 :: per_slot]
        live = [state != 0 and (pid <= 0 or is_alive(pid)) for state, pid in zip(states, pids, strict=True)]

        def total(offset: int) -> int:
            return sum(compress(words[offset // WORD :: layout.slot_size // WORD], live))

        found = []
        for number in range(len(region.uuids)):
            used = layout.used + number * layout.used_size
            sizes = [total(used + WORD * field) for field in (_CONTEXT, _MODULE, _DATA, _OFFSET, _TOTAL)]
            if layout.utilization is not None:
                sizes.append(total(layout.utilization + number * layout.utilization_size + WORD * _SM))
            if max(sizes) > MOST_BYTES:
                raise RegionError(FOREIGN, "it says that more is used than any card has")
            found.append(DeviceUsage(*sizes))
        return tuple(found)

    def write(self, *, recent: int | None = None, switch: int | None = None) -> None:
        """Change the words by which launches are held up and limits hold."""
        for offset, value in ((self._layout.recent, recent), (self._layout.switch, switch)):
            if value is not None:
                os.pwrite(self._descriptor, struct.pack("<i", value), offset)

    def _bytes(self, offset: int, length: int) -> bytes:
        found = os.pread(self._descriptor, length, offset)
        if len(found) != length:
            raise RegionError(WRONG_SIZE, "it was cut short while it was read")
        return found


def _uuid(head: bytes, offset: int) -> str:
    text = head[offset : offset + UUID_BYTES].partition(b"\0")[0]
    if not _UUID.fullmatch(text):
        raise RegionError(FOREIGN, "it names a device that is none")
    return text.decode("ascii")


@contextmanager
def open_region(containers: Path, folder: str, *, writable: bool = False) -> Iterator[RegionFile | None]:
    """The region in a container's folder; None if there is none yet, RegionError if what is there is none."""
    with ExitStack() as held:
        try:
            region = _opened(containers / folder, writable, held)
        except FileNotFoundError:
            region = None
        except OSError as error:
            raise RegionError(UNREADABLE, f"it cannot be opened: {error.strerror}") from error
        try:
            yield region
        except OSError as error:
            raise RegionError(UNREADABLE, f"it cannot be used: {error.strerror}") from error


def _opened(folder: Path, writable: bool, held: ExitStack) -> RegionFile | None:
    """The region in a folder, open until `held` ends."""
    with ExitStack() as passing:
        place = _kept(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), passing)
        name = _region_name(place)
        if name is None:
            return None
        file = _kept(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=place), passing)
        layout = _layout(os.fstat(file))
        # O_PATH has no effect on what it names: only what is known to be a regular file is opened, and exactly that.
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK
        return RegionFile(_kept(os.open(f"/proc/self/fd/{file}", flags), held), layout)


def _kept(descriptor: int, stack: ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _region_name(folder: int) -> str | None:
    """The name of the region in a folder; RegionError if there are several."""
    with os.scandir(folder) as entries:
        names = [one.name for one in islice(entries, MOST_NAMES + 1)]
    found = [name for name in names if name.endswith(_ENDING)]
    if len(found) > 1 or len(names) > MOST_NAMES:
        raise RegionError(SEVERAL, f"its folder has {len(found)} files *{_ENDING} of {len(names)}")
    return found[0] if found else None


def _layout(status: os.stat_result) -> RegionLayout:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise RegionError(NO_FILE, "it is no file of its own but a link, a pipe or the like")
    layout = BY_SIZE.get(status.st_size)
    if layout is None:
        raise RegionError(WRONG_SIZE, f"it has {status.st_size} bytes, as no version of HAMi-core writes it")
    return layout

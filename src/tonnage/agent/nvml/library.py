"""NVML: the driver's library, opened once and asked from one thread.

A card that does not answer is left out with the reason; the others are served. A library without a function is met as a
driver without the feature.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pynvml

from tonnage.agent.core.cards import CardLoad
from tonnage.agent.nvml.found import FoundCard, LeftOut
from tonnage.agent.nvml.links import links_of
from tonnage.agent.nvml.mig import instances_of
from tonnage.agent.nvml.source import SourceError

T = TypeVar("T")

_XID_EVENTS = 8 | 2 | 1
"""Critical XIDs, double-bit and single-bit ECC errors; only XIDs count in the end."""
_XID = 8
_UNSUPPORTED = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
_BUS_ZEROS = 4
"""NVML writes eight digits of the PCI domain, sysfs four."""


class Nvml:
    """The cards of the driver."""

    is_invented = False

    def __init__(self, library: str = "", sysfs: Path = Path("/sys")) -> None:
        """`library` is a path in place of the loader's own search."""
        self._library = library
        self._sysfs = sysfs
        self._events: Any = None

    def open(self) -> None:
        try:
            if self._library:
                # The loader finds the library by its soname from then on.
                ctypes.CDLL(self._library, mode=ctypes.RTLD_GLOBAL)
            pynvml.nvmlInit()
        except (pynvml.NVMLError, OSError) as error:
            raise SourceError(f"NVML cannot be opened: {error}") from error

    def close(self) -> None:
        if self._events is not None:
            _quietly(lambda: pynvml.nvmlEventSetFree(self._events))
            self._events = None
        _quietly(pynvml.nvmlShutdown)

    def cards(self) -> tuple[list[FoundCard], list[LeftOut]]:
        """All cards that answer, and those that do not."""
        found: list[FoundCard] = []
        left = self._watch() if self._events is None else []
        for index in range(self._count()):
            try:
                found.append(self._card(index))
            except (pynvml.NVMLError, UnicodeDecodeError) as error:
                left.append(LeftOut(index, f"NVML does not describe it: {error}"))
        handles = {card.uuid: pynvml.nvmlDeviceGetHandleByIndex(card.index) for card in found}
        links = links_of(handles)
        return [msgspec.structs.replace(card, links=links.get(card.uuid)) for card in found], left

    def loads(self) -> dict[str, CardLoad]:
        found = {}
        for index in range(self._count()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                found[pynvml.nvmlDeviceGetUUID(handle)] = _load(handle)
            except pynvml.NVMLError:
                continue
        return found

    def _count(self) -> int:
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise SourceError(f"NVML does not count cards: {error}") from error

    def _card(self, index: int) -> FoundCard:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        is_mig = _supported(lambda: bool(pynvml.nvmlDeviceGetMigMode(handle)[0]), False)
        return FoundCard(
            index=index,
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            name=pynvml.nvmlDeviceGetName(handle),
            memory=_supported(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), None),
            minor=_supported(lambda: int(pynvml.nvmlDeviceGetMinorNumber(handle)), index),
            numa=self._numa(handle),
            is_mig=is_mig,
            instances=_supported(lambda: instances_of(handle), ()) if is_mig else (),
        )

    def _numa(self, handle: Any) -> int | None:
        bus = _supported(lambda: str(pynvml.nvmlDeviceGetPciInfo(handle).busId), "")
        try:
            return int((self._sysfs / "bus/pci/devices" / bus.lower()[_BUS_ZEROS:] / "numa_node").read_text())
        except (OSError, ValueError):
            return None

    # -- health

    def _watch(self) -> list[LeftOut]:
        """Begin to watch for errors of all cards; those that are too old for it."""
        too_old: list[LeftOut] = []
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            raise SourceError(f"NVML does not watch cards: {error}") from error
        for index in range(self._count()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                events = _XID_EVENTS & pynvml.nvmlDeviceGetSupportedEventTypes(handle)
                pynvml.nvmlDeviceRegisterEvents(handle, events, self._events)
            except pynvml.NVMLError as error:
                too_old.append(LeftOut(index, f"its errors cannot be watched: {error}"))
        return too_old

    def next_error(self, milliseconds: int) -> tuple[str | None, int] | None:
        """The next error of a card, with its XID; None if there is none in that time.

        An error without a card concerns all of them.
        """
        try:
            event = pynvml.nvmlEventSetWait_v2(self._events, milliseconds)
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            raise SourceError(f"NVML does not wait for errors: {error}") from error
        if event.eventType != _XID:
            return None
        try:
            return pynvml.nvmlDeviceGetUUID(event.device), int(event.eventData)
        except pynvml.NVMLError:
            return None, int(event.eventData)


def _load(handle: Any) -> CardLoad:
    def rates() -> tuple[int | None, int | None]:
        found = pynvml.nvmlDeviceGetUtilizationRates(handle)
        return int(found.gpu), int(found.memory)

    used = _supported(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used), None)
    unknown: tuple[int | None, int | None] = (None, None)
    return CardLoad(used, *_supported(rates, unknown))


def _supported(ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask()
    except _UNSUPPORTED:
        return otherwise


def _quietly(end: Callable[[], object]) -> None:
    try:
        end()
    except pynvml.NVMLError:
        return

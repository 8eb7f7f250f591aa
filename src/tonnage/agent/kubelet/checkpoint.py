"""The kubelet's checkpoint of devices: the one place that names pods by UID and knows init containers.

The file is no public interface, so whatever cannot be read in it counts as not there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

FILE = "kubelet_internal_checkpoint"
_LARGEST = 32 * 2**20


class CheckpointEntry(NamedTuple):
    """A container that the kubelet has given devices of a resource."""

    uid: str
    container: str
    ids: frozenset[str]


class _Entry(msgspec.Struct, frozen=True):
    pod: str = msgspec.field(name="PodUID", default="")
    container: str = msgspec.field(name="ContainerName", default="")
    resource: str = msgspec.field(name="ResourceName", default="")
    devices: Mapping[str, list[str]] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct, frozen=True):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries", default=None)


class _Checkpoint(msgspec.Struct, frozen=True):
    data: _Data = msgspec.field(name="Data", default=_Data())


def read_checkpoint(folder: Path, resource: str) -> tuple[CheckpointEntry, ...]:
    """The containers that hold devices of a resource; none if there is no checkpoint yet."""
    try:
        path = folder / FILE
        return decode_checkpoint(path.read_bytes(), resource) if path.stat().st_size <= _LARGEST else ()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ()


def decode_checkpoint(text: bytes, resource: str) -> tuple[CheckpointEntry, ...]:
    """The same from the file's text."""
    entries = msgspec.json.decode(text, type=_Checkpoint).data.entries or []
    return tuple(
        CheckpointEntry(
            entry.pod, entry.container, frozenset(one for ids in (entry.devices or {}).values() for one in ids)
        )
        for entry in entries
        if entry.resource == resource
    )

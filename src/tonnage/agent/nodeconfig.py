"""HAMi's node configuration: settings of single nodes over those of the device configuration."""

from pathlib import Path
from typing import Annotated

import msgspec

from tonnage.agent.core.nodesettings import CORE_MODE, CardSettings
from tonnage.devices.nvidia import NodeKeys
from tonnage.model.wire import WireError, decode

_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Scale = Annotated[float, msgspec.Meta(gt=0, le=1000)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_CHANGED = {
    "devicesplitcount": "split",
    "devicememoryscaling": "memory_scaling",
    "devicecorescaling": "core_scaling",
    "preconfigureddevicememory": "preconfigured_memory",
    "enablenumatopology": "numa_topology",
    "libcudaloglevel": "log_level",
}
"""Keys of a node and what they change."""


class _Hidden(msgspec.Struct, frozen=True):
    uuid: list[str] | None = None
    index: list[int] | None = None


class _Node(msgspec.Struct, frozen=True):
    """The settings of one node; what is not given stays."""

    name: str = ""
    devicesplitcount: _Count | None = None
    devicememoryscaling: _Scale | None = None
    devicecorescaling: _Scale | None = None
    preconfigureddevicememory: _Amount | None = None
    enablenumatopology: bool | None = None
    libcudaloglevel: str | None = None
    operatingmode: str | None = None
    filterdevices: _Hidden | None = None


class _File(msgspec.Struct, frozen=True):
    nodeconfig: list[_Node] | None = None


class NodeConfigError(Exception):
    """The node configuration is wrong; the message says where and how."""


def card_settings(keys: NodeKeys, file: str, node: str) -> CardSettings:
    """The settings of a node's cards: the node configuration over the device configuration. NodeConfigError."""
    settings = CardSettings(**msgspec.structs.asdict(keys))
    for entry in _entries(file) if file else []:
        if entry.name == node:
            settings = _changed(settings, entry, file)
    return settings


def _entries(file: str) -> list[_Node]:
    try:
        return decode(Path(file).read_bytes(), _File).nodeconfig or []
    except OSError as error:
        raise NodeConfigError(f"{file}: {error.strerror or error}") from error
    except WireError as error:
        raise NodeConfigError(f"{file}: {error.path or 'the document'}: {error.message}") from error


def _changed(settings: CardSettings, entry: _Node, file: str) -> CardSettings:
    changes = {ours: getattr(entry, theirs) for theirs, ours in _CHANGED.items() if getattr(entry, theirs) is not None}
    if entry.operatingmode not in (None, "", CORE_MODE):
        # Cards are not cut here: a mode that is not served must not look as if it were.
        raise NodeConfigError(
            f"{file}: node {entry.name}: operatingmode {entry.operatingmode!r} is not served by this agent; "
            f"expected {CORE_MODE}"
        )
    if entry.filterdevices is not None:
        changes["hidden_uuids"] = frozenset(entry.filterdevices.uuid or ())
        changes["hidden_indexes"] = frozenset(entry.filterdevices.index or ())
    return msgspec.structs.replace(settings, **changes)

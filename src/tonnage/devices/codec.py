"""Codecs for the devices in node registrations, pod records and node capacity.

Decoding is strict: a text either gives devices or raises `DecodeError`, which says where the text is wrong and what was
expected there. Encoding a record and decoding it gives the same record.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MOST_DEVICES,
    WHOLE_CARD,
    ContainerUses,
    DecodeError,
    Device,
    DeviceUse,
    MigPlacement,
    MigProfile,
    PodUses,
)
from tonnage.model.node import Node
from tonnage.model.quantity import QuantityError, exact
from tonnage.model.wire import MalformedError, WireError, decode

T = TypeVar("T")

SHARING_MODE = "hami-core"
"""The mode of a card whose registration is too old to have one."""

_BOOLEANS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
_MOST_DIGITS = 20
MOST_ENTRIES = 8 * MOST_DEVICES
"""The most devices in the record of one pod, for all its containers."""
_SHOWN = 40
_IDENTIFIER = re.compile(r"[^\s,:;\[\]]+")
_DELIMITER = re.compile(r"[,:;]")
_MIG_SUFFIX = re.compile(r"\[[0-9]+-[0-9]+\]$")
_EXPECTED = re.compile(r"Expected (.*?)(?:, got .*)?$")
_ELEMENT = re.compile(r"\[([0-9]+)\]\.?(.*)", re.DOTALL)

_NODE_FIELDS = ("id", "count", "memory", "cores", "type", "NUMA node", "health", "index", "mode")
_FIELDS_WITHOUT_INDEX = 7
_POD_FIELDS = ("id", "type", "memory", "cores")


def boolean(text: str) -> bool | None:
    """A boolean as Go writes it; None if the text is none."""
    return _BOOLEANS.get(text)


def decode_json(text: str, kind: type[T], element: str, form: str = "") -> T:
    """Typed data from an annotation that holds a JSON list of elements, or JSON of another form."""
    try:
        return decode(text.encode("utf-8", "surrogatepass"), kind)
    except WireError as error:
        position = _json_position(error, element)
        wanted = _EXPECTED.match(error.message) if position else None
        expected = wanted[1].replace("`", "") if wanted else form or f"a JSON list of {element}s"
        raise DecodeError(error.message, position, expected) from error


def _json_position(error: WireError, element: str) -> str:
    inside = _ELEMENT.fullmatch(error.path)
    if inside is not None:
        number, path = int(inside[1]) + 1, inside[2]
        return f"{element} {number}, {path}" if path else f"{element} {number}"
    if error.path:
        return error.path
    return f"byte {error.offset}" if isinstance(error, MalformedError) and error.offset is not None else ""


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _number(text: str, position: str, least: int = 0) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        number = int(text)
        if least <= number <= LARGEST_AMOUNT:
            return number
    expected = f"a whole number from {least} to {LARGEST_AMOUNT}"
    raise DecodeError(f"{_shown(text)} is not such a number", position, expected)


def check_identifier(text: str, position: str) -> None:
    """Raise DecodeError for an id that a pod's record could not hold."""
    if not _IDENTIFIER.fullmatch(text):
        expected = "an id without blanks, commas, colons, semicolons and brackets"
        raise DecodeError(f"{_shown(text)} cannot name a device", position, expected)


def _check_length(number: int) -> None:
    if number > MOST_DEVICES:
        raise DecodeError(f"{number} devices on one node", "", f"at most {MOST_DEVICES} devices")


# Node registrations


def decode_node(text: str) -> list[Device]:
    """The devices of a registration, in JSON or in delimited text."""
    text = text.strip()
    return _decode_node_json(text) if text.startswith("[") else _decode_node_text(text)


def is_of_first_form(text: str) -> bool:
    """Whether a registration is text without indexes, as HAMi 2.4 wrote it."""
    first = text.strip().lstrip(":").partition(":")[0]
    return not first.startswith("[") and first.count(",") == _FIELDS_WITHOUT_INDEX - 1


def _decode_node_text(text: str) -> list[Device]:
    *segments, rest = text.split(":")
    if rest or not segments:
        message = f"{_shown(rest)} at the end has no ':'" if segments else "there is no ':'"
        raise DecodeError(message, "", "a ':' after every device")
    segments = [segment for segment in segments if segment]
    _check_length(len(segments))
    return [_decode_node_segment(segment, index) for index, segment in enumerate(segments)]


def _decode_node_segment(segment: str, index: int) -> Device:
    fields = segment.split(",")
    whole = f"device {index + 1}"
    if len(fields) not in (_FIELDS_WITHOUT_INDEX, len(_NODE_FIELDS)):
        expected = f"{_FIELDS_WITHOUT_INDEX} or {len(_NODE_FIELDS)} fields: {', '.join(_NODE_FIELDS)}"
        raise DecodeError(f"there are {len(fields)} fields in {_shown(segment)}", whole, expected)
    at = [f"{whole}, field {number} ({name})" for number, name in enumerate(_NODE_FIELDS, 1)]
    check_identifier(fields[0], at[0])
    healthy = boolean(fields[6])
    if healthy is None:
        raise DecodeError(f"{_shown(fields[6])} is neither", at[6], "true or false")
    has_index = len(fields) > _FIELDS_WITHOUT_INDEX
    return Device(
        uuid=fields[0],
        count=_number(fields[1], at[1]),
        memory=_number(fields[2], at[2]),
        cores=_number(fields[3], at[3]),
        type=fields[4],
        numa=_number(fields[5], at[5], least=-1),
        healthy=healthy,
        index=_number(fields[7], at[7]) if has_index else index,
        mode=fields[8] if has_index else SHARING_MODE,
    )


def encode_node(devices: Sequence[Device]) -> str:
    """A registration as delimited text, which cannot hold MIG profiles and custom facts."""
    return "".join(
        f"{d.uuid},{d.count},{d.memory},{d.cores},{d.type},{d.numa},{str(d.healthy).lower()},{d.index},{d.mode}:"
        for d in devices
    )


_Amount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]
_Numa = Annotated[int, msgspec.Meta(ge=-1, le=LARGEST_AMOUNT)]


class _Placement(msgspec.Struct, gc=False, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_AMOUNT)]
    start: _Amount = 0


class _Profile(msgspec.Struct, gc=False, frozen=True):
    name: str
    memory: _Amount = msgspec.field(default=0, name="memoryMB")
    cores: _Amount = msgspec.field(default=0, name="core")
    slices: _Amount = msgspec.field(default=0, name="sliceCount")
    placements: list[_Placement] | None = None

    def profile(self) -> MigProfile:
        placements = tuple(MigPlacement(place.start, place.size) for place in self.placements or ())
        return MigProfile(self.name, self.memory, self.cores, self.slices, placements)


class _Registered(msgspec.Struct, gc=False, frozen=True):
    """A device as plugins write it since HAMi 2.8: fields that are zero, false or empty are left out."""

    uuid: str = msgspec.field(name="id")
    index: _Amount = 0
    count: _Amount = 0
    memory: _Amount = msgspec.field(default=0, name="devmem")
    cores: _Amount = msgspec.field(default=0, name="devcore")
    type: str = ""
    numa: _Numa = 0
    mode: str = ""
    healthy: bool = msgspec.field(default=False, name="health")
    profiles: list[_Profile] | None = msgspec.field(default=None, name="migProfiles")
    custom: dict[str, Any] | None = msgspec.field(default=None, name="custominfo")

    def device(self) -> Device:
        # Only plain values are kept, so that a device can be hashed.
        facts = ((key, value) for key, value in (self.custom or {}).items() if isinstance(value, str | int | float))
        return Device(
            uuid=self.uuid,
            index=self.index,
            count=self.count,
            memory=self.memory,
            cores=self.cores,
            type=self.type,
            numa=self.numa,
            healthy=self.healthy,
            mode=self.mode,
            profiles=tuple(profile.profile() for profile in self.profiles or ()),
            custom=tuple(facts),
        )


def _decode_node_json(text: str) -> list[Device]:
    registered = decode_json(text, list[_Registered], "device")
    _check_length(len(registered))
    for number, entry in enumerate(registered, 1):
        check_identifier(entry.uuid, f"device {number}, id")
    return [entry.device() for entry in registered]


def encode_node_json(devices: Sequence[Device]) -> str:
    """A registration as plugins write it since HAMi 2.8: values that are zero, false or empty are left out."""
    return msgspec.json.encode([_written(device) for device in devices]).decode()


def _written(device: Device) -> dict[str, Any]:
    profiles = [
        {
            "name": profile.name,
            "memoryMB": profile.memory,
            "core": profile.cores,
            "sliceCount": profile.slices,
            "placements": [{"start": place.start, "size": place.size} for place in profile.placements],
        }
        for profile in device.profiles
    ]
    fields = {
        "id": device.uuid,
        "index": device.index,
        "count": device.count,
        "devmem": device.memory,
        "devcore": device.cores,
        "type": device.type,
        "numa": device.numa,
        "mode": device.mode,
        "health": device.healthy,
        "migProfiles": profiles,
        "custominfo": dict(device.custom),
    }
    return {name: value for name, value in fields.items() if value}


# Pod records


def decode_pod(text: str) -> PodUses:
    """The devices of each container of a pod; a placeholder or an empty slot is a container without devices."""
    if text.count(":") > MOST_ENTRIES:
        raise DecodeError(f"there are {text.count(':')} devices", "", f"at most {MOST_ENTRIES} devices of one pod")
    containers = text.strip().split(";")
    if not containers[-1]:
        containers.pop()
    return tuple(_decode_container(segment, f"container {number}") for number, segment in enumerate(containers, 1))


def _decode_container(text: str, container: str) -> ContainerUses:
    segments = [segment for segment in text.split(":") if segment]
    uses = (_decode_use(segment, f"{container}, device {number}") for number, segment in enumerate(segments, 1))
    return tuple(use for use in uses if use is not None)


def _decode_use(segment: str, whole: str) -> DeviceUse | None:
    """One device; None for the placeholder that old schedulers wrote for a container without devices."""
    fields = segment.split(",")
    if len(fields) < len(_POD_FIELDS):
        expected = f"{len(_POD_FIELDS)} fields: {', '.join(_POD_FIELDS)}"
        raise DecodeError(f"there are {len(fields)} fields in {_shown(segment)}", whole, expected)
    memory = _number(fields[2], f"{whole}, field 3 (memory)")
    cores = _number(fields[3], f"{whole}, field 4 (cores)")
    uuid = _MIG_SUFFIX.sub("", fields[0])
    if not uuid:
        if memory or cores:
            raise DecodeError("memory or cores of no device", f"{whole}, field 1 (id)", "the id of a device")
        return None
    return DeviceUse(uuid, memory, cores)


def encode_pod(uses: PodUses, type_: str, types: Mapping[str, str] = {}) -> str:
    """A pod's record: every device ends with a colon, every container with a semicolon.

    `types` replace the common type for single devices, unless a record cannot hold them.
    """
    written = {uuid: name for uuid, name in types.items() if name.strip() and not _DELIMITER.search(name)}
    return "".join(
        "".join(f"{use.uuid},{written.get(use.uuid, type_)},{use.memory},{use.cores}:" for use in container) + ";"
        for container in uses
    )


# Node capacity


def counted_cards(node: Node, resource: str) -> int:
    """Number of cards in the capacity of a node that registers none."""
    number = capacity(node, resource)
    _check_length(number)
    return number


def capacity_devices(
    node: Node,
    *,
    cores: str,
    memory: str,
    memory_unit: int,
    stem: str,
    first: int,
    type_: str,
    cores_of_card: int = WHOLE_CARD,
) -> list[Device]:
    """The cards of a node that registers none: their number follows from cores, their memory is shared evenly."""
    total = capacity(node, cores)
    number = total // cores_of_card
    _check_length(number)
    if not number:
        return []
    share = capacity(node, memory) * memory_unit * cores_of_card // total
    if share > LARGEST_AMOUNT:
        expected = f"at most {LARGEST_AMOUNT} MiB"
        raise DecodeError(f"{share} MiB on each of {number} cards", _capacity_field(memory), expected)
    return [
        Device(
            uuid=f"{node.name}-{stem}-{index}",
            index=index,
            count=WHOLE_CARD,
            memory=share,
            cores=cores_of_card,
            type=type_,
        )
        for index in range(first, first + number)
    ]


def _capacity_field(resource: str) -> str:
    return f"status.capacity[{resource}]"


def capacity(node: Node, resource: str) -> int:
    """A node's capacity of a resource that counts cards, cores or units of memory."""
    quantity = (node.status.capacity or {}).get(resource, 0)
    try:
        amount = exact(quantity)
    except QuantityError as error:
        raise DecodeError(str(error), _capacity_field(resource), "a whole number") from error
    if amount is None or amount < 0:
        raise DecodeError(f"{quantity} is not such a number", _capacity_field(resource), "a whole number, 0 or more")
    return amount

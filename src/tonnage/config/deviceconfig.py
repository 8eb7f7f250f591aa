"""HAMi's device configuration: the vendors that its sections name, each with its resources and defaults.

As in HAMi, a vendor without a section does not exist, and what a section leaves out is empty or zero. The sections are
those that vendors declare in the catalog.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from tonnage.config.document import Form, Part, read_document, top_level
from tonnage.config.notes import ConfigError, Note, Notes, Position, advice, in_order
from tonnage.config.source import place_of, text_of_file
from tonnage.config.strict import read
from tonnage.devices.base import Vendor
from tonnage.devices.catalog import sections
from tonnage.devices.entry import AnySection, ListSection
from tonnage.manifests.written import TextError

T = TypeVar("T", bound=msgspec.Struct)

KEYS = ("device-config.yaml", "ascend-config.yaml")
"""The keys under which ConfigMaps hold a device configuration."""
_EXAMPLES = 3
"""How many sections a message names."""


class DeviceConfig(NamedTuple):
    """The vendors of a configuration, and the warnings about it."""

    source: str
    vendors: tuple[Vendor, ...]
    warnings: list[Note]


def _form() -> Form:
    return Form("a device configuration", f"sections such as {', '.join([*sections()][:_EXAMPLES])}", KEYS)


def is_device_configuration(text: str, source: str) -> bool:
    """Whether a text looks like a device configuration, valid or not."""
    names = top_level(text, source)
    return bool(names & {*sections(), *KEYS}) and not names & {"actions", "tiers"}


def load_devices_file(path: str) -> DeviceConfig:
    """The device configuration in a file; ConfigError with every error."""
    return load_devices(text_of_file(path), path)


def load_devices(text: str, source: str) -> DeviceConfig:
    """The device configuration in a text."""
    notes, vendors = Notes(), list[Vendor]()
    try:
        root = read_document(text, source, notes, _form())
        if root is not None:
            vendors = _Reader(notes).read(root)
    except TextError as error:
        notes.error(place_of(error), error.message)
    warnings = in_order(notes.warnings)
    if notes.errors:
        raise ConfigError(source, in_order(notes.errors), warnings)
    return DeviceConfig(source, tuple(vendors), warnings)


class _Reader:
    """Reads one document."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._resources: dict[str, Position] = {}
        """The position at which each resource was named first."""
        self._chips: dict[str, Position] = {}
        """The position at which each chip was named first."""

    def read(self, root: Part) -> list[Vendor]:
        fields = root.fields()
        if not fields:
            got = "an empty map" if fields is not None else root.words
            self._notes.error(root.position, f"expected a map with {_form().content}, got {got}")
            return []
        known = sections()
        given: dict[str, Part] = {}
        for name, (key, value) in fields.items():
            if name not in known:
                self._notes.error(key.position, f"a device configuration has no section {name}{advice(name, known)}")
            elif not value.is_null and value.fields() != {} and value.items() != []:
                given[name] = value
        if not given and not self._notes.errors:
            self._notes.error(root.position, "all sections are empty, so that no pod could ask for any card")
        return [
            vendor for name, section in known.items() if name in given for vendor in self._vendors(section, given[name])
        ]

    def _vendors(self, section: AnySection, part: Part) -> Iterable[Vendor]:
        if isinstance(section, ListSection):
            return self._listed(section, part)
        keys = self._keys(part, section.keys, section.name, section.needed, section.any_of)
        if keys is None:
            return ()
        self._warn(part, section.warnings(keys))
        return section.vendors(keys)

    def _listed(self, section: ListSection[Any, Any], part: Part) -> Iterable[Vendor]:
        common, chips, fields = section.common(), part, part.fields()
        if fields is not None and "configs" in section.common.__struct_fields__:
            common = read(part, section.common, section.name, self._notes)
            if common is None or not common.configs:
                return ()
            chips = fields["configs"][1]
        self._warn(part, section.warnings(common))
        items = chips.items()
        if items is None:
            self._notes.error(chips.position, f"{section.name}: expected a list, got {chips.words}")
        found = [chip for item in items or () if (chip := self._chip(section, item)) is not None]
        return section.vendors(found, common)

    def _chip(self, section: ListSection[Any, Any], item: Part) -> msgspec.Struct | None:
        chip: Any = self._keys(item, section.chip, section.name, section.needed)
        if chip is None or not self._is_new(item, "commonWord", chip.common_word, self._chips):
            return None
        mistake = section.mistake(chip)
        if mistake is not None:
            self._notes.error(item.position, mistake)
        return chip if mistake is None else None

    def _warn(self, part: Part, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self._notes.warn(part.position, warning)

    def _keys(
        self, part: Part, kind: type[T], name: str, needed: tuple[str, ...], any_of: tuple[str, ...] = ()
    ) -> T | None:
        """The keys of a map that has all that are needed, or one of some, and names no resource a second time."""
        keys = read(part, kind, name, self._notes)
        if keys is None:
            return None
        written = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        missing = [written[field] for field in any_of or needed if not getattr(keys, field)]
        if any_of and len(missing) < len(any_of):
            missing = []
        if missing:
            them = (" or " if any_of else " and ").join(missing)
            self._notes.error(part.position, f"{name}: {them} must be given")
        new = [
            self._is_new(part, written[field], getattr(keys, field), self._resources)
            for field in kind.__struct_fields__
            if field.startswith("resource_") and getattr(keys, field)
        ]
        return keys if not missing and all(new) else None

    def _is_new(self, part: Part, key: str, name: str, seen: dict[str, Position]) -> bool:
        fields = part.fields() or {}
        position = fields[key][1].position if key in fields else part.position
        if name in seen:
            self._notes.error(position, f"{key}: {name} stands twice; the first is on line {seen[name].line}")
            return False
        seen[name] = position
        return True

"""HAMi's device configuration: which vendors there are, under which names, with which defaults.

As in HAMi, a vendor without a section is not there, and what a section leaves out is empty or zero.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from tonnage.config.devicesections import (
    AscendSection,
    CardSection,
    ChipSection,
    CountSection,
    EnflameSection,
    HygonSection,
    IluvatarSection,
    KunlunSection,
    MetaxSection,
    MthreadsSection,
    NeuronSection,
    NvidiaSection,
)
from tonnage.config.document import Form, Part, read_document, top_level
from tonnage.config.notes import Note, Notes, Position, SettingsError, advice, in_order
from tonnage.config.source import place_of, text_of_file
from tonnage.config.strict import read
from tonnage.devices.amd import Amd
from tonnage.devices.ascend import Ascend, Chip, Template
from tonnage.devices.base import Vendor
from tonnage.devices.biren import Biren
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.enflame import Enflame, EnflameSliced
from tonnage.devices.hygon import Hygon
from tonnage.devices.iluvatar import Iluvatar, IluvatarLegacy
from tonnage.devices.kunlun import Kunlun, KunlunShared
from tonnage.devices.metax import Metax, MetaxShared
from tonnage.devices.mthreads import Mthreads
from tonnage.devices.neuron import Neuron
from tonnage.devices.nvidia import Nvidia
from tonnage.devices.vastai import Vastai
from tonnage.manifests.written import TextError

T = TypeVar("T", bound=msgspec.Struct)

SECTIONS = (
    "nvidia", "cambricon", "hygon", "iluvatar", "iluvatars", "vnpus", "metax", "enflame", "mthreads", "kunlun",
    "awsneuron", "amd", "vastai", "biren",
)  # fmt: skip
"""In the order in which vendors are asked; `iluvatar` is the form of old."""
DEVICES = Form(
    "a device configuration",
    f"sections such as {', '.join(SECTIONS[:3])}",
    ("device-config.yaml", "ascend-config.yaml"),
)
_IN_MODULES = "Ascend910C"
"""The chip of which HAMi knows without being told that cards come two to a module."""


class DeviceSettings(NamedTuple):
    """The vendors of a configuration, and what was said on the way."""

    source: str
    vendors: tuple[Vendor, ...]
    warnings: list[Note]


def is_device_configuration(text: str, source: str) -> bool:
    """Whether a text looks like a device configuration, valid or not."""
    names = top_level(text, source)
    return bool(names & {*SECTIONS, *DEVICES.keys}) and not names & {"actions", "tiers"}


def load_devices_file(path: str) -> DeviceSettings:
    """The device configuration in a file; SettingsError with all that is wrong."""
    return load_devices(text_of_file(path), path)


def load_devices(text: str, source: str) -> DeviceSettings:
    """The device configuration in a text."""
    notes, vendors = Notes(), list[Vendor]()
    try:
        root = read_document(text, source, notes, DEVICES)
        if root is not None:
            vendors = _Reader(notes).read(root)
    except TextError as error:
        notes.error(place_of(error), error.message)
    warnings = in_order(notes.warnings)
    if notes.errors:
        raise SettingsError(source, in_order(notes.errors), warnings)
    return DeviceSettings(source, tuple(vendors), warnings)


class _Reader:
    """Reads one document."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._names: dict[str, Position] = {}
        """Where each resource was named first."""
        self._words: dict[str, Position] = {}
        """Where each chip was named first."""

    def read(self, root: Part) -> list[Vendor]:
        fields = root.fields()
        if not fields:
            got = "an empty map" if fields is not None else root.words
            self._notes.error(root.position, f"expected a map with {DEVICES.content}, got {got}")
            return []
        given: dict[str, Part] = {}
        for name, (key, value) in fields.items():
            if name not in SECTIONS:
                self._notes.error(key.position, f"a device configuration has no section {name}{advice(name, SECTIONS)}")
            elif not value.is_null and value.fields() != {} and value.items() != []:
                given[name] = value
        if not given and not self._notes.errors:
            self._notes.error(root.position, "all sections are empty, so that no pod could ask for any card")
        return [vendor for name in SECTIONS if name in given for vendor in self._vendors(name, given[name])]

    def _vendors(self, name: str, part: Part) -> Iterator[Vendor]:
        match name:
            case "nvidia":
                yield from self._nvidia(part)
            case "cambricon":
                if cards := self._section(part, CardSection, name):
                    yield Cambricon(**_names(cards))
            case "hygon":
                if hygon := self._section(part, HygonSection, name):
                    yield Hygon(**_names(hygon), memory_factor=hygon.memory_factor)
            case "iluvatar":
                if cards := self._section(part, CardSection, name):
                    yield IluvatarLegacy(**_names(cards))
            case "iluvatars":
                for item in self._items(part, name):
                    chip = self._section(item, IluvatarSection, name, "common_word", "resource_count_name")
                    if chip and self._is_new(item, "commonWord", chip.common_word, self._words):
                        yield Iluvatar(chip.common_word, **_names(chip))
            case "vnpus":
                yield from self._ascend(part)
            case "metax":
                yield from self._metax(part)
            case "enflame":
                yield from self._enflame(part)
            case "mthreads":
                if mthreads := self._section(part, MthreadsSection, name):
                    yield Mthreads(**_names(mthreads), memory_of_cards=mthreads.memory_per_card)
            case "kunlun":
                yield from self._kunlun(part)
            case "awsneuron":
                if neuron := self._section(part, NeuronSection, name):
                    yield Neuron(count_resource=neuron.resource_count_name, cores_resource=neuron.resource_core_name)
            case "amd":
                if cards := self._section(part, CardSection, name):
                    yield Amd(**_names(cards))
            case "vastai":
                if counted := self._section(part, CountSection, name):
                    yield Vastai(count_resource=counted.resource_count_name)
            case _:
                if counted := self._section(part, CountSection, name):
                    yield Biren(count_resource=counted.resource_count_name)

    def _metax(self, part: Part) -> Iterator[Vendor]:
        section = self._section(part, MetaxSection, "metax", any_of=("resource_count_name", "resource_v_count_name"))
        if section is None:
            return
        if section.sgpu_topology_aware:
            self._notes.warn(part.position, "sgpuTopologyAware: Tonnage does not score nodes by the links of sGPUs yet")
        if section.resource_count_name:
            yield Metax(count_resource=section.resource_count_name)
        if section.resource_v_count_name:
            yield MetaxShared(
                count_resource=section.resource_v_count_name,
                memory_resource=section.resource_v_memory_name,
                cores_resource=section.resource_v_core_name,
            )

    def _kunlun(self, part: Part) -> Iterator[Vendor]:
        section = self._section(part, KunlunSection, "kunlun", any_of=("resource_count_name", "resource_v_count_name"))
        if section is None:
            return
        if section.resource_count_name:
            yield Kunlun(count_resource=section.resource_count_name)
        if section.resource_v_count_name:
            yield KunlunShared(
                count_resource=section.resource_v_count_name, memory_resource=section.resource_v_memory_name
            )

    def _enflame(self, part: Part) -> Iterator[Vendor]:
        counts = ("resource_gcu", "resource_sliced", "resource_shared")
        section = self._section(part, EnflameSection, "enflame", any_of=counts)
        if section is None:
            return
        if section.resource_percentage:
            self._notes.warn(
                part.position,
                "resourceNameVGCUPercentage: Tonnage does not know the shared GCUs of before HAMi 2.10; "
                "resourceNameVGCU is read as resourceNameDRSGCU, as HAMi does since",
            )
        if section.resource_gcu:
            yield Enflame(count_resource=section.resource_gcu)
        # As in HAMi, these have names even where the section is silent.
        names = {
            "count_resource": section.resource_sliced or section.resource_shared,
            "memory_resource": section.resource_memory,
            "cores_resource": section.resource_core,
        }
        yield EnflameSliced(**{key: name for key, name in names.items() if name})

    def _nvidia(self, part: Part) -> Iterator[Vendor]:
        section = self._section(part, NvidiaSection, "nvidia")
        if section is None:
            return
        if not section.default_count:
            self._notes.warn(
                part.position,
                "nvidia: without defaultGPUNum, containers that give memory or compute but no count get no card",
            )
        yield Nvidia(
            **_names(section),
            percentage_resource=section.resource_memory_percentage_name,
            priority_resource=section.resource_priority_name,
            default_memory=section.default_memory,
            default_cores=section.default_cores,
            default_count=section.default_count,
            memory_factor=section.memory_factor,
            overwrite_env=section.overwrite_env,
            core_policy=section.gpu_core_policy,
            runtime_class=section.runtime_class_name,
        )

    def _ascend(self, part: Part) -> Iterator[Vendor]:
        common, chips = AscendSection(), part
        fields = part.fields()
        if fields is not None:
            whole = read(part, AscendSection, "vnpus", self._notes)
            if whole is None or not whole.configs:
                return
            common, chips = whole, fields["configs"][1]
        if common.hami_vnpu_core:
            self._notes.warn(
                part.position,
                "hamiVnpuCore: Tonnage does not share NPUs without templates yet; pods get the next larger template",
            )
        found = [chip for item in self._items(chips, "vnpus") if (chip := self._chip(item)) is not None]
        names = [chip.resource_name for chip in found]
        for chip in found:
            yield Ascend(
                _as_chip(chip),
                count_resource=chip.resource_name,
                memory_resource=chip.resource_memory_name,
                cores_resource=chip.resource_core_name,
                memory_factor=chip.memory_factor,
                runtime_class=chip.runtime_class_name or common.runtime_class_name,
                hidden_without=names if chip.overwrite_env or common.overwrite_env else (),
            )

    def _chip(self, item: Part) -> ChipSection | None:
        chip = self._section(
            item, ChipSection, "vnpus", "common_word", "resource_name", "memory_capacity", "memory_allocatable"
        )
        if chip is None or not self._is_new(item, "commonWord", chip.common_word, self._words):
            return None
        for template in chip.templates:
            if not template.name or not 0 < template.memory <= chip.memory_capacity:
                self._notes.error(
                    item.position,
                    f"vnpus: {chip.common_word}: each template needs a name and a memory from 1 to the chip's "
                    f"memoryCapacity of {chip.memory_capacity}",
                )
                return None
        return chip

    def _items(self, part: Part, name: str) -> list[Part]:
        items = part.items()
        if items is None:
            self._notes.error(part.position, f"{name}: expected a list, got {part.words}")
        return items or []

    def _section(self, part: Part, kind: type[T], name: str, *needed: str, any_of: tuple[str, ...] = ()) -> T | None:
        """A section that has what it cannot do without, or one of some things, under names of its own."""
        section = read(part, kind, name, self._notes)
        if section is None:
            return None
        written = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        needed = needed or any_of or ("resource_count_name",)
        missing = [written[field] for field in needed if not getattr(section, field)]
        if any_of and len(missing) < len(any_of):
            missing = []
        if missing:
            them = (" or " if any_of else " and ").join(missing)
            self._notes.error(part.position, f"{name}: {them} must be given")
        fresh = [
            self._is_new(part, written[field], getattr(section, field), self._names)
            for field in kind.__struct_fields__
            if field.startswith("resource_") and getattr(section, field)
        ]
        return section if not missing and all(fresh) else None

    def _is_new(self, part: Part, key: str, name: str, seen: dict[str, Position]) -> bool:
        fields = part.fields() or {}
        position = fields[key][1].position if key in fields else part.position
        if name in seen:
            self._notes.error(position, f"{key}: {name} stands twice; the first is on line {seen[name].line}")
            return False
        seen[name] = position
        return True


def _names(section: CardSection) -> dict[str, str]:
    return {
        "count_resource": section.resource_count_name,
        "memory_resource": section.resource_memory_name,
        "cores_resource": section.resource_core_name,
    }


def _as_chip(chip: ChipSection) -> Chip:
    templates = sorted(chip.templates, key=lambda template: template.memory)
    return Chip(
        chip.common_word,
        tuple(Template(template.name, template.memory) for template in templates),
        capacity=chip.memory_capacity,
        allocatable=chip.memory_allocatable,
        in_modules=chip.super_pod or chip.common_word == _IN_MODULES,
    )

"""Huawei Ascend NPUs: cards cut by templates, one vendor per chip.

A part of a card is always one of its chip's templates, so requested memory is rounded up to a template. Cards of some
chips are better, or only, allocated in sets that belong together.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tonnage.devices._plain import PlainVendor
from tonnage.devices._sets import fewest_groups
from tonnage.devices.base import (
    Admission,
    AdmissionChange,
    AdmissionError,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    RequestError,
    limit,
)
from tonnage.devices.entry import Amount, ListSection, Name, SectionKeys, VendorEntry, Word
from tonnage.model.pod import Container
from tonnage.model.wire import encode

IN_MODULES = "Ascend910C"
"""The chip whose cards come two to a module even if the device configuration does not say so, as in HAMi."""
NETWORK = "NetworkID"
"""The custom fact that names a card's network group."""
MODE, SOFT_SPLIT = "huawei.com/vnpu-mode", "hami-core"
"""The pod annotation, and its value, by which a card is shared without templates."""
VISIBLE = "ASCEND_VISIBLE_DEVICES"
"""The environment variable that tells the runtime which NPUs a container sees."""


class Template(msgspec.Struct, gc=False, frozen=True):
    """A part of a card that the driver can cut."""

    name: str
    memory: int


class Chip(msgspec.Struct, gc=False, frozen=True):
    """One kind of card."""

    name: str
    templates: tuple[Template, ...]
    """From the smallest to the largest."""
    capacity: int
    """MiB."""
    allocatable: int
    """MiB that a container gets of a whole card."""
    in_modules: bool = False
    """Whether cards come two to a module and are allocated by the module only."""

    @property
    def in_networks(self) -> bool:
        """Whether cards may belong to network groups, of which a pod should get as few as possible."""
        return self.name.startswith("Ascend910")


_QUARTER = Template("vir05_1c_16g", 16384)
_HALF = Template("vir10_3c_32g", 32768)

CHIPS = (
    Chip(
        "Ascend910A",
        (Template("vir02", 2184), Template("vir04", 4369), Template("vir08", 8738), Template("vir16", 17476)),
        capacity=32768,
        allocatable=32768,
    ),
    Chip("Ascend910B", (_QUARTER, _HALF), capacity=65536, allocatable=65536),
    Chip(
        "Ascend910B2",
        (Template("vir03_1c_8g", 8192), Template("vir06_1c_16g", 16384), Template("vir12_3c_32g", 32768)),
        capacity=65536,
        allocatable=65536,
    ),
    Chip("Ascend910B3", (_QUARTER, _HALF), capacity=65536, allocatable=65536),
    Chip(
        "Ascend910B4",
        (Template("vir05_1c_8g", 8192), Template("vir10_3c_16g", 16384)),
        capacity=32768,
        allocatable=32768,
    ),
    Chip("Ascend910B4-1", (_QUARTER, _HALF), capacity=65536, allocatable=65536),
    Chip("Ascend910C", (_QUARTER, _HALF), capacity=65536, allocatable=65536, in_modules=True),
    Chip(
        "Ascend310P",
        (Template("vir01", 3072), Template("vir02", 6144), Template("vir04", 12288)),
        capacity=24576,
        allocatable=21527,
    ),
)


class _Runtime(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One card of a pod in the annotation for the device plugin."""

    uuid: str = msgspec.field(name="UUID")
    temp: str = ""
    memory: int = 0
    core: int = 0


class Ascend(PlainVendor):
    """Ascend NPUs of one chip."""

    enabled_by = "enable_ascend"
    has_set_rules = True

    def __init__(
        self,
        chip: Chip,
        *,
        count_resource: str | None = None,
        memory_resource: str | None = None,
        cores_resource: str | None = None,
        memory_factor: int = 1,
        runtime_class: str = "",
        hidden_without: Sequence[str] = (),
    ) -> None:
        """Names that are left out follow from the chip's name.

        `hidden_without` lists the counting resources of all chips if NPUs are to be hidden from containers that request
        none of them.
        """
        super().__init__(
            name=chip.name,
            count_resource=f"huawei.com/{chip.name}" if count_resource is None else count_resource,
            memory_resource=f"huawei.com/{chip.name}-memory" if memory_resource is None else memory_resource,
            cores_resource=f"huawei.com/{chip.name}-core" if cores_resource is None else cores_resource,
            memory_unit=max(1, memory_factor),
            record=f"hami.io/{chip.name}-devices",
            register=f"hami.io/node-register-{chip.name}",
            handshake=f"hami.io/node-handshake-{chip.name}",
            use_uuids=f"hami.io/use-{chip.name}-uuid",
            refuse_uuids=f"hami.io/no-use-{chip.name}-uuid",
        )
        self.chip = chip
        self.plugin_annotations = ("predicate-time", f"huawei.com/{self.name}")
        self.policy_annotations = (*self.policy_annotations, MODE)
        self.runtime_class = runtime_class
        self.hidden_without = hidden_without

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        request = super().request(container, annotations)
        if request is not None and annotations.get(MODE, "").strip() == SOFT_SPLIT:
            raise RequestError(
                f"container {container.name!r}: {self.count_resource}: annotation {MODE}: {SOFT_SPLIT} (soft split) is "
                f"not supported; without it the container gets a template of the card, or all of it"
            )
        return request

    def memory(self, container: Container) -> int | None:
        asked = super().memory(container)
        if asked is None:
            return None
        if asked > self.chip.capacity:
            raise RequestError(
                f"container {container.name!r}: {self.memory_resource}: {asked} MiB is more than "
                f"a card's {self.chip.capacity} MiB"
            )
        template = self._template(asked)
        return self.chip.allocatable if template is None else template.memory

    def _template(self, memory: int) -> Template | None:
        """The smallest template with that much memory; None if it takes a whole card."""
        return next((template for template in self.chip.templates if template.memory >= memory), None)

    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        admission = super().admit(container, annotations)
        if self.hidden_without and all(limit(container, name) is None for name in self.hidden_without):
            return Admission(admission.matched, (*admission.changes, AdmissionChange("env", VISIBLE, "")))
        return admission

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        changes = []
        count = request.count
        if self.chip.in_modules and count == 1:
            count = 2
            changes.append(AdmissionChange("limits", self.count_resource, "2"))
            if self.count_resource in (container.resources.requests or {}):
                changes.append(AdmissionChange("requests", self.count_resource, "2"))
        elif self.chip.in_modules and count % 2:
            raise AdmissionError(
                f"container {container.name!r}: {self.count_resource}: {count} is odd, but cards come in pairs"
            )
        memory = request.memory or self.chip.allocatable
        if count > 1 and memory != self.chip.allocatable:
            raise AdmissionError(
                f"container {container.name!r}: {self.memory_resource}: {limit(container, self.memory_resource)} is "
                f"part of a card, but {count} cards are given as whole ones only; leave {self.memory_resource} out"
            )
        if self.memory_resource:
            # Rounded down, as the rest of a unit could make it the next larger part.
            amount = str(memory // self.memory_unit)
            changes += [AdmissionChange(field, self.memory_resource, amount) for field in ("limits", "requests")]
        if self.runtime_class:
            changes.append(AdmissionChange("runtimeClassName", "runtimeClassName", self.runtime_class))
        return tuple(changes)

    def most_cards(self, request: DeviceRequest) -> int:
        return request.count + request.count % 2 if self.chip.in_modules else request.count

    def is_particular(self, request: DeviceRequest) -> bool:
        return self.chip.in_modules and request.count > 1

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        if request.count == 1:
            return None
        if self.chip.in_modules:
            return _whole_modules(request.count, candidates)
        return fewest_groups(request.count, candidates, NETWORK) if self.chip.in_networks else None

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        cards = [self._runtime(use.uuid, use.memory, use.cores) for container in uses for use in container]
        return {"predicate-time": str(handover.now), f"huawei.com/{self.name}": encode(cards).decode()}

    def _runtime(self, uuid: str, memory: int, cores: int) -> _Runtime:
        template = self._template(memory)
        return _Runtime(uuid, template.name if template else "", memory, cores)


def _whole_modules(count: int, candidates: Sequence[Device]) -> list[int]:
    """The first modules with both cards free; an empty list if there are too few or the count is odd."""
    modules: dict[int, list[int]] = {}
    for position, device in enumerate(candidates):
        modules.setdefault(device.index // 2, []).append(position)
    chosen = [position for module in modules.values() if len(module) == 2 for position in module][:count]
    return chosen if len(chosen) == count and count % 2 == 0 else []


class _TemplateKeys(SectionKeys, frozen=True, rename="camel"):
    name: str = ""
    memory: Amount = 0
    ai_core: Amount = 0
    ai_cpu: Amount = msgspec.field(default=0, name="aiCPU")


class _ChipKeys(SectionKeys, frozen=True, rename="camel"):
    common_word: str = ""
    chip_name: Word = ""
    resource_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""
    memory_allocatable: Amount = 0
    memory_capacity: Amount = 0
    memory_factor: Amount = 1
    overwrite_env: bool = False
    runtime_class_name: str = ""
    super_pod: bool = False
    templates: list[_TemplateKeys] = msgspec.field(default_factory=list)
    # Only the device plugin reads these.
    ai_core: Amount = 0
    ai_cpu: Amount = msgspec.field(default=0, name="aiCPU")


class _Keys(SectionKeys, frozen=True, rename="camel"):
    """`vnpus` since HAMi 2.9; before, it was the list of chips alone."""

    hami_vnpu_core: bool = False
    overwrite_env: bool = False
    runtime_class_name: str = ""
    configs: list[_ChipKeys] = msgspec.field(default_factory=list)


def _warnings(common: _Keys) -> Iterator[str]:
    if common.hami_vnpu_core:
        yield (
            f"hamiVnpuCore: Tonnage does not share NPUs without templates; pods that insist on it by {MODE} are "
            "refused, others get the next larger template"
        )


def _mistake(chip: _ChipKeys) -> str | None:
    if all(template.name and 0 < template.memory <= chip.memory_capacity for template in chip.templates):
        return None
    return (
        f"vnpus: {chip.common_word}: each template needs a name and a memory from 1 to the chip's "
        f"memoryCapacity of {chip.memory_capacity}"
    )


def _configured(chips: Sequence[_ChipKeys], common: _Keys) -> Iterator[Ascend]:
    names = [chip.resource_name for chip in chips]
    for chip in chips:
        yield Ascend(
            _chip(chip),
            count_resource=chip.resource_name,
            memory_resource=chip.resource_memory_name,
            cores_resource=chip.resource_core_name,
            memory_factor=chip.memory_factor,
            runtime_class=chip.runtime_class_name or common.runtime_class_name,
            hidden_without=names if chip.overwrite_env or common.overwrite_env else (),
        )


def _chip(chip: _ChipKeys) -> Chip:
    templates = sorted(chip.templates, key=lambda template: template.memory)
    return Chip(
        chip.common_word,
        tuple(Template(template.name, template.memory) for template in templates),
        capacity=chip.memory_capacity,
        allocatable=chip.memory_allocatable,
        in_modules=chip.super_pod or chip.common_word == IN_MODULES,
    )


ENTRY = VendorEntry(
    sections=(
        ListSection(
            "vnpus",
            _ChipKeys,
            _configured,
            needed=("common_word", "resource_name", "memory_capacity", "memory_allocatable"),
            common=_Keys,
            warnings=_warnings,
            mistake=_mistake,
        ),
    ),
    usual=lambda flags: [Ascend(chip) for chip in CHIPS],
)

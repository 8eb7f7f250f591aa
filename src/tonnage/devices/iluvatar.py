"""Iluvatar GPUs of both generations: one vendor that reads the node's capacity, and one vendor per chip."""

from collections.abc import Iterator, Sequence

from tonnage.devices._plain import CapacityVendor, PlainVendor
from tonnage.devices.base import WHOLE_CARD, AdmissionChange, DeviceRequest, Handover, PodUses, Vendor
from tonnage.devices.entry import CardKeys, Flags, ListSection, Section, SectionKeys, VendorEntry, Word, from_flags
from tonnage.model.pod import AdmittedContainer, Container

MEMORY_UNIT = 256
"""MiB in one unit of memory."""
CHIPS = ("MR-V100", "MR-V50", "BI-V100", "BI-V150")
CONTAINER_NAME = "SOL_CONTINER_NAME"
"""The environment variable by which the driver tells containers apart, misspelt as in the driver."""


def _whole_cards(container: Container, cores_resource: str, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
    """Several cards are always whole cards; a request next to the limit must stay equal to it."""
    if request.count == 1 or not cores_resource:
        return ()
    fields = ("limits", "requests") if cores_resource in (container.resources.requests or {}) else ("limits",)
    return tuple(AdmissionChange(field, cores_resource, str(request.count * WHOLE_CARD)) for field in fields)


class IluvatarLegacy(CapacityVendor):
    """Iluvatar GPUs of any chip, as HAMi before 2.7.1 treats them."""

    stem = "iluvatar"
    first = 1
    plugin_annotations = ("iluvatar.ai/predicate-gpu-idx-*",)

    def __init__(
        self,
        *,
        count_resource: str = "iluvatar.ai/vgpu",
        memory_resource: str = "iluvatar.ai/vcuda-memory",
        cores_resource: str = "iluvatar.ai/vcuda-core",
    ) -> None:
        super().__init__(
            name="Iluvatar",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/iluvatar-vgpu-devices",
            use_uuids="iluvatar.ai/use-gpuuuid",
            refuse_uuids="iluvatar.ai/nouse-gpuuuid",
            memory_unit=MEMORY_UNIT,
        )

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        return _whole_cards(container, self.cores_resource, request)

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        return {
            f"iluvatar.ai/predicate-gpu-idx-{position}": ",".join(
                str(handover.devices[use.uuid].index) for use in container
            )
            for position, container in enumerate(uses)
            if container
        }


class Iluvatar(PlainVendor):
    """Iluvatar GPUs of one chip, as registered since HAMi 2.7.1."""

    enabled_by = "enable_iluvatar"

    def __init__(
        self,
        chip: str,
        *,
        count_resource: str | None = None,
        memory_resource: str | None = None,
        cores_resource: str | None = None,
    ) -> None:
        super().__init__(
            name=chip,
            count_resource=f"iluvatar.ai/{chip}-vgpu" if count_resource is None else count_resource,
            memory_resource=f"iluvatar.ai/{chip}.vMem" if memory_resource is None else memory_resource,
            cores_resource=f"iluvatar.ai/{chip}.vCore" if cores_resource is None else cores_resource,
            record=f"hami.io/{chip}-devices",
            register=f"hami.io/node-{chip}-register",
            handshake=f"hami.io/node-handshake-{chip}",
            use_uuids=f"hami.io/use-{chip}-uuid",
            refuse_uuids=f"hami.io/no-use-{chip}-uuid",
            memory_unit=MEMORY_UNIT,
        )

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        changes = _whole_cards(container, self.cores_resource, request)
        variables = (container.env if isinstance(container, AdmittedContainer) else None) or ()
        named = any(variable.name == CONTAINER_NAME for variable in variables)
        if named or not container.name:
            return changes
        return (*changes, AdmissionChange("env", CONTAINER_NAME, container.name))


class _ChipKeys(CardKeys, frozen=True, rename="camel"):
    common_word: str = ""
    chip_name: Word = ""


def _configured(chips: Sequence[_ChipKeys], common: SectionKeys) -> list[Iluvatar]:
    return [Iluvatar(chip.common_word, **chip.resources) for chip in chips]


def _usual(flags: Flags) -> Iterator[Vendor]:
    names = from_flags(
        flags, count_resource="iluvatar_name", memory_resource="iluvatar_memory", cores_resource="iluvatar_cores"
    )
    yield IluvatarLegacy(**names)
    for chip in CHIPS:
        yield Iluvatar(chip)


ENTRY = VendorEntry(
    sections=(
        Section("iluvatar", CardKeys, lambda section: [IluvatarLegacy(**section.resources)]),
        ListSection(
            "iluvatars", _ChipKeys, _configured, needed=("common_word", "resource_count_name"), common=SectionKeys
        ),
    ),
    usual=_usual,
)

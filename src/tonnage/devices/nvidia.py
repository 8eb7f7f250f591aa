"""NVIDIA GPUs: shared, exclusive or cut into MIG instances."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from tonnage.devices import _kai, _mig
from tonnage.devices._plain import PlainVendor, named, plain_cards, refusing_nonsense
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MIG_MODE,
    PERCENTAGE_UNSET,
    WHOLE_CARD,
    Admission,
    AdmissionChange,
    AdmissionError,
    CardGroup,
    Device,
    DeviceRequest,
    DeviceUse,
    Handover,
    InstanceIds,
    MigPlacement,
    MigProfile,
    PodUses,
    limit,
    type_allowed,
    whole_number,
    words,
)
from tonnage.devices.codec import boolean, decode_json
from tonnage.devices.entry import (
    Amount,
    CardKeys,
    Flags,
    Name,
    Scale,
    Section,
    SectionKeys,
    VendorEntry,
    Word,
    from_flags,
)
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod

REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
CORDON = "hami.io/device-cordon"
SCORES = "hami.io/node-nvidia-score"
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
UNKNOWN_MEMORY = 100
"""MiB that a plain card counts with if no label states its memory, as in KAI, so that its fractions can be counted."""

USE_TYPE = "nvidia.com/use-gputype"
REFUSE_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
REFUSE_UUID = "nvidia.com/nouse-gpuuuid"
ONE_NUMA = "nvidia.com/numa-bind"
MODE = "nvidia.com/vgpu-mode"


_Score = Annotated[int, msgspec.Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]


class _Scores(msgspec.Struct, gc=False, frozen=True):
    uuid: str
    score: dict[str, _Score] | None = None


class NodeKeys(msgspec.Struct, gc=False, frozen=True):
    """The keys of the device configuration that only the node's side reads."""

    split: int = 10
    """Containers that may share a card."""
    memory_scaling: float = 1.0
    core_scaling: float = 1.0
    preconfigured_memory: int = 0
    """MiB of cards whose memory the driver does not know."""
    numa_topology: bool = False
    log_level: str = "1"
    disable_core_limit: bool = False


NODE_DEFAULTS = NodeKeys()


class Nvidia(PlainVendor):
    """NVIDIA GPUs as HAMi's device plugin registers and hands them out."""

    is_served_by_agent = True

    def __init__(
        self,
        *,
        count_resource: str = "nvidia.com/gpu",
        memory_resource: str = "nvidia.com/gpumem",
        percentage_resource: str = "nvidia.com/gpumem-percentage",
        cores_resource: str = "nvidia.com/gpucores",
        priority_resource: str = "nvidia.com/priority",
        default_memory: int = 0,
        default_cores: int = 0,
        default_count: int = 1,
        memory_factor: int = 1,
        overwrite_env: bool = False,
        core_policy: str = "default",
        runtime_class: str = "",
        node_keys: NodeKeys = NODE_DEFAULTS,
    ) -> None:
        super().__init__(
            name="NVIDIA",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/vgpu-devices",
            handshake=HANDSHAKE,
            use_uuids=USE_UUID,
            refuse_uuids=REFUSE_UUID,
            memory_unit=max(1, memory_factor),
            default_cores=default_cores,
        )
        self.percentage_resource = percentage_resource
        self.priority_resource = priority_resource
        self.side_resources = named(memory_resource, percentage_resource, cores_resource, priority_resource)
        self.register_annotations = (REGISTER, CORDON, SCORES)
        self.sharing_annotations = _kai.ANNOTATIONS
        self.plugin_annotations = (MIG_ALLOCATIONS,)
        self.policy_annotations = (USE_TYPE, REFUSE_TYPE, USE_UUID, REFUSE_UUID, ONE_NUMA, MODE)
        self.default_memory = default_memory
        self.default_count = default_count
        self.overwrite_env = overwrite_env
        self.core_policy = core_policy
        self.runtime_class = runtime_class
        self.node_keys = node_keys

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        count = self._count(container)
        if not count:
            return None
        memory = self.memory(container) or 0
        percentage = self._percentage(container)
        if percentage is None or percentage <= 0:
            percentage = PERCENTAGE_UNSET
            if not memory and self.default_memory:
                memory = self.default_memory
            elif not memory:
                percentage = WHOLE_CARD
        else:
            percentage = min(percentage, WHOLE_CARD)
        cores = whole_number(container, self.cores_resource)
        return DeviceRequest(self.name, count, memory, percentage, self.default_cores if cores is None else cores)

    def _count(self, container: Container) -> int:
        """Number of cards; a container that requests only memory or compute gets the default number."""
        count = whole_number(container, self.count_resource)
        if count is not None:
            return count
        qualifiers = (self.memory_resource, self.percentage_resource, self.cores_resource)
        return self.default_count if any(limit(container, name) is not None for name in qualifiers) else 0

    def _percentage(self, container: Container) -> int | None:
        return whole_number(container, self.percentage_resource, "percent", bounds=None)

    def states_memory(self, container: Container) -> bool:
        return bool(self.memory(container)) or (self._percentage(container) or 0) > 0

    @property
    def record_annotations(self) -> tuple[str, ...]:
        return (self.allocated, MIG_ALLOCATIONS)

    def shared_request(self, pod: Pod) -> tuple[int, DeviceRequest] | None:
        return _kai.shared_request(pod, self.name)

    def groups(self, pod: Pod) -> tuple[CardGroup, ...]:
        return _kai.groups(pod)

    def plain_devices(self, node: Node, count: int) -> list[Device]:
        if any(key in node.annotations for key in (*self.register_annotations, HANDSHAKE)):
            return []
        told = node.labels.get(MEMORY_LABEL, "")
        memory = int(told) if told.isascii() and told.isdigit() and len(told) < 11 else 0
        known = 0 < memory <= LARGEST_AMOUNT
        return plain_cards(
            node,
            count,
            self.count_resource,
            memory if known else UNKNOWN_MEMORY,
            node.labels.get(PRODUCT_LABEL, self.name),
            memory_known=known,
        )

    def cordoned(self, node: Node) -> frozenset[str]:
        return frozenset(words(node.annotations.get(CORDON, "")))

    def pair_scores(self, node: Node) -> dict[str, dict[str, int]]:
        text = node.annotations.get(SCORES)
        if text is None:
            return {}
        return {entry.uuid: entry.score or {} for entry in decode_json(text, list[_Scores], "device")}

    def mode_mismatch(self, request: DeviceRequest, mode: str, profiles: Sequence[MigProfile]) -> str:
        if mode != MIG_MODE or profiles:
            return ""
        return (
            "its MIG cards register no migProfiles, as before HAMi 2.10, and geometries (migtemplate) are not given "
            "out; update HAMi's device plugin, or take the cards out of MIG mode"
        )

    def accepts_type(self, type_: str, mode: str, annotations: Mapping[str, str]) -> bool:
        modes = annotations.get(MODE, "")
        return type_allowed(type_, annotations, USE_TYPE, REFUSE_TYPE) and (not modes.strip() or mode in modes)

    def wants_one_numa(self, annotations: Mapping[str, str]) -> bool:
        return boolean(annotations.get(ONE_NUMA, "")) is True

    def instance(
        self, device: Device, request: DeviceRequest, taken: Sequence[MigPlacement], memory: int, cores: int
    ) -> DeviceUse | None:
        chosen = _mig.choose(device.profiles, request.memory_on(device.memory), taken)
        if chosen is None:
            return None
        profile, placement = chosen
        return DeviceUse(device.uuid, min(profile.memory, memory), min(profile.cores, cores), profile.name, placement)

    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        with refusing_nonsense():
            priority = whole_number(container, self.priority_resource)
            percentage = self._percentage(container)
            request = self.request(container, annotations)
        if percentage is not None and not 0 <= percentage <= WHOLE_CARD:
            raise AdmissionError(
                f"container {container.name!r}: {self.percentage_resource}: {percentage} is not from 0 to {WHOLE_CARD}"
            )
        changes = []
        if priority is not None:
            changes.append(AdmissionChange("env", "CUDA_TASK_PRIORITY", str(priority)))
        if self.core_policy not in ("", "default"):
            changes.append(AdmissionChange("env", "GPU_CORE_UTILIZATION_POLICY", self.core_policy))
        if request is not None:
            changes += self.changes(container, request)
        elif self.overwrite_env:
            changes.append(AdmissionChange("env", "NVIDIA_VISIBLE_DEVICES", "none"))
        return Admission(request is not None, tuple(changes))

    def changes(self, container: Container, request: DeviceRequest) -> tuple[AdmissionChange, ...]:
        changes = []
        if self.count_resource not in (container.resources.limits or {}):
            # Kubernetes demands the limit, also where the count stands among the requests.
            changes.append(AdmissionChange("limits", self.count_resource, str(request.count)))
        if self._is_exclusive(container):
            changes.append(AdmissionChange("limits", self.cores_resource, str(WHOLE_CARD)))
        if self.runtime_class:
            changes.append(AdmissionChange("runtimeClassName", "runtimeClassName", self.runtime_class))
        return tuple(changes)

    def _is_exclusive(self, container: Container) -> bool:
        """Whether the container takes whole cards although it requests no cores."""
        if not self.cores_resource or limit(container, self.cores_resource) is not None:
            return False
        percentage = self._percentage(container)
        if percentage is not None:
            return percentage == WHOLE_CARD
        return limit(container, self.memory_resource) is None

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        instances = _mig.encode_allocations(uses)
        return {MIG_ALLOCATIONS: instances} if instances else {}

    def identified(
        self, annotations: Mapping[str, str], find: Callable[[str, MigPlacement], InstanceIds | None]
    ) -> dict[str, str]:
        """The annotation of a pod's instances with their ids; empty if there is none or it has them."""
        text = annotations.get(MIG_ALLOCATIONS, "")
        completed = _mig.with_ids(text, find) if text.strip() else text
        return {MIG_ALLOCATIONS: completed} if completed != text else {}

    def read_uses(self, text: str, annotations: Mapping[str, str]) -> PodUses:
        uses = super().read_uses(text, annotations)
        instances = annotations.get(MIG_ALLOCATIONS, "")
        return _mig.with_allocations(uses, instances) if instances.strip() else uses


class _MigInstance(SectionKeys, frozen=True, rename="camel"):
    name: str = ""
    memory: Amount = 0
    core: Amount = 0
    count: Amount = 0


class _MigGeometries(SectionKeys, frozen=True, rename="camel"):
    """The geometries into which HAMi 2.5 to 2.9 cuts cards of some models."""

    models: list[str] = msgspec.field(default_factory=list)
    allowed_geometries: list[list[_MigInstance]] = msgspec.field(default_factory=list)


class _MigProfiles(SectionKeys, frozen=True, rename="camel"):
    """The profiles into which HAMi since 2.10 may cut cards of some models."""

    models: list[str] = msgspec.field(default_factory=list)
    profiles: list[str] = msgspec.field(default_factory=list)


class _Keys(CardKeys, frozen=True, rename="camel"):
    resource_memory_percentage_name: Name = ""
    resource_priority_name: Name = ""
    overwrite_env: bool = False
    default_memory: Amount = 0
    default_cores: Annotated[int, msgspec.Meta(ge=0, le=WHOLE_CARD)] = 0
    default_count: Amount = msgspec.field(default=0, name="defaultGPUNum")
    memory_factor: Amount = 1
    gpu_core_policy: Literal["", "default", "force", "disable"] = ""
    runtime_class_name: str = ""
    # Only the device plugin reads these.
    device_split_count: Amount = 0
    device_memory_scaling: Scale = 1
    device_core_scaling: Scale = 1
    pre_configured_device_memory: Amount = 0
    enable_numa_topology: bool = False
    lib_cuda_log_level: Word = ""
    disable_core_limit: bool = False
    mig_profile_allowlist: list[_MigProfiles] = msgspec.field(default_factory=list)
    known_mig_geometries: list[_MigGeometries] = msgspec.field(default_factory=list)


def _warnings(section: _Keys) -> Iterator[str]:
    if not section.default_count:
        yield "nvidia: without defaultGPUNum, containers that give memory or compute but no count get no card"


def _configured(section: _Keys) -> list[Nvidia]:
    return [
        Nvidia(
            **section.resources,
            percentage_resource=section.resource_memory_percentage_name,
            priority_resource=section.resource_priority_name,
            default_memory=section.default_memory,
            default_cores=section.default_cores,
            default_count=section.default_count,
            memory_factor=section.memory_factor,
            overwrite_env=section.overwrite_env,
            core_policy=section.gpu_core_policy,
            runtime_class=section.runtime_class_name,
            node_keys=NodeKeys(
                split=section.device_split_count or NodeKeys.split,
                memory_scaling=section.device_memory_scaling,
                core_scaling=section.device_core_scaling,
                preconfigured_memory=section.pre_configured_device_memory,
                numa_topology=section.enable_numa_topology,
                log_level=str(section.lib_cuda_log_level),
                disable_core_limit=section.disable_core_limit,
            ),
        )
    ]


def _usual(flags: Flags) -> list[Nvidia]:
    arguments = from_flags(
        flags,
        count_resource="resource_name",
        memory_resource="resource_mem",
        percentage_resource="resource_mem_percentage",
        cores_resource="resource_cores",
        priority_resource="resource_priority",
        default_memory="default_mem",
        default_cores="default_cores",
        default_count="default_gpu",
        overwrite_env="overwrite_env",
    )
    return [Nvidia(**arguments)]


ENTRY = VendorEntry(sections=(Section("nvidia", _Keys, _configured, warnings=_warnings),), usual=_usual)

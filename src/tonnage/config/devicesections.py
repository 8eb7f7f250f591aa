"""The sections of HAMi's device configuration, key by key.

Keys of which it says that only the device plugin reads them are checked and otherwise ignored. Numbers are limited as
there, by 32 bits.
"""

from typing import Annotated, Literal

import msgspec

from tonnage.devices.base import LARGEST_AMOUNT

Name = Annotated[str, msgspec.Meta(pattern=r"^(([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?$")]
"""A resource; an empty one is none."""
Amount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]
Scale = Annotated[float, msgspec.Meta(ge=0)]
Word = str | int
"""A text that may look like a number, as chips' names and log levels do."""


class _Section(msgspec.Struct, frozen=True, rename="camel"):
    """Any section."""


class CardSection(_Section, frozen=True, rename="camel"):
    """The names that most vendors have."""

    resource_count_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""


class _MigInstance(_Section, frozen=True, rename="camel"):
    name: str = ""
    memory: Amount = 0
    core: Amount = 0
    count: Amount = 0


class _MigGeometries(_Section, frozen=True, rename="camel"):
    """What HAMi 2.5 to 2.9 cut cards of some models into."""

    models: list[str] = []
    allowed_geometries: list[list[_MigInstance]] = []


class _MigProfiles(_Section, frozen=True, rename="camel"):
    """What HAMi since 2.10 may cut cards of some models into."""

    models: list[str] = []
    profiles: list[str] = []


class NvidiaSection(CardSection, frozen=True, rename="camel"):
    """`nvidia`."""

    resource_memory_percentage_name: Name = ""
    resource_priority_name: Name = ""
    overwrite_env: bool = False
    default_memory: Amount = 0
    default_cores: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
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
    mig_profile_allowlist: list[_MigProfiles] = []
    known_mig_geometries: list[_MigGeometries] = []


class HygonSection(CardSection, frozen=True, rename="camel"):
    """`hygon`."""

    memory_factor: Amount = 1


class IluvatarSection(CardSection, frozen=True, rename="camel"):
    """One of `iluvatars`."""

    common_word: str = ""
    chip_name: Word = ""


class TemplateSection(_Section, frozen=True, rename="camel"):
    """A part into which an Ascend chip can be cut."""

    name: str = ""
    memory: Amount = 0
    ai_core: Amount = 0
    ai_cpu: Amount = msgspec.field(default=0, name="aiCPU")


class ChipSection(_Section, frozen=True, rename="camel"):
    """One of the chips of `vnpus`."""

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
    templates: list[TemplateSection] = []
    # Only the device plugin reads these.
    ai_core: Amount = 0
    ai_cpu: Amount = msgspec.field(default=0, name="aiCPU")


class AscendSection(_Section, frozen=True, rename="camel"):
    """`vnpus` since HAMi 2.9; before, it was the list of chips alone."""

    hami_vnpu_core: bool = False
    overwrite_env: bool = False
    runtime_class_name: str = ""
    configs: list[ChipSection] = []


class MetaxSection(_Section, frozen=True, rename="camel"):
    """`metax`: whole GPUs, and sGPUs under names with a `V`."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = ""
    resource_v_memory_name: Name = ""
    resource_v_core_name: Name = ""
    sgpu_topology_aware: bool = False


class EnflameSection(_Section, frozen=True, rename="camel"):
    """`enflame`: whole GCUs and those cut by DRS; before HAMi 2.10 the latter were shared, under the last two names."""

    resource_gcu: Name = msgspec.field(default="", name="resourceNameGCU")
    resource_sliced: Name = msgspec.field(default="", name="resourceNameDRSGCU")
    resource_memory: Name = msgspec.field(default="", name="resourceNameGCUMemory")
    resource_core: Name = msgspec.field(default="", name="resourceNameGCUCore")
    resource_shared: Name = msgspec.field(default="", name="resourceNameVGCU")
    resource_percentage: Name = msgspec.field(default="", name="resourceNameVGCUPercentage")


class MthreadsSection(CardSection, frozen=True, rename="camel"):
    """`mthreads`."""

    memory_per_card: list[Annotated[int, msgspec.Meta(ge=1, le=LARGEST_AMOUNT // 512)]] = []


class KunlunSection(_Section, frozen=True, rename="camel"):
    """`kunlun`: whole XPUs, and vXPUs under names with a `V`."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = ""
    resource_v_memory_name: Name = ""


class NeuronSection(_Section, frozen=True, rename="camel"):
    """`awsneuron`."""

    resource_count_name: Name = ""
    resource_core_name: Name = ""


class CountSection(_Section, frozen=True, rename="camel"):
    """`vastai` and `biren`."""

    resource_count_name: Name = ""

"""Settings of a node: what a node's cards count as, and how containers are told about them."""

import msgspec

from tonnage.devices.nvidia import NodeKeys

ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
STRATEGIES = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
BY_UUID, BY_INDEX = "uuid", "index"
CORE_MODE = "hami-core"


class CardSettings(NodeKeys, frozen=True):
    """What becomes of the cards of one node."""

    mode: str = CORE_MODE
    hidden_uuids: frozenset[str] = frozenset()
    hidden_indexes: frozenset[int] = frozenset()


class AnswerSettings(msgspec.Struct, frozen=True):
    """How a container learns of its devices."""

    hook: str = "/usr/local"
    """The folder that holds HAMi-core's `vgpu`, on the node and in containers."""
    lock_folder: str = "/tmp/vgpulock"
    strategies: tuple[str, ...] = (ENVVAR,)
    id_strategy: str = BY_UUID
    passes_device_files: bool = False
    driver_root: str = "/"
    cdi_kind: str = "k8s.device-plugin.nvidia.com/gpu"
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    switches: dict[str, str] = msgspec.field(default_factory=dict)
    """Further variables, such as NVIDIA_GDS."""

"""The kubelet's messages: its device plugin API (v1beta1) and its list of pods' resources (v1).

Names are those of the protocol; field numbers are all that the wire knows.
"""

from typing import ClassVar

import msgspec

from tonnage.agent.kubelet.protobuf import Message

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Empty(Message, frozen=True):
    """A message without content."""


class DevicePluginOptions(Message, frozen=True):
    """What a plugin wants to be asked."""

    NUMBERS: ClassVar = {"pre_start_required": 1, "get_preferred_allocation_available": 2}
    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False


class RegisterRequest(Message, frozen=True):
    """A plugin's first call: where it listens, and for which resource."""

    NUMBERS: ClassVar = {"version": 1, "endpoint": 2, "resource_name": 3, "options": 4}
    version: str = ""
    endpoint: str = ""
    resource_name: str = ""
    options: DevicePluginOptions = DevicePluginOptions()


class NumaNode(Message, frozen=True):
    """A NUMA node."""

    NUMBERS: ClassVar = {"id": 1}
    id: int = 0


class TopologyInfo(Message, frozen=True):
    """The NUMA nodes that a device belongs to."""

    NUMBERS: ClassVar = {"nodes": 1}
    nodes: tuple[NumaNode, ...] = ()


class OfferedDevice(Message, frozen=True):
    """A replica of a card as the kubelet counts it."""

    NUMBERS: ClassVar = {"id": 1, "health": 2, "topology": 3}
    id: str = ""
    health: str = ""
    topology: TopologyInfo | None = None


class DeviceList(Message, frozen=True):
    """All devices; every message of ListAndWatch is the whole list."""

    NUMBERS: ClassVar = {"devices": 1}
    devices: tuple[OfferedDevice, ...] = ()


class PreferenceQuestion(Message, frozen=True):
    """What one container may get, and how many of it."""

    NUMBERS: ClassVar = {"available": 1, "must_include": 2, "size": 3}
    available: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    size: int = 0


class PreferredAllocationRequest(Message, frozen=True):
    """The kubelet asks which devices are best for a container."""

    NUMBERS: ClassVar = {"containers": 1}
    containers: tuple[PreferenceQuestion, ...] = ()


class Preference(Message, frozen=True):
    """The devices that are best for one container."""

    NUMBERS: ClassVar = {"ids": 1}
    ids: tuple[str, ...] = ()


class PreferredAllocationResponse(Message, frozen=True):
    """The best devices for each container."""

    NUMBERS: ClassVar = {"containers": 1}
    containers: tuple[Preference, ...] = ()


class ContainerIds(Message, frozen=True):
    """The devices that the kubelet gives one container."""

    NUMBERS: ClassVar = {"ids": 1}
    ids: tuple[str, ...] = ()


class AllocateRequest(Message, frozen=True):
    """The kubelet asks what a container needs to use its devices."""

    NUMBERS: ClassVar = {"containers": 1}
    containers: tuple[ContainerIds, ...] = ()


class Mount(Message, frozen=True):
    """A file or folder of the node in the container."""

    NUMBERS: ClassVar = {"container_path": 1, "host_path": 2, "read_only": 3}
    container_path: str = ""
    host_path: str = ""
    read_only: bool = False


class DeviceSpec(Message, frozen=True):
    """A device file of the node in the container."""

    NUMBERS: ClassVar = {"container_path": 1, "host_path": 2, "permissions": 3}
    container_path: str = ""
    host_path: str = ""
    permissions: str = ""


class CdiDevice(Message, frozen=True):
    """A device by its name in a CDI specification."""

    NUMBERS: ClassVar = {"name": 1}
    name: str = ""


class ContainerResponse(Message, frozen=True):
    """Everything that one container gets."""

    NUMBERS: ClassVar = {"envs": 1, "mounts": 2, "devices": 3, "annotations": 4, "cdi_devices": 5}
    envs: dict[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceSpec, ...] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    cdi_devices: tuple[CdiDevice, ...] = ()


class AllocateResponse(Message, frozen=True):
    """The answer for each container."""

    NUMBERS: ClassVar = {"containers": 1}
    containers: tuple[ContainerResponse, ...] = ()


class PreStartRequest(Message, frozen=True):
    """The kubelet is about to start a container."""

    NUMBERS: ClassVar = {"ids": 1}
    ids: tuple[str, ...] = ()


class ContainerDevices(Message, frozen=True):
    """Devices of one resource that a container holds."""

    NUMBERS: ClassVar = {"resource_name": 1, "ids": 2}
    resource_name: str = ""
    ids: tuple[str, ...] = ()


class ContainerResources(Message, frozen=True):
    """A container and its devices."""

    NUMBERS: ClassVar = {"name": 1, "devices": 2}
    name: str = ""
    devices: tuple[ContainerDevices, ...] = ()


class PodResources(Message, frozen=True):
    """A pod that the kubelet runs or is about to run."""

    NUMBERS: ClassVar = {"name": 1, "namespace": 2, "containers": 3}
    name: str = ""
    namespace: str = ""
    containers: tuple[ContainerResources, ...] = ()


class PodResourcesList(Message, frozen=True):
    """All pods of the kubelet."""

    NUMBERS: ClassVar = {"pods": 1}
    pods: tuple[PodResources, ...] = ()

"""Pods as Tonnage reads them."""

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta
from tonnage.model.number import Int32
from tonnage.model.selection import Affinity, Toleration, TopologySpreadConstraint
from tonnage.model.storage import PodVolume

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""


class ResourceRequirements(msgspec.Struct, gc=False, frozen=True):
    """The requests and limits of a container."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SecurityContext(msgspec.Struct, gc=False, frozen=True):
    """The security context of a container; only `privileged` is read."""

    privileged: bool | None = None


class ContainerPort(msgspec.Struct, gc=False, frozen=True):
    """A port of a container, which may also be a host port."""

    containerPort: Int32 = 0
    hostPort: Int32 = 0
    hostIP: str | None = None
    protocol: str | None = None


class Container(msgspec.Struct, gc=False, frozen=True):
    """A container, init container or sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restartPolicy: str | None = None
    securityContext: SecurityContext | None = None
    ports: list[ContainerPort] | None = None
    image: str | None = None

    @property
    def image_name(self) -> str:
        """The image with its tag, as nodes list it."""
        name = self.image or ""
        return name if not name or name.rfind(":") > name.rfind("/") else f"{name}:latest"

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container is a sidecar, which keeps running beside the app containers."""
        return self.restartPolicy == "Always"


class EnvVar(msgspec.Struct, gc=False, frozen=True):
    """An environment variable of a container; only its name is read."""

    name: str


class AdmittedContainer(Container, frozen=True):
    """A container at its admission, with its environment variables, which are not kept afterwards."""

    env: list[EnvVar] | None = None


class SchedulingGate(msgspec.Struct, gc=False, frozen=True):
    """A scheduling gate; the pod cannot be scheduled until all gates are removed."""

    name: str


class PodSpec(msgspec.Struct, gc=False, frozen=True):
    """The specification of a pod."""

    containers: list[Container] = []
    initContainers: list[Container] | None = None
    nodeName: str | None = None
    nodeSelector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    overhead: dict[str, str | int | float] | None = None
    priority: int | None = None
    schedulerName: str | None = None
    schedulingGates: list[SchedulingGate] | None = None
    topologySpreadConstraints: list[TopologySpreadConstraint] | None = None
    volumes: list[PodVolume] | None = None
    hostNetwork: bool | None = None
    preemptionPolicy: str | None = None
    priorityClassName: str | None = None


class PodCondition(msgspec.Struct, gc=False, frozen=True):
    """A condition of a pod; its texts are not read."""

    type: str = ""
    status: str = ""


class ContainerEnd(msgspec.Struct, gc=False, frozen=True):
    """How a container ended."""

    exitCode: Int32 = 0


class ContainerState(msgspec.Struct, gc=False, frozen=True):
    """The state of a container; only its end is read."""

    terminated: ContainerEnd | None = None


class ContainerStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a container as the kubelet reports it."""

    name: str = ""
    state: ContainerState | None = None

    @property
    def has_succeeded(self) -> bool:
        """Whether the container has ended with success and does not run again."""
        end = self.state.terminated if self.state is not None else None
        return end is not None and end.exitCode == 0


class ReportedPodStatus(msgspec.Struct, gc=False, frozen=True):
    """The status of a pod as the API server has it; its status in its job is a `PodStatus` of `cluster.jobs.job`."""

    phase: str | None = None
    reason: str | None = None
    """Why the pod has failed, such as OutOfcpu if its kubelet did not admit it."""
    nominatedNodeName: str | None = None
    """The node on which preemption makes room for the pod, or which an external controller proposes."""
    startTime: str | None = None
    """When the kubelet acknowledged the pod."""
    conditions: list[PodCondition] | None = None
    """Only PodScheduled is kept, and only while it is False."""
    initContainerStatuses: list[ContainerStatus] | None = None
    """Only those of init containers that have ended with success are kept."""

    def __post_init__(self) -> None:
        if self.initContainerStatuses is not None:
            ended = [one for one in self.initContainerStatuses if one.has_succeeded]
            msgspec.structs.force_setattr(self, "initContainerStatuses", ended or None)
        if self.conditions is not None:
            kept = [one for one in self.conditions if one.type == "PodScheduled" and one.status == "False"]
            msgspec.structs.force_setattr(self, "conditions", kept or None)

    @property
    def says_unscheduled(self) -> bool:
        """Whether the condition PodScheduled is False."""
        return self.conditions is not None


class Pod(msgspec.Struct, gc=False, frozen=True):
    """A pod, waiting or running."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: ReportedPodStatus = ReportedPodStatus()

    @property
    def key(self) -> str:
        """Namespace and name, unique among pods that exist at the same time."""
        return self.metadata.key

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or NOTHING

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or NOTHING

    @property
    def node(self) -> str | None:
        """The node that the pod is bound to, if any."""
        return self.spec.nodeName or None

    @property
    def scheduler(self) -> str:
        """The scheduler that places the pod."""
        return self.spec.schedulerName or DEFAULT_SCHEDULER

    @property
    def is_leaving(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletionTimestamp is not None

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended and holds nothing; a terminating pod still holds everything."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def holds_nothing(self) -> bool:
        """Whether the pod holds nothing and never will: it has ended, or is being deleted without a node."""
        return self.is_over or (self.is_leaving and self.node is None)

    @property
    def is_initialized(self) -> bool:
        """Whether all init containers but sidecars, which go on, have ended with success."""
        ended = {status.name for status in self.status.initContainerStatuses or ()}
        return all(c.is_sidecar or c.name in ended for c in self.spec.initContainers or ())

    @property
    def has_succeeded(self) -> bool:
        """Whether the pod has succeeded."""
        return self.status.phase == "Succeeded"

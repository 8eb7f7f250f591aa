"""A Kubernetes pod as Tonnage reads it."""

import msgspec

from tonnage.model.meta import NOTHING, ObjectMeta
from tonnage.model.selection import Affinity, Toleration, TopologySpreadConstraint
from tonnage.model.storage import PodVolume


class ResourceRequirements(msgspec.Struct, gc=False, frozen=True):
    """What a container asks for and may use at most."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SecurityContext(msgspec.Struct, gc=False, frozen=True):
    """The one security setting that matters here."""

    privileged: bool | None = None


class EnvVar(msgspec.Struct, gc=False, frozen=True):
    """An environment variable of a container."""

    name: str
    value: str | None = None


class ContainerPort(msgspec.Struct, gc=False, frozen=True):
    """A port of a container, which may be one of the node's too."""

    containerPort: int = 0
    hostPort: int = 0
    hostIP: str | None = None
    protocol: str | None = None


class Container(msgspec.Struct, gc=False, frozen=True):
    """A container, init container or sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restartPolicy: str | None = None
    securityContext: SecurityContext | None = None
    env: list[EnvVar] | None = None
    ports: list[ContainerPort] | None = None
    image: str | None = None

    @property
    def image_name(self) -> str:
        """The image as nodes call it: with a tag."""
        name = self.image or ""
        return name if not name or name.rfind(":") > name.rfind("/") else f"{name}:latest"

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container keeps running beside the others."""
        return self.restartPolicy == "Always"


class SchedulingGate(msgspec.Struct, gc=False, frozen=True):
    """Something that must be lifted before the pod may be scheduled."""

    name: str


class PodSpec(msgspec.Struct, gc=False, frozen=True):
    """What the pod asks for."""

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


class PodStatus(msgspec.Struct, gc=False, frozen=True):
    """How far the pod has come."""

    phase: str | None = None
    nominatedNodeName: str | None = None
    """The node that was made free for the pod, or that somebody wishes it to go to."""
    startTime: str | None = None
    """When the node took the pod on."""


class Pod(msgspec.Struct, gc=False, frozen=True):
    """A pod, waiting or running."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """Namespace and name, which tell a pod from all others alive at the same time."""
        return self.metadata.key

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or NOTHING

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or NOTHING

    @property
    def node(self) -> str | None:
        """The node the pod is bound to, if it is."""
        return self.spec.nodeName or None

    @property
    def is_leaving(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletionTimestamp is not None

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended and holds nothing any more; one that is terminating still holds everything."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def has_succeeded(self) -> bool:
        """Whether the pod has done its work."""
        return self.status.phase == "Succeeded"

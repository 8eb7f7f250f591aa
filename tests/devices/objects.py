"""Short ways to write the Kubernetes objects that the device tests need."""

from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus
from tonnage.model.pod import AdmittedContainer, Container, EnvVar, Pod, PodSpec, ResourceRequirements

Quantities = dict[str, str | int | float]


def container(
    limits: Quantities | None = None,
    *,
    requests: Quantities | None = None,
    name: str = "main",
    env: tuple[str, ...] = (),
) -> Container:
    return AdmittedContainer(name, ResourceRequirements(requests, limits), env=[EnvVar(variable) for variable in env])


def node(annotations: dict[str, str] | None = None, *, capacity: Quantities | None = None, name: str = "n1") -> Node:
    return Node(ObjectMeta(name, annotations=annotations), status=NodeStatus(capacity=capacity))


def pod(annotations: dict[str, str] | None = None, *, containers: int = 1, init: int = 0) -> Pod:
    spec = PodSpec([Container()] * containers, [Container()] * init or None)
    return Pod(ObjectMeta("p1", annotations=annotations), spec)

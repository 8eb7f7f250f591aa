"""Words for tests of scoring plugins: pods and nodes in plain amounts, and one plugin's scores of all nodes."""

from collections.abc import Mapping

import pytest

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import ArgumentError, Plugin
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements

Amounts = Mapping[str, str | int | float]


def host(name: str, **offers: str | int) -> Node:
    """A node that offers just this; `cpu` is in milli, names have `__` for a slash and a dot before the last part."""
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable=named(offers)))


def wants(
    name: str,
    *containers: Amounts,
    on: str | None = None,
    init: tuple[Amounts, ...] = (),
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A pod of containers that request this."""
    made = [
        [Container(f"c{i}", ResourceRequirements(named(c))) for i, c in enumerate(part)] for part in (containers, init)
    ]
    status = ReportedPodStatus("Running" if on else "Pending")
    meta = ObjectMeta(name=name, namespace="default", annotations=annotations)
    return Pod(meta, PodSpec(made[0], made[1], nodeName=on), status)


def named(amounts: Amounts) -> dict[str, str | int | float]:
    """Keyword names as resource names; whole numbers of `cpu` are milli."""
    result: dict[str, str | int | float] = {}
    for name, value in amounts.items():
        result[name.replace("__", ".com/")] = f"{value}m" if name == "cpu" and isinstance(value, int) else value
    return result


def scores(cluster: Cluster, plugin: Plugin, wanted: Pod) -> dict[str, float]:
    """What one plugin alone says of every node, whether the pod fits there or not."""
    with Session(cluster, [plugin]) as session:
        decision = session.decide(make_task(wanted, cluster.vendors))
        return {node: parts[plugin.name] for node, parts in sorted(decision.scores.items())}


class Warnings(dict[str, str]):
    """What `read_arguments` warned about, by key."""

    def __call__(self, key: str, message: str) -> None:
        assert key not in self
        self[key] = message


def refused(plugin: type[Plugin], given: Mapping[str, object]) -> tuple[str, str]:
    """The key and the sentence of the error that arguments are refused with."""
    with pytest.raises(ArgumentError) as caught:
        plugin.read_arguments(given, Warnings())
    return caught.value.key, caught.value.message

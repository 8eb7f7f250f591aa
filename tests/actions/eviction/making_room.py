"""Words for scenarios in which pods are stopped: a small cluster of Volcano's or KAI's, and who has to go for whom."""

from collections.abc import Sequence
from typing import Any

from tests.config.texts import KAI_DEFAULT, load
from tests.groups import Outcome, add, cycle, group, kai_group, priority_class, queue
from tests.scenario import node as bare
from tests.scenario import part, plain, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP, VOLCANO_GROUP
from tonnage.cluster.jobs.job import VOLCANO_KEY
from tonnage.model.group import GroupObject
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod, ResourceRequirements

TRAIN, BUILD, INFERENCE = 50, 100, 125
"""KAI's usual priorities; the last two are not stopped for others."""
SLICE, LARGE_SLICE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.10gb"
HIGH, MIDDLE, LOW = 100_000, 1000, 10

_ONE_TIER = """
actions: {action}
tiers:
- plugins:
{plugins}
"""


def volcano(cluster: Cluster, action: str, *plugins: str) -> Outcome:
    """What one action of Volcano's does with some plugins in one tier."""
    text = _ONE_TIER.format(action=action, plugins="".join(f"  - name: {name}\n" for name in plugins))
    return cycle(cluster, actions=(action,), plugins=load(text).plugins)


def kai(cluster: Cluster, *actions: str) -> Outcome:
    """What actions do with KAI's plugins."""
    return cycle(cluster, actions=actions, plugins=load(KAI_DEFAULT).plugins)


def evicted(outcome: Outcome) -> list[str]:
    """The pods that are stopped and get no other place, in the order of names."""
    return sorted(eviction.pod.partition("/")[2] for eviction in outcome.session.evictions if not eviction.to)


def moved(outcome: Outcome) -> dict[str, str]:
    """The pods that are stopped and get another place, with its node."""
    return {e.pod.partition("/")[2]: e.to for e in outcome.session.evictions if e.to}


def promised(outcome: Outcome) -> dict[str, str | None]:
    """The nodes of pods that wait until others have left."""
    return {name: d.node for name, d in outcome.decisions.items() if d.outcome == "waiting" and d.node}


# -- Volcano


def asks(
    name: str, of: str, cpu: float = 0, memory: float = 0, *, stays: bool | None = None, gpus: int = 0, **more: Any
) -> Pod:
    """A pod of one of Volcano's groups that asks for CPUs, Gi and cards; it may say whether it may be stopped."""
    limits: dict[str, str | int | float] = {"cpu": cpu, "memory": f"{memory}Gi", "nvidia.com/gpu": gpus}
    given = {key: value for key, value in limits.items() if value not in (0, "0Gi")}
    notes = {VOLCANO_GROUP: of} | ({} if stays is None else {VOLCANO_KEY: "false" if stays else "true"})
    return pod(name, containers=[Container("main", ResourceRequirements(limits=given))], annotations=notes, **more)


def teams(*things: Node | Pod, groups: dict[str, dict[str, Any]], **queues: dict[str, Any]) -> Cluster:
    """Queues and groups of Volcano's by name, and priority classes `high`, `middle` and `low`."""
    cluster = scenario(*things)
    for name, value in (("high", HIGH), ("middle", MIDDLE), ("low", LOW)):
        add(cluster, priority_class(name, value))
    for name, spec in queues.items():
        add(cluster, queue(name, **spec))
    for name, spec in groups.items():
        add(cluster, group(name, spec.pop("minimum", 1), **spec))
    return cluster


# -- KAI


def node(name: str, gpus: int) -> Node:
    return plain(name, gpus, gpu_memory=100)


def sliced(name: str, **instances: int) -> Node:
    """A node whose cards are cut into MIG instances."""
    made = bare(name, labels={"nvidia.com/mig.strategy": "mixed", "node-role.kubernetes.io/mig-enabled": "true"})
    assert made.status.allocatable is not None
    made.status.allocatable.update({"nvidia.com/gpu": 0, SLICE: instances.get("small", 0)})
    made.status.allocatable.update({LARGE_SLICE: instances["large"]} if "large" in instances else {})
    return made


def job(
    name: str,
    of: str,
    gpus: float = 1,
    *,
    pods: int = 1,
    minimum: int | None = None,
    priority: int = TRAIN,
    on: str | list[str] | None = None,
    card: str | None = None,
    mib: int | None = None,
    asks: dict[str, str | int | float] | None = None,
    leaving: bool = False,
    each: Sequence[dict[str, Any]] = (),
    **spec: Any,
) -> list[GroupObject | Pod]:
    """A group of KAI's with its pods, all on one node, or on one each.

    They ask for cards or a part of one, or for MiB of a card, and for other resources; `each` says what else is said
    of the single pods.
    """
    where = on if isinstance(on, list) else [on] * pods
    made: list[GroupObject | Pod] = [kai_group(name, pods if minimum is None else minimum, queue=of, **spec)]
    limits = {**(asks or {}), **({"nvidia.com/gpu": int(gpus)} if gpus >= 1 and mib is None else {})}
    for number, place in enumerate(where):
        own, notes = f"{name}-{number}", {KAI_GROUP: name}
        more: dict[str, Any] = {"annotations": notes, "priority": priority, "terminating": leaving}
        more |= each[number] if each else {}
        containers = [Container("main", ResourceRequirements(limits=limits))]
        if mib is not None or 0 < gpus < 1:
            fraction = gpus if mib is None else None
            made.append(part(own, fraction, memory=mib, on=place, group=card, containers=containers, **more))
        else:
            made.append(pod(own, on=place, containers=containers, **more))
    return made


def crowd(*things: Node | GroupObject | list[GroupObject | Pod]) -> Cluster:
    """A cluster of KAI's."""
    cluster = scenario()
    for thing in things:
        for one in thing if isinstance(thing, list) else [thing]:
            if isinstance(one, Node):
                cluster.upsert_node(one)
            elif isinstance(one, Pod):
                cluster.upsert_pod(one)
            else:
                add(cluster, one)
    return cluster

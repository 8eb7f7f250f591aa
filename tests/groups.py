"""Words for scenarios with groups and queues.

cluster = scenario(node("a", cpu="4"), *members("train", 4, cpu=1))
add(cluster, group("train", 4), queue("team"))
"""

from collections.abc import Sequence
from typing import Any

from tests.scenario import pod
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import VOLCANO_GROUP, VOLCANO_ROLE
from tonnage.framework.cycle import CycleDocument, document, run_cycle
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.group import GroupObject, KaiPodGroup, KaiQueue, PriorityClass, VolcanoPodGroup, VolcanoQueue
from tonnage.model.pod import Pod
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins


def _metadata(name: str, created: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, **({"creationTimestamp": created} if created else {}), **more}


def group(
    name: str,
    minimum: int = 1,
    *,
    phase: str = "Inqueue",
    created: str | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> VolcanoPodGroup:
    """A PodGroup of Volcano."""
    metadata = _metadata(name, created, namespace=namespace, annotations=annotations or {})
    given = {"metadata": metadata, "spec": {"minMember": minimum, **spec}, "status": {"phase": phase}}
    return convert(given, VolcanoPodGroup)


def kai_group(
    name: str,
    minimum: int | None = None,
    *,
    created: str | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> KaiPodGroup:
    """A PodGroup of KAI, in the default queue unless it says otherwise."""
    spec = {"queue": "default", **({} if minimum is None else {"minMember": minimum}), **spec}
    metadata = _metadata(name, created, namespace=namespace, annotations=annotations or {})
    return convert({"metadata": metadata, "spec": spec}, KaiPodGroup)


def queue(name: str, *, created: str | None = None, state: str = "Open", **spec: Any) -> VolcanoQueue:
    """A Queue of Volcano."""
    given = {"metadata": _metadata(name, created), "spec": spec, "status": {"state": state}}
    return convert(given, VolcanoQueue)


def kai_queue(name: str, *, created: str | None = None, **spec: Any) -> KaiQueue:
    """A Queue of KAI."""
    return convert({"metadata": _metadata(name, created), "spec": spec}, KaiQueue)


def priority_class(name: str, value: int) -> PriorityClass:
    return convert({"metadata": {"name": name}, "value": value}, PriorityClass)


def member(name: str, of: str, gpus: int | None = None, *, role: str | None = None, **more: Any) -> Pod:
    """A pod of a group."""
    annotations = {VOLCANO_GROUP: of, **({VOLCANO_ROLE: role} if role else {}), **more.pop("annotations", {})}
    return pod(name, gpus, annotations=annotations, **more)


def members(of: str, count: int, gpus: int | None = None, **more: Any) -> list[Pod]:
    """Pods `<group>-0`, `<group>-1` and so on."""
    return [member(f"{of}-{number}", of, gpus, **more) for number in range(count)]


def add(cluster: Cluster, *things: GroupObject) -> Cluster:
    for thing in things:
        cluster.groups.upsert(thing)
    return cluster


class Outcome:
    """What a cycle did."""

    def __init__(self, session: Session, told: CycleDocument) -> None:
        self.session = session
        self.document = told
        self.decisions = {decision.task.name: decision for decision in session.decisions.values()}
        self.order = list(self.decisions)
        """Pods in the order in which they were first spoken of."""

    @property
    def placed(self) -> dict[str, str | None]:
        """The nodes of pods that start now."""
        return {name: d.node for name, d in self.decisions.items() if d.outcome == "placed"}

    @property
    def waiting(self) -> set[str]:
        return {name for name, d in self.decisions.items() if d.outcome == "waiting"}

    def why(self, name: str) -> str:
        return self.decisions[name].why_not()


def cycle(
    cluster: Cluster,
    *more: Plugin,
    actions: Sequence[str] = ("allocate",),
    plugins: Sequence[Plugin] | None = None,
) -> Outcome:
    """Run a cycle with HAMi's policies and more, or with other plugins."""
    with Session(cluster, [*(default_plugins() if plugins is None else plugins), *more]) as session:
        decisions = run_cycle(session, make_actions(actions))
        return Outcome(session, document(session, decisions))

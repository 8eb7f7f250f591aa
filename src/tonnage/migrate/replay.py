"""The last pods that another scheduler placed, decided again by the engine on the cluster as it was without them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import Holding
from tonnage.cluster.task import Task, make_task
from tonnage.explain.moves import unplaced
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.migrate.report import ExpectedDifference, ReplayCounts
from tonnage.model.pod import Pod, ReportedPodStatus
from tonnage.model.timestamp import TimestampError, timestamp

_DECIDED = "hami.io/vgpu-time"
"""When HAMi decided, in seconds since 1970."""


def replay(
    cluster: Cluster, plugins: Sequence[Plugin], schedulers: Collection[str], last: int
) -> tuple[ReplayCounts, list[ExpectedDifference]]:
    """Decide the last placed pods of these schedulers again, each on what was placed before it.

    The cluster must be nobody else's; it is as before when this returns. Pods that have ended since are not there, so
    a decision may differ for their room, too.
    """
    placed = [task for task in cluster.running.values() if _is_of(task, schedulers)]
    newest = sorted(placed, key=lambda task: (_time(task.pod), task.key))[-last:] if last else []
    pods = [task.pod for task in newest]
    held = {task.key: cluster.held(task.key) for task in newest}
    for pod in pods:
        cluster.remove_pod(pod.key)
    found: dict[str, list[str]] = {}
    for pod in pods:
        where, said = _compared(cluster, plugins, pod, held[pod.key])
        found.setdefault(where, []).append(f"{pod.key}{said}")
        cluster.upsert_pod(pod)
    sizes = {name: len(examples) for name, examples in found.items()}
    counts = ReplayCounts(pods=len(pods), **{name: sizes.get(name, 0) for name in _WORDS}, same_place=sizes.get("", 0))
    return counts, list(_differences(found))


_WORDS = {
    "same_node": "the last pods would have got other cards of their node",
    "other_node": "the last pods would have got another node",
    "waiting": "the last pods would wait; those that run are left alone",
}


def _differences(found: dict[str, list[str]]) -> Iterator[ExpectedDifference]:
    for where, words in _WORDS.items():
        if examples := found.get(where):
            yield ExpectedDifference(f"{len(examples)} of {words}", examples[0], len(examples))


def _is_of(task: Task, schedulers: Collection[str]) -> bool:
    return task.pod.scheduler in schedulers and not task.pod.is_over and not task.pod.is_leaving


def _time(pod: Pod) -> float:
    with suppress(ValueError):
        return float(pod.annotations[_DECIDED]) if _DECIDED in pod.annotations else _stamp(pod)
    return _stamp(pod)


def _stamp(pod: Pod) -> float:
    with suppress(TimestampError):
        return timestamp(pod.status.startTime or pod.metadata.creationTimestamp or "")
    return 0.0


def _compared(cluster: Cluster, plugins: Sequence[Plugin], pod: Pod, held: Holding | None) -> tuple[str, str]:
    """How the decision compares, and in words; nothing if it is the same."""
    decision = _decided(cluster, plugins, pod)
    if decision.node is None:
        reasons = ", ".join(f"{one.nodes} {one.reason}" for one in decision.record().rejected)
        return "waiting", f": is on {pod.node}, would wait ({reasons or 'no node'})"
    if decision.node != pod.node:
        return "other_node", f": is on {pod.node}, would be on {decision.node}"
    had = {uuid for _, uuid in held.cards} if held else set()
    given = {device.uuid for device in decision.devices}
    if had and had != given:
        return "same_node", f": has {', '.join(sorted(had))}, would have {', '.join(sorted(given))}"
    return "", ""


def _decided(cluster: Cluster, plugins: Sequence[Plugin], pod: Pod) -> Decision:
    """The decision about a pod as if it were new."""
    new = unplaced(cluster, pod)
    fresh = Pod(new.metadata, new.spec, ReportedPodStatus())
    with Session(cluster, plugins, brief=True) as session:
        return session.decide(make_task(fresh, cluster.vendors))

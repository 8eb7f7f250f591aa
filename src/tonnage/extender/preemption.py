"""Preempt: correct what kube-scheduler proposes.

kube-scheduler proposes, for each node, pods that it would stop for a pod. It knows nothing of cards, so a node stays in
its proposal only if the pod fits on the cards there once those pods have left. It proposes nothing for a pod that lacks
nothing but devices, because those are `ignoredByScheduler`; making room for such pods is the batch scheduler's work.
"""

import msgspec

from tonnage.cluster.task import Task, make_task
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.model.pod import Pod


class MetaPod(msgspec.Struct, gc=False, frozen=True):
    """A pod by its UID."""

    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(msgspec.Struct, gc=False, frozen=True):
    """The pods that would be stopped on a node."""

    pods: list[MetaPod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class NodeVictims(msgspec.Struct, gc=False, frozen=True):
    """The same with whole pods."""

    pods: list[Pod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptArgs(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """A pod, and what kube-scheduler would stop for it, by node."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, NodeVictims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptResult(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """The nodes on which the pod would then fit."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


def preempt(session: Session, args: PreemptArgs) -> PreemptResult:
    """The proposals that would help; nothing changes."""
    proposed = dict(args.node_name_to_meta_victims or {})
    for node, victims in (args.node_name_to_victims or {}).items():
        pods = [MetaPod(pod.metadata.uid or "") for pod in victims.pods or ()]
        proposed.setdefault(node, MetaVictims(pods, victims.violations))
    if args.pod is None:
        return PreemptResult()
    task = make_task(args.pod, session.cluster.vendors)
    if not task.demands:
        return PreemptResult(proposed)
    by_uid = {one.uid: one for one in session.cluster.running.values()}
    helps = {node: victims for node, victims in proposed.items() if _fits_without(session, task, node, victims, by_uid)}
    return PreemptResult(helps)


def _fits_without(
    session: Session, task: Task, node: str, victims: MetaVictims, by_uid: dict[str | None, Task]
) -> bool:
    with Statement(session) as statement, session.looking_ahead():
        for victim in victims.pods or ():
            running = by_uid.get(victim.uid)
            if running is not None and running.key not in session.cluster.leaving:
                statement.evict(running, task.key, "proposed by kube-scheduler")
        return session.decide(task, session.cluster.mask([node])).node is not None

"""The preempt verb: checks the victims that kube-scheduler proposes.

kube-scheduler proposes victims for a preemptor, by node. It knows nothing of cards, so a node stays in the proposal
only if the preemptor fits on its cards once the victims have left. It proposes nothing for a pod that lacks only
devices, because these are `ignoredByScheduler`; only `tonnage scheduler` preempts for such pods.
"""

import msgspec

from tonnage.cluster.task import Task, make_task
from tonnage.extender.protocol import Arguments, check_pod
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.model.pod import Pod


class MetaPod(msgspec.Struct, gc=False, frozen=True):
    """A pod by its UID."""

    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(msgspec.Struct, gc=False, frozen=True):
    """The victims on a node, by UID."""

    pods: list[MetaPod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class NodeVictims(msgspec.Struct, gc=False, frozen=True):
    """The victims on a node, as whole pods."""

    pods: list[Pod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptArgs(Arguments, gc=False, frozen=True, rename="pascal"):
    """A preemptor, and the victims that kube-scheduler proposes, by node."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, NodeVictims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    def check(self) -> None:
        check_pod(self.pod)


class PreemptResult(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """The nodes on which the preemptor would fit without the victims."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


def preempt(session: Session, args: PreemptArgs) -> PreemptResult:
    """The proposals that would help; the cluster does not change."""
    proposed = dict(args.node_name_to_meta_victims or {})
    for node, victims in (args.node_name_to_victims or {}).items():
        pods = [MetaPod(pod.metadata.uid or "") for pod in victims.pods or ()]
        proposed.setdefault(node, MetaVictims(pods, victims.violations))
    if args.pod is None:
        return PreemptResult()
    shown = session.cluster.waiting.get(args.pod.key)
    task = shown if shown is not None and shown.uid == args.pod.metadata.uid else None
    task = task or make_task(args.pod, session.cluster.vendors)
    if not task.demands:
        return PreemptResult(proposed)
    proposed = {node: victims for node, victims in proposed.items() if node in session.cluster.nodes}
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

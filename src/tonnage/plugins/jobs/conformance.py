"""Volcano's conformance: pods that the cluster itself needs are never evicted."""

from collections.abc import Sequence

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

NAMESPACE = "kube-system"
CLASSES = ("system-cluster-critical", "system-node-critical")
CRITICAL = 2_000_000_000
"""The priority from which on Kubernetes treats pods as critical."""


class Conformance(Plugin, trusted=True):
    """Vetoes the eviction of `kube-system` pods and of critical ones."""

    name = "conformance"

    def on_session_open(self, session: Session) -> None:
        session.add_preemptable(self.not_critical, veto=True)
        session.add_reclaimable(self.not_critical, veto=True)

    @staticmethod
    def not_critical(job: Job, victims: Sequence[Task]) -> list[Task]:
        """The victims without critical pods."""
        return [task for task in victims if not is_critical(task)]


def is_critical(task: Task) -> bool:
    """Whether the pod is critical to the cluster."""
    spec = task.pod.spec
    return task.namespace == NAMESPACE or task.priority >= CRITICAL or spec.priorityClassName in CLASSES

"""The explanation of anything in a cluster, by kind and name."""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import PodStatus
from tonnage.cluster.task import Task
from tonnage.explain import names
from tonnage.explain.moves import MoveSearch
from tonnage.explain.nodes import explain_card, explain_node
from tonnage.explain.pending import PendingExplainer, members_of
from tonnage.explain.placed import explain_placed
from tonnage.explain.queues import explain_queue
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.explain.rehearsal import Rehearsal
from tonnage.framework.plugin import Plugin


class Explainer:
    """Answers questions about a cluster that nobody else uses; afterwards the cluster is as before."""

    def __init__(
        self,
        cluster: Cluster,
        plugins: Sequence[Plugin],
        actions: Sequence[str],
        move_search: MoveSearch | None = None,
    ) -> None:
        self._cluster, self._move_search = cluster, move_search
        self._rehearsal = Rehearsal(cluster, plugins, actions)

    def explain(
        self, kind: ExplainedKind, name: str, namespace: str = "default", *, suggests: bool = True
    ) -> Explanation:
        """The explanation; UnknownNameError with the nearest names if there is no such thing."""
        if kind == ExplainedKind.QUEUE:
            return explain_queue(self._rehearsal, names.queue_name(self._cluster, name))
        if kind == ExplainedKind.NODE:
            return explain_node(self._rehearsal, names.node_name(self._cluster, name))
        if kind == ExplainedKind.GPU:
            return explain_card(self._rehearsal, *names.card_place(self._cluster, name))
        if kind == ExplainedKind.JOB:
            return self._job(names.job_key(self._cluster, namespace, name), suggests)
        return self._pod(names.pod_key(self._cluster, namespace, name), suggests)

    def _pod(self, key: str, suggests: bool) -> Explanation:
        cluster = self._cluster
        if key in cluster.waiting:
            return self._pending(cluster.waiting[key], ExplainedKind.POD, suggests)
        return explain_placed(self._rehearsal, cluster.running.get(key) or cluster.reserved[key])

    def _pending(self, task: Task, kind: ExplainedKind, suggests: bool) -> Explanation:
        return PendingExplainer(self._rehearsal, task, kind, self._move_search).explain(suggests=suggests)

    def _job(self, key: str, suggests: bool) -> Explanation:
        cluster = self._cluster
        job = cluster.groups.jobs.get(key)
        if job is None:
            return self._pod(key, suggests)
        waiting = job.tasks_that(PodStatus.WAITING)
        if waiting:
            first = min(waiting, key=lambda task: task.key)
            return self._pending(first, ExplainedKind.JOB, suggests)
        members = members_of(job)
        counted = ", ".join(f"{count} {name}" for name, count in members.items()) or "it has no pods"
        nodes = sorted({cluster.holders[one] for one in job.tasks if one in cluster.holders})
        where = (
            f" on {', '.join(nodes[:4])}{f' and {len(nodes) - 4} more nodes' if len(nodes) > 4 else ''}"
            if nodes
            else ""
        )
        sentence = f"no pod of it waits: {counted}{where}; it starts with {job.minimum}"
        return Explanation(ExplainedKind.JOB, key, sentence, job=key, queue=job.queue, members=members)

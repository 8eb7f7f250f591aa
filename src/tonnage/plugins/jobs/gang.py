"""Gang: the pods of a group start together or not at all."""

from collections import Counter
from collections.abc import Sequence

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Gang(Plugin, trusted=True):
    """A group needs its minimum of pods, in total and per role; groups below their minimum go first.

    If the configuration names the plugin, as Volcano's configurations do, groups also keep their minimum during
    evictions, and nobody is evicted for pods beyond it. Where a later tier says who may go, as `proportion` does in
    Volcano's configurations, groups may be evicted whole. KAI has no such plugin: it may evict a whole group, and
    others for the next pod of a group that runs.
    """

    name = "gang"

    def on_session_open(self, session: Session) -> None:
        session.add_job_valid(self.why_invalid)
        session.add_job_ready(self.is_ready)
        session.add_job_pipelined(self.is_pipelined)
        session.add_job_order(self.order)
        self._session = session
        if self.options.is_named:
            session.add_job_starving(self.is_starving)
            session.add_preemptable(self.beyond_minimum, veto=True, later=self.beyond_minimum_or_whole)
            session.add_reclaimable(self.beyond_minimum, veto=True, later=self.beyond_minimum_or_whole)

    @staticmethod
    def why_invalid(job: Job) -> Reason | None:
        """Why a job has too few pods to ever start."""
        if job.group is None:
            return None
        if job.group.fault:
            return Reason("InvalidGroup", f"{job.key}: {job.group.fault}")
        pods = job.staying()
        if pods < job.minimum:
            return Reason("NotEnoughPods", f"{job.key} needs {job.minimum} pods to start, and there are {pods}")
        for role, minimum in job.roles.items():
            pods = job.staying(role)
            if pods < minimum:
                message = f"{job.key} needs {minimum} pods of role {role} to start, and there are {pods}"
                return Reason("NotEnoughPodsOfRole", message)
        if job.subgroups is not None:
            for path, missing in job.tree.shortfalls(job.staying).items():
                inside = "pods" if job.tree.children(path) is None else "subgroups with enough pods"
                where = f"subgroup {'/'.join(path)}" if path else "the group"
                return Reason("NotEnoughPodsOfSubGroup", f"{where} of {job.key} lacks {missing} {inside} to start")
        return None

    @staticmethod
    def is_ready(job: Job) -> bool | None:
        """Whether enough pods have a node now."""
        if job.group is None:
            return None
        if job.started() < job.minimum:
            return False
        if job.subgroups is not None and job.tree.shortfalls(job.started):
            return False
        return not job.roles or all(job.started(role) >= least for role, least in job.roles.items())

    @staticmethod
    def is_pipelined(job: Job) -> bool | None:
        """Whether enough pods have a node, now or once the victims have left."""
        return None if job.group is None else not job.lacking()

    @staticmethod
    def is_starving(job: Job) -> bool | None:
        """Whether the job lacks pods to start; the ones beyond its minimum take what is free."""
        return bool(job.lacking()) if job.group is not None and (job.minimum or job.roles or job.subgroups) else None

    @staticmethod
    def order(one: Job, other: Job) -> int:
        if one.group is None and other.group is None:
            return 0
        return (one.started() >= one.minimum) - (other.started() >= other.minimum)

    def beyond_minimum(self, job: Job, victims: Sequence[Task]) -> list[Task]:
        """The victims, evicted in this order, without which their groups still have their minimum.

        A pod that only has a promise may lose it: nothing of its group runs in vain for that.
        """
        surplus = Surplus()
        return [task for task in victims if self._is_spare(task, surplus)]

    def beyond_minimum_or_whole(self, job: Job, victims: Sequence[Task]) -> list[Task]:
        """The same, and all pods of groups that lose every pod; Volcano asks the next tier if gang spares all."""
        lost = Counter([job.key for task in victims if not (job := self._session.job_of(task)).is_promised(task)])
        spare = {task.key for task in self.beyond_minimum(job, victims)}
        return [task for task in victims if task.key in spare or self._is_stopped(task, lost)]

    def _is_stopped(self, task: Task, lost: Counter[str]) -> bool:
        job = self._session.job_of(task)
        return lost[job.key] == job.count(PodStatus.RUNNING)

    def _is_spare(self, task: Task, surplus: Surplus) -> bool:
        job = self._session.job_of(task)
        return job.group is None or job.is_promised(task) or surplus.take(job, task)

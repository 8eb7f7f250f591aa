"""Minruntime: jobs that were started a short while ago keep what they need to run.

How long is said by queues and, where they do not say, by the arguments. It only spares pods that others would stop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.duration import DurationError, seconds
from tonnage.model.timestamp import known_timestamp

_STARTED = "Running"


class MinRuntime(Plugin):
    """KAI's minimum runtimes, towards jobs of the same queue and towards those of others.

    A job that is younger than its minimum loses no pod that it needs to have its minimum of pods, in all and of each
    role; pods beyond that it may lose.
    """

    name = "minruntime"

    class Arguments(PluginArguments, rename="camel"):
        """What counts where no queue says anything; `lca` or `queue` says at which queue one begins to look."""

        default_preempt_min_runtime: str = "0s"
        default_reclaim_min_runtime: str = "0s"
        reclaim_resolve_method: Literal["lca", "queue"] = "lca"

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        arguments = super().read_arguments(given, warn)
        assert isinstance(arguments, MinRuntime.Arguments)
        for name, text in (
            ("defaultPreemptMinRuntime", arguments.default_preempt_min_runtime),
            ("defaultReclaimMinRuntime", arguments.default_reclaim_min_runtime),
        ):
            try:
                seconds(text)
            except DurationError as error:
                raise ArgumentError(name, str(error)) from error
        return arguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        session.add_preemptable(self._preemptable, veto=True)
        session.add_reclaimable(self._reclaimable, veto=True)

    def _preemptable(self, job: Job, victims: Sequence[Task]) -> Sequence[Task] | None:
        return self._without_needed(victims, self._preempt_minimum)

    def _reclaimable(self, job: Job, victims: Sequence[Task]) -> Sequence[Task] | None:
        return self._without_needed(victims, lambda victim: self._reclaim_minimum(job, victim))

    def _without_needed(self, victims: Sequence[Task], minimum: Callable[[Job], float]) -> Sequence[Task] | None:
        """The victims without what young jobs need; nothing if nobody says what time it is."""
        now = self._session.cluster.now
        if now is None:
            return None
        is_young: dict[str, bool] = {}
        surplus = Surplus()
        allowed: list[Task] = []
        for task in victims:
            job = self._session.job_of(task)
            if job.key not in is_young:
                is_young[job.key] = _age(job, now) < minimum(job)
            if not is_young[job.key] or surplus.take(job, task):
                allowed.append(task)
        return allowed

    # -- how long

    def _preempt_minimum(self, victim: Job) -> float:
        path = self._session.cluster.groups.hierarchy().upwards(victim.queue)
        return self._first("preempt_min_runtime", path, self.args.default_preempt_min_runtime)

    def _reclaim_minimum(self, job: Job, victim: Job) -> float:
        """By the method `lca`, the queue at which the victim's branch parts from the job's is the first to be asked."""
        tree = self._session.cluster.groups.hierarchy()
        path = list(tree.upwards(victim.queue))
        if self.args.reclaim_resolve_method == "lca":
            above = set(tree.upwards(job.queue))
            apart = sum(name not in above for name in path)
            path = path[max(apart - 1, 0) :]
        return self._first("reclaim_min_runtime", path, self.args.default_reclaim_min_runtime)

    def _first(self, field: str, names: Iterable[str], default: str) -> float:
        """What the first of these queues says that says anything."""
        queues = self._session.cluster.queues
        for name in names:
            said: float | None = getattr(queues[name], field) if name in queues else None
            if said is not None:
                return said
        return seconds(default)


def _age(job: Job, now: float) -> float:
    """The seconds since a job was started; without end if that is not known."""
    if job.group is not None and job.group.times.started is not None:
        return now - job.group.times.started
    ages = [now - start for task in job.tasks_that(PodStatus.RUNNING) if (start := _start(task, now)) is not None]
    return min(ages, default=float("inf"))


def _start(task: Task, now: float) -> float | None:
    """When a pod was started; one that has a node and was not started yet begins now."""
    status = task.pod.status
    start = known_timestamp(status.startTime)
    if start is not None:
        return start
    return known_timestamp(task.created) if status.phase == _STARTED else now

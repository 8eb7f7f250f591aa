"""KAI's minruntime: jobs that started recently keep the pods that they need to run.

Queues set the minimum runtime, and the arguments are the default. The plugin only vetoes evictions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.duration import DurationError, seconds
from tonnage.model.timestamp import past, past_timestamp

_STARTED = "Running"


class MinRuntime(Plugin, trusted=True):
    """Minimum runtimes against preemption within a queue and against reclaim by other queues.

    A job younger than its minimum runtime loses no pod that it needs for its minimum of pods, in total and per role; it
    may lose pods beyond that.
    """

    name = "minruntime"

    class Arguments(PluginArguments, rename="camel"):
        """The defaults where no queue sets a runtime; `lca` or `queue` is the queue where the lookup starts."""

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
        """The victims without the pods that young jobs need; nothing if the time is unknown."""
        now = self._session.cluster.now
        if now is None:
            return None
        is_young: dict[str, bool] = {}
        surplus = Surplus()
        allowed: list[Task] = []
        for task in victims:
            job = self._session.job_of(task)
            if job.key not in is_young:
                is_young[job.key] = self._is_young(job, minimum(job), now)
            if not is_young[job.key] or surplus.take(job, task):
                allowed.append(task)
        return allowed

    def _is_young(self, job: Job, minimum: float, now: float) -> bool:
        left = minimum - _age(job, now)
        if left > 0:
            self._session.changes_at(now + left)
        return left > 0

    # -- how long

    def _preempt_minimum(self, victim: Job) -> float:
        path = self._session.cluster.groups.hierarchy().upwards(victim.queue)
        return self._first("preempt_min_runtime", path, self.args.default_preempt_min_runtime)

    def _reclaim_minimum(self, job: Job, victim: Job) -> float:
        """The minimum runtime of a victim; with `lca` the lookup starts where its branch parts from the job's."""
        tree = self._session.cluster.groups.hierarchy()
        path = list(tree.upwards(victim.queue))
        if self.args.reclaim_resolve_method == "lca":
            above = set(tree.upwards(job.queue))
            apart = sum(name not in above for name in path)
            path = path[max(apart - 1, 0) :]
        return self._first("reclaim_min_runtime", path, self.args.default_reclaim_min_runtime)

    def _first(self, field: str, names: Iterable[str], default: str) -> float:
        """The value of the first of these queues that sets one."""
        queues = self._session.cluster.queues
        for name in names:
            said: float | None = getattr(queues[name], field) if name in queues else None
            if said is not None:
                return said
        return seconds(default)


def _age(job: Job, now: float) -> float:
    """Seconds since a job started; infinite if that is unknown."""
    return now - min(_starts(job, now), default=float("-inf"))


def _starts(job: Job, now: float) -> Iterator[float]:
    """When a job started, by its group's annotation and by its pods; the earlier counts.

    Users can write the annotation, so it cannot make a job younger than the last pod of its minimum is.
    """
    said = past(job.group.times.started, now) if job.group is not None else None
    if said is not None:
        yield said
    pods = sorted([when for task in job.tasks_that(PodStatus.RUNNING) if (when := _start(task, now)) is not None])
    if pods:
        yield pods[max(min(job.minimum, len(pods)) - 1, 0)]


def _start(task: Task, now: float) -> float | None:
    """When a pod started; one that has a node and has not started yet starts now. A time in the future is none."""
    status = task.pod.status
    start = past_timestamp(status.startTime, now)
    if start is not None:
        return start
    is_started = status.phase == _STARTED or status.startTime is not None
    return past_timestamp(task.created, now) if is_started else now

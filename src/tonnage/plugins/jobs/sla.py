"""Volcano's sla: jobs that may wait for so long only are ordered by when that time ends, and then admitted."""

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.cluster.jobs.job import Job
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.duration import DurationError, seconds
from tonnage.model.timestamp import known_timestamp


class Sla(Plugin, trusted=True):
    """Orders the jobs of a queue by the time at which they have waited long enough; those without a limit come last.

    A job that has waited for longer is admitted whatever the plugins of later tiers say, and keeps the places that it
    finds although it cannot start with them, unless a plugin of its tier or an earlier one, such as `gang`, objects.
    """

    name = "sla"

    class Arguments(PluginArguments, rename="kebab"):
        """How long jobs may wait whose group says nothing; nothing for no limit."""

        sla_waiting_time: str = ""

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        arguments = super().read_arguments(given, warn)
        assert isinstance(arguments, Sla.Arguments)
        try:
            if arguments.sla_waiting_time and not seconds(arguments.sla_waiting_time):
                warn("sla-waiting-time", "0 is no limit; jobs may wait for ever unless their group says otherwise")
        except DurationError as error:
            raise ArgumentError("sla-waiting-time", str(error)) from error
        return arguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._limit = seconds(self.args.sla_waiting_time or "0") or None
        self._ends: dict[tuple[str, str, float], float | None] = {}
        session.add_job_order(self._order)
        session.add_job_enqueueable(self._is_due)
        session.add_job_pipelined(self._is_due)

    def _order(self, one: Job, other: Job) -> int:
        mine, others = self._end(one), self._end(other)
        if mine is None or others is None:
            return (mine is None) - (others is None)
        return (mine > others) - (mine < others)

    def _is_due(self, job: Job) -> bool | None:
        """Yes once a job has waited long enough, else no opinion."""
        now, end = self._session.cluster.now, self._end(job)
        if now is None or end is None:
            return None
        if now < end:
            self._session.changes_at(end)
            return None
        return True

    def _end(self, job: Job) -> float | None:
        """When a job has waited long enough; nothing if it has no limit, or no one knows its age."""
        said = None if job.group is None else job.group.times.waiting_time
        limit = self._limit if said is None else said
        if limit is None:
            return None
        name = job.key, job.created, limit
        if name not in self._ends:
            created = known_timestamp(job.created)
            self._ends[name] = None if created is None else created + limit
        return self._ends[name]

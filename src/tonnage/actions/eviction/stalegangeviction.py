"""Action `stalegangeviction`: evicts the rest of gangs that have lost pods, so that they can start as a whole again."""

from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.framework.action import Action
from tonnage.framework.decision import StaleGang
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.model.duration import format_seconds
from tonnage.model.timestamp import past, rfc3339

GRACE_SECONDS = 60.0
"""How long a group may run below its minimum if it does not say."""


class StaleGangEviction(Action):
    """Evicts the pods of PodGroups that have run with fewer than their minimum for longer than their grace period.

    The group itself says since when it does, and whoever runs the cycle writes that there: the first cycle that finds a
    stale group evicts nothing and records it in `session.stale`, as does one that finds a time in the future. Without a
    time the action does nothing.
    """

    name = "stalegangeviction"

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace

    def run(self, session: Session) -> None:
        now = session.cluster.now
        if now is None:
            return
        jobs = session.cluster.groups.jobs
        for key in sorted(jobs):
            session.at_work = jobs[key]
            if key not in session.set_aside and _is_stale(session, jobs[key]):
                self._look_at(session, jobs[key], now)

    def _look_at(self, session: Session, job: Job, now: float) -> None:
        """Record a stale job, and evict its pods if it has been stale for longer than its grace period."""
        assert job.group is not None
        times = job.group.times
        grace = self._grace if times.grace is None else times.grace
        message = _message(job)
        said = past(times.stale_since, now)
        since = now if said is None else said
        session.stale.append(StaleGang(job.key, rfc3339(since), grace if grace >= 0 else None, message))
        if said is None or grace < 0 or now - since < grace:
            return
        reason = f"StaleGang: {message} for {format_seconds(now - since)}, and may for {format_seconds(grace)}"
        victims = [task for task in job.tasks_that(PodStatus.RUNNING) if session.may_stop(task)]
        with Statement(session) as statement:
            for task in sorted(victims, key=lambda task: task.key):
                statement.evict(task, job.key, reason)
            statement.commit()


def _is_stale(session: Session, job: Job) -> bool:
    """Whether a job runs with fewer pods than its minimum, none of them has succeeded, and some are placed here.

    A group that is no object cannot say since when, and the minimum of a faulty group is uncertain.
    """
    group, is_ours = job.group, session.cluster.is_ours
    if group is None or not group.is_object or group.fault or job.count(PodStatus.SUCCEEDED) or not job.lacking():
        return False
    return any(is_ours(task.pod) for task in job.tasks_that(PodStatus.RUNNING))


def _message(job: Job) -> str:
    lacking = job.lacking()
    text = f"{job.key} runs with {job.with_place()} of {job.minimum} pods"
    for role in sorted(role for role in lacking if isinstance(role, str)):
        text += f", {job.with_place(role)} of {job.roles[role]} of role {role}"
    text += "".join(f", subgroup {'/'.join(path)} incomplete" for path in lacking if isinstance(path, tuple))
    return text

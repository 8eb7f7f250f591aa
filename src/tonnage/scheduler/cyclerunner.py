"""CycleRunner: one cycle on the live cluster, with the nominations of earlier cycles and the ones that it makes."""

import logging
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from tonnage.actions.admission import why_held_back
from tonnage.actions.allocate import Allocate
from tonnage.actions.backfill import Backfill
from tonnage.actions.enqueue import Enqueue
from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.stalegangeviction import StaleGangEviction
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.savepoint import Savepoint
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision, DecisionOutcome, QueueFigures, Reason, StaleGang
from tonnage.framework.plugin import Plugin
from tonnage.framework.reasons import NOT_FINISHED
from tonnage.framework.session import Session
from tonnage.framework.sessioncache import SessionCache
from tonnage.model.duration import format_seconds
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.setaside import SetAside
from tonnage.scheduler.stopwatch import Stopwatch

log = logging.getLogger(__name__)

MOST_RUNS = 20
"""How often a cycle is run again at once; what is left then is for the next one."""
MOST_NAMESPACES = 3
"""An action that evicts and fails for jobs of so many namespaces in one cycle is left out instead of the jobs."""
BETWEEN_ACTIONS = "cycle"
"""Names what a cycle does before, between and after its actions."""


class CycleOutcome(NamedTuple):
    """What one cycle decided."""

    placed: list[Decision]
    """Pods whose places are reserved, to be bound."""
    waiting: list[Decision]
    """Pods without a place, reserved or nominated."""
    plans: list[EvictionPlan]
    """New eviction plans."""
    stale: Sequence[StaleGang] | None
    """Gangs that have lost pods; None if no action looks for them."""
    waits: Mapping[str, Mapping[str, Reason]]
    """Why an action evicted no pods for a job, by job and action."""
    enqueued: Sequence[str]
    """Groups that were admitted (Volcano's phase Inqueue)."""
    refused: Mapping[str, Reason]
    """Why groups without pods were not admitted."""
    next_change: float | None = None
    """The earliest time at which a refusal ends although nothing happens, if there is one."""

    def unfinished(self) -> list[str]:
        """Jobs without room for which an action still searches: the next cycle must look at them again."""
        jobs = dict.fromkeys([decision.job.key for decision in self.waiting])
        return [job for job in jobs if any(why.name == NOT_FINISHED for why in self.waits.get(job, {}).values())]


class JobFailure(NamedTuple):
    """A job that was set aside, because a cycle failed at it."""

    job: Job
    action: str
    error: str
    """The kind of error; its text may speak of other tenants' objects and is for the log only."""

    @property
    def message(self) -> str:
        """What the owner of the job is told."""
        where = f"{self.error} in {self.action}"
        return (
            f"the scheduler failed at {self.job.key} ({where}); it is set aside, "
            "and tried again after a while and whenever it changes"
        )


class CycleFailedError(Exception):
    """A cycle failed, whatever it left out."""


class _Failure(NamedTuple):
    """Where a cycle failed."""

    error: Exception
    action: str
    job: Job | None


class Either:
    """The names in one collection or the other."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: Container[str], other: Container[str]) -> None:
        self._one, self._other = one, other

    def __contains__(self, name: object) -> bool:
        return name in self._one or name in self._other


class CycleRunner:
    """Runs cycles over one cluster."""

    def __init__(
        self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[Action], watch: Stopwatch | None = None
    ) -> None:
        self.failures: Counter[str] = Counter()
        """Failures of each plugin."""
        self._cluster = cluster
        self._watch = watch
        self._sessions = SessionCache(cluster, plugins, brief=True, observer=watch)
        self._actions = actions
        self.nominations = Nominations(cluster)
        self.placed: dict[str, Decision] = {}
        """Decisions about pods whose place is reserved, by pod; the next cycle drops the ones that are over."""
        self._last: Session | None = None
        self.set_aside = SetAside(cluster)
        self._failed_cycles: Counter[str] = Counter()
        """How often a cycle failed, by action."""
        self._failed: list[JobFailure] = []
        self._cut_queues: Container[str] = frozenset()
        self._enqueued: list[str] = []
        """Groups that were admitted and that no outcome names yet."""

    def run(self, passed_over: Container[str], now: float, cut_queues: Container[str] = frozenset()) -> CycleOutcome:
        """Decide about all pending pods but the ones to skip; what makes a cycle fail is set aside, and it runs again.

        CycleFailedError if the cycle fails whatever is left out; nothing is reserved or evicted then.
        """
        self._cluster.now = now
        self._cut_queues = cut_queues
        self.set_aside.bring_back(now)
        blamed: dict[str, list[Job]] = {}
        for _ in range(MOST_RUNS):
            result = self._run_once(passed_over, now)
            if isinstance(result, CycleOutcome):
                return self._completed(result)
            self._contain(result, blamed, passed_over, now)
        raise CycleFailedError(f"the cycle failed {MOST_RUNS} times at different jobs")

    def _run_once(self, passed_over: Container[str], now: float, *, keep: bool = True) -> "CycleOutcome | _Failure":
        """One run over all but what is set aside; unless it succeeds and is to be kept, all that it did is undone."""
        savepoint, roll_back = Savepoint(self._cluster), self.nominations.saved()
        session: Session | None = None
        result: CycleOutcome | _Failure
        try:
            self.nominations.mark(now)
            session = self._sessions.open()
            session.passed_over = Either(passed_over, self.set_aside) if self.set_aside else passed_over
            session.set_aside = self.set_aside.jobs
            session.cut_queues = self._cut_queues
            session.must_stay = self.nominations.must_stay
            truces = self.nominations.truces
            session.spared_by = truces.spared_by
            if truces:
                truces.begin(session.waiting_jobs(), now)
            result = self._decide(session)
        except Exception as error:
            result = _Failure(error, session.acting if session else "", session.at_work if session else None)
        if isinstance(result, _Failure) or not keep:
            roll_back()
            savepoint.roll_back()
        if session is not None:
            self.failures.update(session.failures)
            session.failures.clear()
            if isinstance(result, _Failure) or not keep:
                self._sessions.discard(session)
            else:
                self._sessions.done(session)
                self._last = session
        return result

    def _decide(self, session: Session) -> CycleOutcome:
        actions = [action for action in self._actions if action.name not in self.set_aside.actions]
        self.nominations.renew(session, actions)
        run_cycle(session, self._timed(actions))
        plans = self.nominations.keep(session)
        decisions = session.decisions.values()
        placed = [decision for decision in decisions if decision.outcome == DecisionOutcome.PLACED]
        waiting = [
            decision
            for decision in decisions
            if decision.outcome != DecisionOutcome.PLACED and decision.task.key not in self._cluster.pipelined
        ]
        stale = list(session.stale) if any(one.name == StaleGangEviction.name for one in actions) else None
        waits = {job: dict(reasons) for job, reasons in session.waits.items()}
        refused = self._enqueue(session)
        return CycleOutcome(placed, waiting, plans, stale, waits, (), refused, session.next_change)

    def _completed(self, outcome: CycleOutcome) -> CycleOutcome:
        self.set_aside.completed()
        self.placed = {key: made for key, made in self.placed.items() if key in self._cluster.reserved}
        self.placed |= {decision.task.key: decision for decision in outcome.placed}
        enqueued, self._enqueued = self._enqueued, []
        return outcome._replace(enqueued=enqueued)

    # -- failures

    def failed_cycles(self) -> dict[str, int]:
        """How often a cycle failed, by action."""
        names = (BETWEEN_ACTIONS, *(action.name for action in self._actions))
        return dict.fromkeys(names, 0) | self._failed_cycles

    def take_failed(self) -> list[JobFailure]:
        """The jobs that were set aside since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def _contain(
        self, failure: "_Failure", blamed: dict[str, list[Job]], passed_over: Container[str], now: float
    ) -> None:
        """Set aside what made a cycle fail: the job that it looked at, else the action; CycleFailedError if neither."""
        action, error = failure.action, failure.error
        self._failed_cycles[action or BETWEEN_ACTIONS] += 1
        job = failure.job
        if job is None or job.key in self.set_aside.jobs:
            # What fails at a job that is left out fails because of something else.
            job = self._find_job(passed_over, now)
        if job is not None:
            blamed.setdefault(action, []).append(job)
        if job is not None and not self._is_common(action, blamed[action]):
            seconds = self.set_aside.add(job, now)
            for plan in [plan for plan in self.nominations.plans if plan.concerns(job.key)]:
                self.give_up(plan, (), now)
            what = type(error).__name__
            self._failed.append(JobFailure(job, action or BETWEEN_ACTIONS, what))
            log.error("a cycle failed at %s; it is set aside for %s", job.key, format_seconds(seconds), exc_info=error)
        elif action and action not in (Allocate.name, Backfill.name):
            # Without those two nothing would be placed, and the process would only look alive.
            keys = [one.key for one in blamed.pop(action, ())]
            seconds = self.set_aside.add_action(action, keys, now)
            self._failed = [one for one in self._failed if one.job.key not in keys]
            log.error("action %s failed; cycles leave it out for %s", action, format_seconds(seconds), exc_info=error)
        elif self.nominations.nominated():
            log.error("nominations could not be renewed; all of them end", exc_info=error)
            for plan in self.nominations.plans:
                self.give_up(plan, (), now)
        else:
            raise CycleFailedError(f"{type(error).__name__}: {error}") from error

    def _is_common(self, action: str, jobs: Sequence[Job]) -> bool:
        """Whether an eviction action fails for jobs of so many namespaces that one of its victims must be at fault."""
        evicts = any(one.name == action and isinstance(one, EvictionAction) for one in self._actions)
        return evicts and len({job.namespace for job in jobs}) >= MOST_NAMESPACES

    def _find_job(self, passed_over: Container[str], now: float) -> Job | None:
        """The pending job without which a cycle does not fail, by bisection; None if it fails without any."""
        skipped = Either(passed_over, self.set_aside)
        jobs: dict[str, Job] = {}
        for key, task in self._cluster.waiting.items():
            if key not in skipped:
                try:
                    job = self._cluster.groups.job_of(task)
                except Exception:
                    log.exception("the job of %s cannot be told", key)
                    job = Job(key, {key: task})
                jobs.setdefault(job.key, job)
        suspects = list(jobs.values())
        if not suspects or self._fails_with((), now):
            return None
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            suspects = half if self._fails_with(half, now) else suspects[len(half) :]
        return suspects[0]

    def _fails_with(self, jobs: Sequence[Job], now: float) -> bool:
        """Whether a cycle fails that decides about these jobs only."""
        chosen = {key for job in jobs for key in job.tasks}
        return isinstance(self._run_once(self._cluster.waiting.keys() - chosen, now, keep=False), _Failure)

    def _enqueue(self, session: Session) -> dict[str, Reason]:
        """Admit groups: the ones that the enqueue action admitted, and the ones that need no admission.

        The result says why groups without pods were not admitted; pods say that themselves.
        """
        is_asked = any(one.name == Enqueue.name for one in self._actions)
        enqueued, refused = list(session.enqueued), dict[str, Reason]()
        for job in self._cluster.groups.new_jobs(self._cluster.is_ours):
            session.at_work = job
            must_be_asked = is_asked and job.group is not None and job.group.min_resources
            why = why_held_back(session, job)
            if why is not None and not job.tasks:
                refused[job.key] = why
            if why is None and not must_be_asked and job.key not in session.set_aside:
                enqueued.append(job)
        for job in enqueued:
            session.at_work = job
            self._cluster.groups.let_in(job.key)
            self._enqueued.append(job.key)
        session.at_work = None
        return refused

    def _timed(self, actions: Sequence[Action]) -> Sequence[Action]:
        return actions if self._watch is None else [self._watch.action(action) for action in actions]

    @property
    def plugins(self) -> Sequence[Plugin]:
        """The plugins of the configuration in force."""
        return self._sessions.plugins

    @property
    def actions(self) -> list[str]:
        """The names of the actions in force."""
        return [action.name for action in self._actions]

    def queue_figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        """Where queues stood at the end of the last cycle."""
        return {} if self._last is None else self._last.queues.figures()

    def configure(self, plugins: Sequence[Plugin], actions: Sequence[Action], now: float) -> None:
        """Use these from the next cycle on; SessionError if they cannot be opened, and the old ones stay."""
        self._cluster.now = now
        sessions = SessionCache(self._cluster, plugins, brief=True, observer=self._watch)
        sessions.done(sessions.open())
        self._sessions.close()
        self._sessions, self._actions = sessions, actions

    def release(self, key: str) -> None:
        """Release a reserved place."""
        self._sessions.unplace(key)

    def give_up(self, plan: EvictionPlan, refused: Sequence[Victim], now: float) -> list[Task]:
        """End a plan; the pods that have lost their nominations."""
        tasks = self.nominations.give_up(plan, refused, now)
        for task in tasks:
            self.release(task.key)
        return tasks

    def cease(self, now: float) -> None:
        """End all plans: the next leader finds their state in the pods."""
        for plan in self.nominations.plans:
            self.give_up(plan, (), now)
        self.nominations.take_lost()

    def close(self) -> None:
        """Close the plugins' sessions."""
        self._sessions.close()

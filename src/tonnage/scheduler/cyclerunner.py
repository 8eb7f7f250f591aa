"""CycleRunner: one cycle on the live cluster, with the nominations of earlier cycles and the ones that it makes."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from tonnage.actions.admission import why_held_back
from tonnage.actions.enqueue import Enqueue
from tonnage.actions.eviction.stalegangeviction import StaleGangEviction
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision, DecisionOutcome, QueueFigures, Reason, StaleGang
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.sessioncache import SessionCache
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.stopwatch import Stopwatch


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

    def run(self, passed_over: Container[str], now: float) -> CycleOutcome:
        """Decide about all pending pods but the ones to skip."""
        self._cluster.now = now
        self.nominations.mark(now)
        session = self._sessions.open()
        try:
            session.passed_over = passed_over
            session.must_stay = self.nominations.must_stay
            self.nominations.renew(session, self._actions)
            run_cycle(session, self._timed())
            plans = self.nominations.keep(session)
            decisions = session.decisions.values()
            placed = [decision for decision in decisions if decision.outcome == DecisionOutcome.PLACED]
            waiting = [
                decision
                for decision in decisions
                if decision.outcome != DecisionOutcome.PLACED and decision.task.key not in self._cluster.pipelined
            ]
            self.placed = {key: made for key, made in self.placed.items() if key in self._cluster.reserved}
            self.placed |= {decision.task.key: decision for decision in placed}
            stale = list(session.stale) if self._looks_for(StaleGangEviction.name) else None
            waits = {job: dict(reasons) for job, reasons in session.waits.items()}
            return CycleOutcome(placed, waiting, plans, stale, waits, self._enqueue(session))
        finally:
            self._sessions.done(session)
            self._last = session
            self.failures.update(session.failures)
            session.failures.clear()

    def _enqueue(self, session: Session) -> list[str]:
        """Admit groups: the ones that the enqueue action admitted, and the ones that need no admission."""
        is_asked = self._looks_for(Enqueue.name)
        enqueued = [job.key for job in session.enqueued]
        for job in self._cluster.groups.new_jobs():
            must_be_asked = is_asked and job.group is not None and job.group.min_resources
            if not must_be_asked and why_held_back(session, job) is None:
                enqueued.append(job.key)
        for key in enqueued:
            self._cluster.groups.let_in(key)
        return enqueued

    def _looks_for(self, action: str) -> bool:
        return any(one.name == action for one in self._actions)

    def _timed(self) -> Sequence[Action]:
        return self._actions if self._watch is None else [self._watch.action(action) for action in self._actions]

    @property
    def plugins(self) -> Sequence[Plugin]:
        """The plugins of the configuration in force."""
        return self._sessions.plugins

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

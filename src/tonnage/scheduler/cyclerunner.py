"""A cycle on the live picture: what it decided, with the promises of earlier cycles and those that it makes."""

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
    """What came of one cycle."""

    placed: list[Decision]
    """Pods whose places are reserved, to be bound."""
    waiting: list[Decision]
    """Pods for which no place is kept."""
    plans: list[EvictionPlan]
    """Who has to go for whom, as far as this cycle decided it."""
    stale: Sequence[StaleGang] | None
    """Gangs that have lost pods; nothing if no action looks for them."""
    waits: Mapping[str, Mapping[str, Reason]]
    """Why no room was made for jobs, by action."""
    let_in: Sequence[str]
    """Groups that may be looked at from now on."""


class CycleRunner:
    """Runs cycles over one cluster."""

    def __init__(
        self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[Action], watch: Stopwatch | None = None
    ) -> None:
        self.failures: Counter[str] = Counter()
        """How often each plugin failed to answer."""
        self._cluster = cluster
        self._watch = watch
        self._sessions = SessionCache(cluster, plugins, brief=True, watch=watch)
        self._actions = actions
        self.nominations = Nominations(cluster)
        self.placed: dict[str, Decision] = {}
        """Decisions about pods whose place is reserved, by pod; what is over is forgotten by the next cycle."""
        self._last: Session | None = None

    def run(self, passed_over: Container[str], now: float) -> CycleOutcome:
        """Decide about all waiting pods but those that are passed over."""
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
                if decision.outcome != DecisionOutcome.PLACED and decision.task.key not in self._cluster.promised
            ]
            self.placed = {key: made for key, made in self.placed.items() if key in self._cluster.reserved}
            self.placed |= {decision.task.key: decision for decision in placed}
            stale = list(session.stale) if self._looks_for(StaleGangEviction.name) else None
            waits = {job: dict(reasons) for job, reasons in session.waits.items()}
            return CycleOutcome(placed, waiting, plans, stale, waits, self._let_in(session))
        finally:
            self._sessions.done(session)
            self._last = session
            self.failures.update(session.failures)
            session.failures.clear()

    def _let_in(self, session: Session) -> list[str]:
        """Remember which groups are let in: those that were asked about and may, and those that need not be asked."""
        is_asked = self._looks_for(Enqueue.name)
        let_in = [job.key for job in session.enqueued]
        for job in self._cluster.groups.new_jobs():
            must_be_asked = is_asked and job.group is not None and job.group.min_resources
            if not must_be_asked and why_held_back(session, job) is None:
                let_in.append(job.key)
        for key in let_in:
            self._cluster.groups.let_in(key)
        return let_in

    def _looks_for(self, action: str) -> bool:
        return any(one.name == action for one in self._actions)

    def _timed(self) -> Sequence[Action]:
        return self._actions if self._watch is None else [self._watch.action(action) for action in self._actions]

    @property
    def plugins(self) -> Sequence[Plugin]:
        """By which it decides."""
        return self._sessions.plugins

    def queue_figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        """Where queues stood at the end of the last cycle."""
        return {} if self._last is None else self._last.queue_figures()

    def configure(self, plugins: Sequence[Plugin], actions: Sequence[Action], now: float) -> None:
        """Decide by these from the next cycle on; SessionError if they cannot be opened, and all stays as it is."""
        self._cluster.now = now
        sessions = SessionCache(self._cluster, plugins, brief=True, watch=self._watch)
        sessions.done(sessions.open())
        self._sessions.close()
        self._sessions, self._actions = sessions, actions

    def release(self, key: str) -> None:
        """Give up a reserved place."""
        self._sessions.unplace(key)

    def give_up(self, plan: EvictionPlan, refused: Sequence[Victim], now: float) -> list[Task]:
        """End a plan; the pods that have lost their promised places."""
        tasks = self.nominations.give_up(plan, refused, now)
        for task in tasks:
            self.release(task.key)
        return tasks

    def cease(self, now: float) -> None:
        """End all plans: whoever decides next finds out from the pods how far they have come."""
        for plan in self.nominations.plans:
            self.give_up(plan, (), now)
        self.nominations.take_lost()

    def close(self) -> None:
        """Let plugins tidy up."""
        self._sessions.close()

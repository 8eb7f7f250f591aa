"""Places that others have to leave first, kept from cycle to cycle for the pods that they were promised to.

A promised place is reserved like any other, so that nobody slips into the room that is made. At the start of a cycle
every promise is looked at again: its pods are bound if they fit now, there or elsewhere; victims that have not been
written to are spared if the pods fit without; and if the pods do not fit any more the promise ends, and the cycle
decides about them anew. A more important job of the same queue that has come since takes a promised place over instead
of having more pods stopped. Pods that name the node which was made free for them before a restart get it promised
again.
"""

from collections.abc import Iterable, Mapping, Sequence

from tonnage.actions.eviction.evictionaction import NEVER, EvictionAction, starting
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.cycle import acting
from tonnage.framework.decision import Decision, DecisionOutcome
from tonnage.framework.session import Session
from tonnage.framework.statement import successor
from tonnage.scheduler.evictions.fitting import find
from tonnage.scheduler.evictions.plans import LEAVES, SPARED, STAYS, EvictionPlan, Victim

STAY_SECONDS = 60.0
"""How long a pod that could not be evicted is not asked again."""

MOST_RIVALS = 8
"""How many more important jobs are tried in a promised place."""


class Nominations:
    """The plans of one cluster that have not come to their end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = 0
        self.plans: list[EvictionPlan] = []
        self.must_stay: dict[str, float] = {}
        """Pods that could not be evicted, and until when nobody tries again, in seconds since 1970."""
        self._lost: list[Task] = []
        """Pods that have lost their promise since somebody asked."""

    def promised(self) -> list[tuple[EvictionPlan, Decision]]:
        """Every promised place with its plan."""
        return [(plan, decision) for plan in self.plans for decision in plan.decisions.values()]

    def stands(self, plan: EvictionPlan) -> bool:
        """Whether all pods of a plan still wait for it; if not, the next cycle looks at it again."""
        return not plan.is_over and all(self._waits(decision) is not None for decision in plan.decisions.values())

    def is_there(self, victim: Victim) -> bool:
        """Whether a victim still runs and nobody else has stopped it."""
        running = self._running(victim)
        return running is not None and not running.pod.is_leaving

    def in_vain(self) -> list[EvictionPlan]:
        """Plans whose pods wait for somebody who does not go any more: they must be looked at again."""
        return [plan for plan in self.plans if self._is_vain(plan)]

    def _is_vain(self, plan: EvictionPlan) -> bool:
        cluster = self._cluster
        return any(
            key in cluster.running and key not in cluster.leaving
            for decision in plan.decisions.values()
            for key in decision.waits_for
        )

    def _running(self, victim: Victim) -> Task | None:
        running = self._cluster.running.get(victim.key)
        return running if running is not None and running.uid == victim.task.uid else None

    def _waits(self, decision: Decision) -> Task | None:
        """The pod as it is now, if it still has its promise."""
        key = decision.task.key
        task = self._cluster.reserved.get(key) if key in self._cluster.promised else None
        return task if task is not None and task.uid == decision.task.uid else None

    # -- before a cycle

    def mark(self, now: float) -> None:
        """Victims are on their way out, also those of which the API server has not said so yet."""
        self.must_stay = {key: until for key, until in self.must_stay.items() if until > now}
        for plan in self.plans:
            for victim in plan.victims:
                if victim.state == STAYS and not self.is_there(victim):
                    victim.state = LEAVES
                if victim.state != SPARED and self._running(victim) is not None:
                    self._cluster.evict(victim.key)
        self.plans = [plan for plan in self.plans if not self._is_done(plan)]

    def _is_done(self, plan: EvictionPlan) -> bool:
        """Whether nobody waits for it, and the watch has shown all who go on their way."""
        return not plan.decisions and not any(v.state != SPARED and self.is_there(v) for v in plan.victims)

    # -- at its start

    def renew(self, session: Session, actions: Sequence[Action]) -> None:
        """Look at all promises again, those of the most important jobs first."""
        plans = sorted([plan for plan in self.plans if plan.decisions], key=lambda plan: (-plan.priority, plan.number))
        named = [
            task
            for key, task in self._cluster.waiting.items()
            if task.pod.status.nominatedNodeName and key not in session.passed_over
        ]
        # Whoever gets no place in this cycle must not go on naming one: it would come before all others for ever.
        self._lost += named
        nominated = [task for task in named if task.pod.status.nominatedNodeName in self._cluster.nodes]
        if not plans and not nominated:
            return
        waiting = sorted(session.waiting_jobs(), key=_order) if plans else []
        for plan in plans:
            self._renew(session, plan, waiting)
        # Who stays because one plan ended may be who another one, looked at before, has counted on.
        for plan in plans:
            if self._is_vain(plan):
                self._renew(session, plan, ())
        jobs = sorted({session.job_of(task).key: session.job_of(task) for task in nominated}.values(), key=_order)
        # All who need nothing more come first, so that nobody takes the room that was made for another one.
        for job in [job for job in jobs if not self._give_back(session, job)]:
            self._make_room(session, job, actions)

    def _renew(self, session: Session, plan: EvictionPlan, newcomers: Sequence[Job]) -> None:
        """Find the places of a plan again, for a more important job that has come since or for its own."""
        decisions = list(plan.decisions.values())
        tasks = [task for task in map(self._waits, decisions) if task is not None]
        if not tasks:
            plan.decisions = {}
            self._end(session, plan)
            return
        job = session.job_of(tasks[0])
        first = _first(session, job, [one for one in newcomers if one.key not in plan.known])
        is_same = plan.seen == self._looks(plan, tasks) and not self._is_vain(plan)
        if not first and is_same and session.decide(tasks[0]).node is None:
            return
        places = {decision.task.key: decision.node or "" for decision in decisions}
        for task in tasks:
            session.unplace(task.key)
        for rival, fitting in first:
            found = find(session, rival, fitting, {})
            if found is not None:
                self._lost += tasks
                job, tasks, places = rival, fitting, {decision.task.key: decision.node or "" for decision in found}
                for task in tasks:
                    session.unplace(task.key)
                break
        found = self._find_with_fewer(session, plan, job, tasks, places)
        if found is None:
            plan.decisions = {}
            self._lost += tasks
            self._end(session, plan)
        else:
            self._take_over(session, plan, found)

    def _find_with_fewer(
        self, session: Session, plan: EvictionPlan, job: Job, tasks: Sequence[Task], places: Mapping[str, str]
    ) -> list[Decision] | None:
        """Places for the pods of a plan, with as many victims spared as can be."""
        jobs = [] if plan.is_over else plan.spareable()
        _stay(session, [victim for victims in jobs for victim in victims])
        found = find(session, job, tasks, places)
        if found is not None or not jobs:
            _spare(jobs)
            return found
        # Where others have yet to go for it, the places stay as they are: else not all of those would have to.
        _leave(session, [victim for victims in jobs for victim in victims])
        found = find(session, job, tasks, places, anywhere=False)
        for victims in reversed(jobs if found is not None and len(jobs) > 1 else []):
            for task in tasks:
                session.unplace(task.key)
            _stay(session, victims)
            without = find(session, job, tasks, places)
            if without is not None:
                found, places = without, {decision.task.key: decision.node or "" for decision in without}
                _spare([victims])
                continue
            _leave(session, victims)
            found = find(session, job, tasks, places, anywhere=False)
        return found

    def _give_back(self, session: Session, job: Job) -> bool:
        """Pods that name their node get what was promised before a restart, if they fit there."""
        tasks = starting(session, job)
        places = {task.key: task.pod.status.nominatedNodeName or "" for task in tasks}
        found = find(session, job, tasks, places, anywhere=False) if tasks else None
        if found is not None:
            self._take_over(session, self._add([], found, _waiting(session)), found)
        return found is not None or not tasks

    def _make_room(self, session: Session, job: Job, actions: Sequence[Action]) -> None:
        """Others were being stopped for a job: the rest of them go before anybody else takes what they left."""
        for action in [action for action in actions if isinstance(action, EvictionAction)]:
            with acting(session, action):
                action.serve(session, [job])
            if not job.tasks_that(PodStatus.WAITING):
                return

    def _take_over(self, session: Session, plan: EvictionPlan, found: Sequence[Decision]) -> None:
        """These are the places of a plan now; what can be bound is no promise any more."""
        for decision in found:
            session.decisions[decision.task.key] = decision
            plan.nominated.setdefault(decision.task.key, decision.task.pod.status.nominatedNodeName or "")
        plan.decisions = {d.task.key: d for d in found if d.outcome != DecisionOutcome.PLACED}
        plan.seen = self._looks(plan, [decision.task for decision in found])
        if not plan.decisions:
            self._end(session, plan)

    def _looks(self, plan: EvictionPlan, tasks: Sequence[Task]) -> object:
        """What decides whether pods still fit on their nodes, and have to wait there."""
        cluster = self._cluster
        states = [cluster.nodes.get(decision.node or "") for decision in plan.decisions.values()]
        nodes = [
            None
            if state is None
            else (state.node, dict(state.holdings), {key for key in state.holdings if key in cluster.leaving})
            for state in states
        ]
        return [(task.pod.metadata, task.pod.spec) for task in tasks], nodes

    # -- at its end

    def keep(self, session: Session) -> list[EvictionPlan]:
        """Keep the places that evictions were decided for, and forget others that wait; the new plans."""
        known = {decision.task.key for _, decision in self.promised()}
        promised: dict[str, list[Decision]] = {}
        for key, decision in session.decisions.items():
            if key in self._cluster.promised and key not in known:
                promised.setdefault(decision.job.key, []).append(decision)
        victims: dict[str, list[Victim]] = {}
        for eviction in session.evictions:
            task = self._cluster.running[eviction.pod]
            victims.setdefault(eviction.for_, []).append(Victim(eviction, task, session.job_of(task).key))
            if eviction.to:
                # The pod that will come in its place finds one as any other does.
                session.unplace(successor(eviction.pod))
                self._cluster.waiting.pop(successor(eviction.pod), None)
        waiting = _waiting(session) if victims else frozenset()
        plans = [self._add(going, promised.pop(job, ()), waiting) for job, going in victims.items()]
        for plan in plans:
            if plan.decisions and len(plan.spareable()) > 1:
                # Pods were found places one after another, so that what makes room for a later one may do for all.
                self._renew(session, plan, ())
                plan.victims = [victim for victim in plan.victims if victim.state != SPARED]
        for plan in plans:
            plan.seen = self._looks(plan, [decision.task for decision in plan.decisions.values()])
        for decision in [decision for decisions in promised.values() for decision in decisions]:
            session.unplace(decision.task.key)
        return plans

    def _add(self, victims: list[Victim], decisions: Iterable[Decision], known: frozenset[str]) -> EvictionPlan:
        self._numbers += 1
        plan = EvictionPlan(self._numbers, victims, decisions, known)
        self.plans.append(plan)
        return plan

    # -- the end of promises

    def take_lost(self) -> list[Task]:
        """Pods that have lost their promise since the last time and have got no other place."""
        lost, self._lost = self._lost, []
        return [task for task in lost if task.key in self._cluster.waiting]

    def let_stay(self, victim: Victim) -> None:
        """A victim whose eviction came to nothing does not go any more."""
        if self.is_there(victim):
            victim.state = SPARED
            self._cluster.restore(victim.key)
        else:
            victim.state = LEAVES

    def give_up(self, plan: EvictionPlan, refused: Sequence[Victim], now: float) -> list[Task]:
        """Nobody else is stopped for a plan, and those who refused to go not for a while; the pods that waited."""
        self.must_stay.update({victim.key: now + STAY_SECONDS for victim in refused})
        for victim in plan.end():
            if self.is_there(victim):
                self._cluster.restore(victim.key)
        tasks = [task for task in map(self._waits, plan.decisions.values()) if task is not None]
        plan.decisions = {}
        self._lost += tasks
        return tasks

    def _end(self, session: Session, plan: EvictionPlan) -> None:
        """Who has not been asked to go may stay."""
        _stay(session, [victim for victim in plan.end() if self.is_there(victim)])


def _spare(jobs: Sequence[Sequence[Victim]]) -> None:
    for victim in [victim for victims in jobs for victim in victims]:
        victim.state = SPARED


def _stay(session: Session, victims: Sequence[Victim]) -> None:
    for victim in victims:
        session.restore(victim.task)


def _leave(session: Session, victims: Sequence[Victim]) -> None:
    for victim in victims:
        session.evict(victim.task)


def _first(session: Session, job: Job, jobs: Sequence[Job]) -> list[tuple[Job, list[Task]]]:
    """Jobs of the queue that come before a job and fit nowhere as it is, with the pods that they would start with."""
    found: list[tuple[Job, list[Task]]] = []
    for rival in jobs:
        if rival.queue != job.queue or rival.priority <= job.priority or len(found) >= MOST_RIVALS:
            continue
        tasks = starting(session, rival)
        may = tasks and all(task.pod.spec.preemptionPolicy != NEVER for task in tasks)
        if may and session.why_not_yet(rival) is None and find(session, rival, tasks, {}, keep=False) is None:
            found.append((rival, tasks))
    return found


def _order(job: Job) -> tuple[int, str, str]:
    return -job.priority, job.created, job.key


def _waiting(session: Session) -> frozenset[str]:
    """All jobs with waiting pods."""
    return frozenset([session.job_of(task).key for task in session.cluster.waiting.values()])

"""Nominations: the places that victims have to leave first, kept from cycle to cycle for the preemptors.

A nominated place is reserved like any other, so that no other pod takes the room that evictions make. At the start of
a cycle every nomination is renewed: its pods are bound if they fit now, there or elsewhere; victims whose eviction has
not begun are spared if the pods fit without them; and if the pods do not fit any more the nomination ends, and the
cycle decides about the pods anew. A job of higher priority in the same queue that has come since takes the place over
instead of evicting more pods. After a restart, pods whose status names a nominated node get that place again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tonnage.actions.eviction.contested import why_contested
from tonnage.actions.eviction.evictionaction import NEVER, EvictionAction, starting
from tonnage.actions.eviction.truces import Truces
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.action import Action
from tonnage.framework.cycle import acting
from tonnage.framework.decision import Decision, DecisionOutcome
from tonnage.framework.session import Session
from tonnage.framework.statement import successor
from tonnage.scheduler.evictions.places import find_places
from tonnage.scheduler.evictions.plans import LEAVES, SPARED, STAYS, EvictionPlan, Victim

STAY_SECONDS = 60.0
"""How long a pod that could not be evicted is not chosen as a victim again."""

CONTESTED_SECONDS = 5.0
"""How long a pod is not chosen as a victim whose room another scheduler's pod would take."""

MOST_CONTESTED_SECONDS, FORGET_CONTESTED_SECONDS = 60.0, 600.0
"""How long a job waits in all because its room is contested, and when that begins anew.

Else a tenant could keep all others from preempting, by pods that it creates for a scheduler that does not exist.
"""

MOST_RIVALS = 8
"""How many jobs of higher priority are tried in a nominated place."""


class Nominations:
    """The eviction plans of one cluster that have not ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = 0
        self.plans: list[EvictionPlan] = []
        self.must_stay: dict[str, float] = {}
        """Pods that could not be evicted, and until when they are no victims, in seconds since 1970."""
        self.truces = Truces()
        self._contested: dict[str, float] = {}
        """When the room for each job was first contested, in seconds since 1970."""
        self._lost: list[Task] = []
        """Pods that have lost their nomination since the last `take_lost`."""

    def saved(self) -> Callable[[], None]:
        """A function that brings the nominations back to what they are now."""
        plans = [(plan, plan.saved()) for plan in self.plans]
        must_stay, lost, truces = dict(self.must_stay), list(self._lost), self.truces.saved()

        def roll_back() -> None:
            for _, restore in plans:
                restore()
            self.plans = [plan for plan, _ in plans]
            self.must_stay, self._lost, self.truces = must_stay, lost, truces

        return roll_back

    def nominated(self) -> list[tuple[EvictionPlan, Decision]]:
        """Every nominated place with its plan."""
        return [(plan, decision) for plan in self.plans for decision in plan.decisions.values()]

    def stands(self, plan: EvictionPlan) -> bool:
        """Whether all pods of a plan still have their nominations; if not, the next cycle renews it."""
        return not plan.is_over and all(self._preemptor(decision) is not None for decision in plan.decisions.values())

    def is_running(self, victim: Victim) -> bool:
        """Whether a victim runs and is not terminating."""
        running = self._running(victim)
        return running is not None and not running.pod.is_leaving

    def void(self) -> list[EvictionPlan]:
        """Plans whose pods wait for a victim that stays: the next cycle must renew them."""
        return [plan for plan in self.plans if self._is_void(plan)]

    def _is_void(self, plan: EvictionPlan) -> bool:
        cluster = self._cluster
        return any(
            key in cluster.running and key not in cluster.leaving
            for decision in plan.decisions.values()
            for key in decision.waits_for
        )

    def _running(self, victim: Victim) -> Task | None:
        running = self._cluster.running.get(victim.key)
        return running if running is not None and running.uid == victim.task.uid else None

    def _preemptor(self, decision: Decision) -> Task | None:
        """The pod as it is now; None if it has lost its nomination."""
        key = decision.task.key
        task = self._cluster.reserved.get(key) if key in self._cluster.pipelined else None
        return task if task is not None and task.uid == decision.task.uid else None

    # -- before a cycle

    def mark(self, now: float) -> None:
        """Mark victims as leaving, also those that the API server does not show as terminating yet."""
        self.must_stay = {key: until for key, until in self.must_stay.items() if until > now}
        forgotten = now - FORGET_CONTESTED_SECONDS
        self._contested = {job: since for job, since in self._contested.items() if since > forgotten}
        for plan in self.plans:
            for victim in plan.victims:
                if victim.state == STAYS and not self.is_running(victim):
                    victim.state = LEAVES
                if victim.state != SPARED and self._running(victim) is not None:
                    self._cluster.evict(victim.key)
        self.plans = [plan for plan in self.plans if not self._is_done(plan)]

    def _is_done(self, plan: EvictionPlan) -> bool:
        """Whether no pod waits for the plan, and the watch has shown all its victims terminating."""
        return not plan.decisions and not any(v.state != SPARED and self.is_running(v) for v in plan.victims)

    # -- at its start

    def renew(self, session: Session, actions: Sequence[Action]) -> None:
        """Renew all nominations, by priority."""
        session.nominated = frozenset()
        plans = sorted([plan for plan in self.plans if plan.decisions], key=lambda plan: (-plan.priority, plan.number))
        named = [
            task
            for key, task in self._cluster.waiting.items()
            if task.pod.status.nominatedNodeName and key not in session.passed_over
        ]
        # A pod that gets no place in this cycle loses its nominated node: otherwise it would go first for ever.
        self._lost += named
        nominated = [task for task in named if task.pod.status.nominatedNodeName in self._cluster.nodes]
        if not plans and not nominated:
            return
        waiting = sorted(session.waiting_jobs(), key=_order) if plans else []
        for plan in plans:
            self._renew(session, plan, waiting)
        # A victim that stays because one plan ended may be one that a plan renewed before it waits for.
        for plan in plans:
            if self._is_void(plan):
                self._renew(session, plan, ())
        session.at_work = None
        jobs = sorted({session.job_of(task).key: session.job_of(task) for task in nominated}.values(), key=_order)
        # Jobs that fit go first, so that no other job takes the room that was made for them.
        for job in [job for job in jobs if not self._restore(session, job)]:
            self._evict_again(session, job, actions)
        session.nominated = frozenset(self._cluster.pipelined)
        session.at_work = None

    def _renew(self, session: Session, plan: EvictionPlan, newcomers: Sequence[Job]) -> None:
        """Find the places of a plan again, for a newcomer of higher priority or for the plan's own job."""
        decisions = list(plan.decisions.values())
        session.at_work = decisions[0].job if decisions else None
        tasks = [task for task in map(self._preemptor, decisions) if task is not None]
        if not tasks:
            plan.decisions = {}
            self._end(session, plan)
            return
        job = session.job_of(tasks[0])
        rivals = _rivals(session, job, [one for one in newcomers if one.key not in plan.known])
        is_same = plan.seen == self._state(plan, tasks) and not self._is_void(plan)
        if not rivals and is_same and session.decide(tasks[0]).node is None:
            return
        places = {decision.task.key: decision.node or "" for decision in decisions}
        for task in tasks:
            session.unplace(task.key)
        for rival, fitting in rivals:
            found = find_places(session, rival, fitting, {})
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
        """Places for the pods of a plan, sparing as many victims as possible."""
        jobs = [] if plan.is_over else plan.spareable()
        _stay(session, [victim for victims in jobs for victim in victims])
        found = find_places(session, job, tasks, places)
        if found is not None or not jobs:
            _spare(jobs)
            return found
        # The pods keep their nominated nodes: elsewhere, some of these victims would be evicted for nothing.
        _leave(session, [victim for victims in jobs for victim in victims])
        found = find_places(session, job, tasks, places, anywhere=False)
        for victims in reversed(jobs if found is not None and len(jobs) > 1 else []):
            for task in tasks:
                session.unplace(task.key)
            _stay(session, victims)
            without = find_places(session, job, tasks, places)
            if without is not None:
                found, places = without, {decision.task.key: decision.node or "" for decision in without}
                _spare([victims])
                continue
            _leave(session, victims)
            found = find_places(session, job, tasks, places, anywhere=False)
        return found

    def _restore(self, session: Session, job: Job) -> bool:
        """Nominate the nodes that the pods' status names since before a restart, if the pods fit there."""
        session.at_work = job
        tasks = starting(session, job)
        places = {task.key: task.pod.status.nominatedNodeName or "" for task in tasks}
        found = find_places(session, job, tasks, places, anywhere=False) if tasks else None
        if found is not None:
            self._take_over(session, self._add([], found, _waiting(session)), found)
        return found is not None or not tasks

    def _evict_again(self, session: Session, job: Job, actions: Sequence[Action]) -> None:
        """Evict the rest of a job's victims before another job takes the room that the first of them left."""
        for action in [action for action in actions if isinstance(action, EvictionAction)]:
            with acting(session, action):
                action.make_room(session, [job])
            if not job.tasks_that(PodStatus.WAITING):
                return

    def _take_over(self, session: Session, plan: EvictionPlan, found: Sequence[Decision]) -> None:
        """Set the places of a plan; a pod that can be bound now needs no nomination any more."""
        for decision in found:
            session.decisions[decision.task.key] = decision
            plan.nominated.setdefault(decision.task.key, decision.task.pod.status.nominatedNodeName or "")
        plan.decisions = {d.task.key: d for d in found if d.outcome != DecisionOutcome.PLACED}
        plan.seen = self._state(plan, [decision.task for decision in found])
        if not plan.decisions:
            self._end(session, plan)

    def _state(self, plan: EvictionPlan, tasks: Sequence[Task]) -> object:
        """What decides whether pods still fit on their nodes, and have to wait there: pods, nodes and holdings."""
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
        """Keep the places that evictions were decided for, release other nominated ones; the new plans."""
        known = {decision.task.key for _, decision in self.nominated()}
        nominated: dict[str, list[Decision]] = {}
        for key, decision in session.decisions.items():
            if key in self._cluster.pipelined and key not in known:
                nominated.setdefault(decision.job.key, []).append(decision)
        victims: dict[str, list[Victim]] = {}
        for eviction in session.evictions:
            task = self._cluster.running[eviction.pod]
            victims.setdefault(eviction.for_, []).append(Victim(eviction, task, session.job_of(task).key))
            if eviction.to:
                # The pod that replaces the victim is scheduled like any other.
                session.unplace(successor(eviction.pod))
                self._cluster.waiting.pop(successor(eviction.pod), None)
        waiting = _waiting(session) if victims else frozenset()
        self._make_truces(session, victims)
        plans = [self._add(going, nominated.pop(job, ()), waiting) for job, going in victims.items()]
        for plan in plans:
            if plan.decisions and len(plan.spareable()) > 1:
                # The pods got their places one after another, so the victims of a later pod may make room for all.
                self._renew(session, plan, ())
                plan.victims = [victim for victim in plan.victims if victim.state != SPARED]
        session.at_work = None
        plans = [plan for plan in plans if not self._is_contested(session, plan)]
        for plan in plans:
            plan.seen = self._state(plan, [decision.task for decision in plan.decisions.values()])
        for decision in [decision for decisions in nominated.values() for decision in decisions]:
            session.unplace(decision.task.key)
        return plans

    def _make_truces(self, session: Session, victims: Mapping[str, Sequence[Victim]]) -> None:
        """Remember who is stopped for whom."""
        by_key = {decision.job.key: decision.job for decision in session.decisions.values()}
        for job, going in victims.items():
            for victim in [victim for victim in going if job in by_key and victim.job != job]:
                lineage = session.job_of(victim.task).lineage
                self.truces.stopped(lineage, by_key[job].lineage, self._cluster.now or 0.0)

    def _is_contested(self, session: Session, plan: EvictionPlan) -> bool:
        """Whether another scheduler's pod would take the room that a plan frees; nobody is evicted then."""
        now = self._cluster.now or 0.0
        jobs = {decision.job.key for decision in plan.decisions.values()}
        if any(now - self._contested.get(job, now) >= MOST_CONTESTED_SECONDS for job in jobs):
            return False
        reason = why_contested(session, list(plan.decisions.values()))
        if reason is None:
            return False
        for job in jobs:
            self._contested.setdefault(job, now)
        for decision in plan.decisions.values():
            session.unplace(decision.task.key)
            session.decisions[decision.task.key] = session.refuse(decision.task, "", reason)
        self.must_stay.update({victim.key: now + CONTESTED_SECONDS for victim in plan.victims})
        session.changes_at(now + CONTESTED_SECONDS)
        self._end(session, plan)
        self.plans.remove(plan)
        return True

    def _add(self, victims: list[Victim], decisions: Iterable[Decision], known: frozenset[str]) -> EvictionPlan:
        self._numbers += 1
        plan = EvictionPlan(self._numbers, victims, decisions, known)
        self.plans.append(plan)
        return plan

    # -- the end of nominations

    def take_lost(self) -> list[Task]:
        """Pods that have lost their nomination since the last call and have no other place."""
        lost, self._lost = self._lost, []
        return [task for task in lost if task.key in self._cluster.waiting]

    def let_stay(self, victim: Victim) -> None:
        """Spare a victim whose eviction failed."""
        if self.is_running(victim):
            victim.state = SPARED
            self._cluster.restore(victim.key)
        else:
            victim.state = LEAVES

    def give_up(self, plan: EvictionPlan, refused: Sequence[Victim], now: float) -> list[Task]:
        """End a plan, and spare the refused victims for a while; the pods that have lost their nominations."""
        self.must_stay.update({victim.key: now + STAY_SECONDS for victim in refused})
        for victim in plan.end():
            if self.is_running(victim):
                self._cluster.restore(victim.key)
        tasks = [task for task in map(self._preemptor, plan.decisions.values()) if task is not None]
        plan.decisions = {}
        self._lost += tasks
        return tasks

    def _end(self, session: Session, plan: EvictionPlan) -> None:
        """End a plan and spare the victims whose eviction has not begun."""
        _stay(session, [victim for victim in plan.end() if self.is_running(victim)])


def _spare(jobs: Sequence[Sequence[Victim]]) -> None:
    for victim in [victim for victims in jobs for victim in victims]:
        victim.state = SPARED


def _stay(session: Session, victims: Sequence[Victim]) -> None:
    for victim in victims:
        session.restore(victim.task)


def _leave(session: Session, victims: Sequence[Victim]) -> None:
    for victim in victims:
        session.evict(victim.task)


def _rivals(session: Session, job: Job, jobs: Sequence[Job]) -> list[tuple[Job, list[Task]]]:
    """Jobs of the queue with a higher priority that fit nowhere now, each with the pods that it would start with."""
    found: list[tuple[Job, list[Task]]] = []
    for rival in jobs:
        if rival.queue != job.queue or rival.priority <= job.priority or len(found) >= MOST_RIVALS:
            continue
        session.at_work = rival
        tasks = starting(session, rival)
        may = (
            session.jobs.is_starving(rival) and tasks and all(task.pod.spec.preemptionPolicy != NEVER for task in tasks)
        )
        if may and session.why_not_yet(rival) is None and find_places(session, rival, tasks, {}, keep=False) is None:
            found.append((rival, tasks))
    session.at_work = job
    return found


def _order(job: Job) -> tuple[int, str, str]:
    return -job.priority, job.created, job.key


def _waiting(session: Session) -> frozenset[str]:
    """All jobs with pending pods."""
    return frozenset([session.job_of(task).key for task in session.cluster.waiting.values()])

"""Inheritance: what becomes of the evictions for a job whose promised places an action takes back for another one.

The room that they make is the heir's now. Victims without whom every promise can still be kept stay after all.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tonnage.actions.eviction.victimplan import VictimPlan
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, DecisionOutcome, Eviction
from tonnage.framework.session import Session
from tonnage.framework.statement import successor


def inherit(session: Session, heir: Job, plan: VictimPlan, reason: str) -> None:
    """Hand the evictions for jobs that lost promises by a plan to the heir, and let victims stay that nobody needs."""
    running = session.cluster.running
    losers = {
        batch.job.key: batch.job
        for batch in plan.evicted
        if not all(task.key in running for task in batch.tasks) and batch.job.key != heir.key
    }
    if not losers:
        return
    spared = _spare(session, losers, heir)
    session.evictions[:] = [
        _handed_over(session, eviction, losers, heir, reason)
        for eviction in session.evictions
        if eviction.pod not in spared
    ]
    _tell_for_whom_they_wait(session, heir)


def _handed_over(session: Session, eviction: Eviction, losers: Mapping[str, Job], heir: Job, reason: str) -> Eviction:
    """An eviction as the heir's, if the job that it was for has no promise left."""
    loser = losers.get(eviction.for_)
    if loser is None or loser.count(PodStatus.PIPELINED):
        return eviction
    return msgspec.structs.replace(eviction, for_=heir.key, reason=reason, action=session.acting)


def _spare(session: Session, losers: Mapping[str, Job], heir: Job) -> set[str]:
    """Let victims of the losers stay, job by job and the last first, where all promises can be kept without them."""
    by_job: dict[str, list[Eviction]] = {}
    for eviction in reversed(session.evictions):
        if eviction.for_ in losers:
            by_job.setdefault(session.job_of(session.cluster.running[eviction.pod]).key, []).append(eviction)
    spared: set[str] = set()
    with session.looking_ahead():
        for evictions in by_job.values():
            if _let_stay(session, evictions, heir):
                spared.update([eviction.pod for eviction in evictions])
    return spared


def _let_stay(session: Session, evictions: Sequence[Eviction], heir: Job) -> bool:
    """Undo evictions if all pods that wait for places on their nodes, and the heir's, still get one there."""
    cluster = session.cluster
    victims = [cluster.running[eviction.pod] for eviction in evictions]
    nodes, moved = {eviction.node for eviction in evictions}, {successor(task.key) for task in victims}
    mates = {task.key for task in heir.tasks_that(PodStatus.PIPELINED)}
    waiting = [key for key in cluster.pipelined if cluster.holders[key] in nodes or key in mates]
    before = [(cluster.reserved[key], cluster.held(key)) for key in sorted({*waiting, *(moved & cluster.pipelined)})]
    for task, _ in before:
        session.unplace(task.key)
    for task in victims:
        session.restore(task)
    found: list[Decision] = []
    for task, holding in before:
        if task.key in moved or holding is None:
            cluster.waiting.pop(task.key, None)
            continue
        decision = _same_place(session, task, holding.node)
        if decision is None:
            break
        session.take(decision)
        found.append(decision)
    else:
        for decision in found:
            known = session.decisions.get(decision.task.key)
            if known is not None:
                decision.job = known.job
                session.decisions[decision.task.key] = decision
        return True
    for decision in found:
        session.unplace(decision.task.key)
    for task in victims:
        session.evict(task)
    for task, holding in before:
        if holding is not None:
            session.put_back(task, holding)
    return False


def _same_place(session: Session, task: Task, node: str) -> Decision | None:
    """The decision to place a pod on a node; nothing if it does not fit there or its queue must not have it."""
    queue = session.cluster.queues.get(session.job_of(task).queue)
    if queue is None or session.queues.why_not_allocatable(queue, task) is not None:
        return None
    decision = session.decide(task, session.cluster.mask((node,)))
    return None if decision.node is None else decision


def _tell_for_whom_they_wait(session: Session, heir: Job) -> None:
    """Let pods wait only for those that still leave; the heir starts now if there is none."""
    cluster = session.cluster
    by_job: dict[str, list[Decision]] = {}
    for key, decision in session.decisions.items():
        if key in cluster.pipelined:
            by_job.setdefault(decision.job.key, []).append(decision)
    for job, decisions in by_job.items():
        leaving = sorted({key for decision in decisions for key in decision.waits_for if key in cluster.leaving})
        for decision in decisions:
            decision.waits_for = leaving
        if job == heir.key and not leaving:
            for decision in decisions:
                session.unplace(decision.task.key)
                session.take(decision)
                decision.outcome = DecisionOutcome.PLACED

"""Places for the pods of a nominated job: on their nominated nodes or elsewhere, now or once victims have left."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from tonnage.actions.admission import why_held_back
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement


def find_places(
    session: Session,
    job: Job,
    tasks: Sequence[Task],
    places: Mapping[str, str],
    *,
    anywhere: bool = True,
    keep: bool = True,
) -> list[Decision] | None:
    """Places for all of the pods, on the nodes in `places` or else anywhere; None if the job cannot start there.

    Either all pods fit now, or all wait until victims have left.
    """
    cluster = session.cluster
    queue = cluster.queues.get(job.queue)
    if queue is None or why_held_back(session, job) is not None or session.jobs.why_invalid(job) is not None:
        return None
    if session.jobs.is_kept_together(job, tasks):
        # Its pods are to be close to each other, which is a question for all nodes together.
        anywhere = False
        if not all(places.get(task.key) for task in tasks):
            return None
    for ahead in (False, True) if cluster.leaving else (False,):
        with session.looking_ahead() if ahead else nullcontext(), Statement(session) as statement:
            found = _place_all(session, statement, queue, tasks, places, anywhere)
            if found is None or not (session.jobs.is_pipelined(job) if ahead else session.jobs.is_ready(job)):
                continue
            leaving = sorted({key for decision in found for key in decision.waits_for})
            for decision in found:
                decision.waits_for = leaving
            if keep:
                statement.commit()
            return found
    return None


def _place_all(
    session: Session,
    statement: Statement,
    queue: Queue,
    tasks: Sequence[Task],
    places: Mapping[str, str],
    anywhere: bool,
) -> list[Decision] | None:
    """A place for each pod, on its node in `places` if it fits there; None if a pod fits nowhere."""
    cluster = session.cluster
    found: list[Decision] = []
    for task in tasks:
        node = places.get(task.key, "")
        if session.queues.why_not_allocatable(queue, task) is not None:
            return None
        decision = session.decide(task, cluster.mask((node,))) if node in cluster.nodes else None
        if (decision is None or decision.node is None) and (anywhere or not node):
            decision = session.decide(task)
        if decision is None or decision.node is None:
            return None
        statement.take(decision)
        found.append(decision)
    return found

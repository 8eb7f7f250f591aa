"""Enqueue: let jobs in whose minimum of resources their queue can be expected to have."""

from tonnage.actions.admission import why_held_back
from tonnage.actions.jobqueue import JobQueue
from tonnage.cluster.jobs.group import NEW
from tonnage.cluster.jobs.job import Job
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Enqueue(Action):
    """Asks the plugins about every new group that states `minResources`; the others are let in.

    Jobs that were let in before stay so. What the plugins say no to is passed over by the actions that follow. Groups
    without pods are asked about too, because whoever makes their pods may wait for that.
    """

    name = "enqueue"

    def run(self, session: Session) -> None:
        jobs = [*session.waiting_jobs(), *(job for job in session.cluster.groups.new_jobs() if not job.tasks)]
        jobs = [job for job in jobs if _is_new(job) and why_held_back(session, job) is None]
        job_queue = JobQueue(session, jobs, mind_shares=False)
        while (turn := job_queue.next()) is not None:
            _, job = turn
            assert job.group is not None
            if session.jobs.is_enqueueable(job):
                session.enqueued.append(job)
            else:
                session.not_enqueued[job.key] = job.group.min_resources


def _is_new(job: Job) -> bool:
    return job.group is not None and job.group.phase in NEW and bool(job.group.min_resources)

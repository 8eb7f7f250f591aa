"""Action `enqueue`: admits new jobs whose `minResources` their queue can be expected to have."""

from tonnage.actions.admission import why_held_back
from tonnage.actions.jobqueue import JobQueue
from tonnage.cluster.jobs.group import NEW
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Enqueue(Action):
    """Asks the plugins about every new group that states `minResources`; it admits all others unasked.

    A job that was admitted stays admitted. The actions that follow skip jobs that were not. Groups without pods are
    asked about too, and those that lack pods, because a controller may create them only once the group is admitted.
    """

    name = "enqueue"

    def run(self, session: Session) -> None:
        cluster = session.cluster
        others = (job for job in cluster.groups.new_jobs(cluster.is_ours) if not job.count(PodStatus.WAITING))
        jobs = [*session.waiting_jobs(), *others]
        jobs = [job for job in jobs if job.key not in session.set_aside and _may_come(session, job)]
        session.at_work = None
        job_queue = JobQueue(session, jobs, skips_overused=False)
        while (following := job_queue.next()) is not None:
            _, job = following
            session.at_work = job
            assert job.group is not None
            if session.jobs.is_enqueueable(job):
                session.enqueued.append(job)
            else:
                session.not_enqueued[job.key] = job.group.min_resources
            session.at_work = None


def _may_come(session: Session, job: Job) -> bool:
    session.at_work = job
    return _is_new(job) and why_held_back(session, job) is None


def _is_new(job: Job) -> bool:
    return job.group is not None and job.group.phase in NEW and bool(job.group.min_resources)

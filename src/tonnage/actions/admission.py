"""Admission of jobs: the actions consider a job if its group and queue exist, are open, and `enqueue` let it in."""

from tonnage.cluster.jobs.job import Job
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session
from tonnage.model.resources import show


def why_held_back(session: Session, job: Job) -> Reason | None:
    """Why the actions do not consider a job; nothing if they do."""
    groups = session.cluster.groups
    if job.is_lost:
        return Reason("GroupNotFound", f"the pods name the PodGroup {job.key}, which is not known")
    if groups.expected and job.group is None:
        expected = next((groups.expected[pod] for pod in job.tasks if pod in groups.expected), None)
        if expected is not None:
            return Reason("GroupExpected", expected)
    queue = groups.queues.get(job.queue)
    if queue is None:
        return Reason("QueueNotFound", f"{job.key} is in queue {job.queue}, which is not known")
    if not queue.is_open:
        return Reason("QueueClosed", f"queue {queue.name} is closed; no job of it starts")
    children = groups.hierarchy().children.get(queue.name)
    if children:
        message = (
            f"queue {queue.name} is divided into {len(children)} queues, such as {children[0]}; jobs wait in those"
        )
        return Reason("QueueIsDivided", message)
    if job.key in session.not_enqueued:
        wanted = session.not_enqueued[job.key]
        asked = ", ".join(f"{name} {show(name, value)}" for name, value in wanted.items())
        return Reason("NotEnqueued", f"queue {queue.name} does not let {job.key} in, which starts with {asked}")
    return None

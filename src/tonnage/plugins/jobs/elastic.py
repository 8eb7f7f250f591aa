"""KAI's elastic: jobs below their minimum go first, then jobs at their minimum, then jobs above it."""

from tonnage.cluster.jobs.job import Job
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Elastic(Plugin, trusted=True):
    """Orders jobs by how many of their pods have a node."""

    name = "elastic"

    def on_session_open(self, session: Session) -> None:
        session.add_job_order(self._order)

    @staticmethod
    def _order(one: Job, other: Job) -> int:
        if one.group is None and other.group is None:
            return 0
        return _growth(one) - _growth(other)


def _growth(job: Job) -> int:
    """-1 below the job's minimum, 0 at it, 1 above it."""
    beyond = job.with_place() - job.minimum
    return (beyond > 0) - (beyond < 0)

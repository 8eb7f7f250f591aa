"""Elastic: jobs that lack pods go before jobs that have just enough, and those before jobs that grow."""

from tonnage.cluster.jobs.job import Job
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Elastic(Plugin, trusted=True):
    """KAI's order of jobs by how many of their pods have a place."""

    name = "elastic"

    def on_session_open(self, session: Session) -> None:
        session.add_job_order(self._order)

    @staticmethod
    def _order(one: Job, other: Job) -> int:
        if one.group is None and other.group is None:
            return 0
        return _growth(one) - _growth(other)


def _growth(job: Job) -> int:
    """Below 0 if the job lacks pods, 0 if it has its minimum, above if it has more."""
    beyond = job.promised() - job.minimum
    return (beyond > 0) - (beyond < 0)

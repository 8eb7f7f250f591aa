"""Asking who may be stopped for whom, in a few words.

asking = Asking(cluster, Proportion())
assert asking.why_not("wants") is None
assert asking.reclaimable("wants", "a", "b") == ["a"]
"""

from collections.abc import Sequence
from functools import cmp_to_key

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


class Anything(Plugin):
    """Lets every pod be stopped, so that others can spare some."""

    name = "anything"

    def on_session_open(self, session: Session) -> None:
        session.add_preemptable(lambda job, victims: list(victims))
        session.add_reclaimable(lambda job, victims: list(victims))


class Asking:
    """A session with some plugins; pods are called by their names."""

    def __init__(self, cluster: Cluster, *plugins: Plugin) -> None:
        self.cluster = cluster
        self.session = Session(cluster, plugins)

    def job(self, pod: str) -> Job:
        """The job of a waiting pod."""
        return self.session.job_of(self.cluster.waiting[_key(pod)])

    def tasks(self, pods: Sequence[str]) -> list[Task]:
        """Running pods."""
        return [self.cluster.running[_key(pod)] for pod in pods]

    def why_not(self, pod: str) -> str | None:
        """Why the job of a waiting pod must not take back what it asks for."""
        job = self.job(pod)
        said = self.session.jobs.why_not_reclaimer(job, job.asking())
        return None if said is None else f"{said[1].name}: {said[1].message}"

    def reclaimable(self, pod: str, *victims: str) -> list[str]:
        """Which pods may be stopped for the job of a waiting pod of another queue."""
        return [task.name for task in self.session.jobs.reclaimable(self.job(pod), self.tasks(victims))]

    def preemptable(self, pod: str, *victims: str) -> list[str]:
        """The same for one of the same queue."""
        return [task.name for task in self.session.jobs.preemptable(self.job(pod), self.tasks(victims))]

    def giving_up(self, *given_up: str, among: Sequence[str]) -> list[str]:
        """In which order queues give up pods after some were given up."""
        order = self.session.queues.victim_order()
        for task in self.tasks(given_up):
            order.give_up(task)
        queues = [self.cluster.queues[name] for name in among]
        return [queue.name for queue in sorted(queues, key=cmp_to_key(order.compare))]


def _key(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"

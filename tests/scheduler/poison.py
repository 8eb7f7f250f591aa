"""Poison: a built-in plugin with a bug, which raises about pods whose label says so."""

from collections.abc import Sequence

import msgspec

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.pod import Pod

LABEL = "poison"
VALID, ORDER, EVENT, VICTIM, OPEN = "valid", "order", "event", "victim", "open"


def poisoned(pod: Pod, point: str) -> Pod:
    """The pod, which the plugin raises about at this point."""
    labels = {**pod.labels, LABEL: point}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


class Poison(Plugin, trusted=True):
    """Trusted, so nobody guards its callbacks."""

    name = "poison"

    def on_session_open(self, session: Session) -> None:
        session.add_job_valid(self._valid)
        session.add_job_order(self._order)
        session.add_preemptable(self._preemptable)
        session.add_event_handler(self._event, self._event)
        for task in session.cluster.waiting.values():
            self._bite(task, OPEN)

    def _bite(self, task: Task, point: str) -> None:
        if task.pod.labels.get(LABEL) == point:
            raise RuntimeError(f"poisoned by {task.key}")

    def _valid(self, job: Job) -> Reason | None:
        for task in job.tasks.values():
            self._bite(task, VALID)
        return None

    def _order(self, one: Job, other: Job) -> int:
        for task in (*one.tasks.values(), *other.tasks.values()):
            self._bite(task, ORDER)
        return 0

    def _preemptable(self, _preemptor: Job, victims: Sequence[Task]) -> Sequence[Task]:
        for task in victims:
            self._bite(task, VICTIM)
        return victims

    def _event(self, task: Task) -> None:
        self._bite(task, EVENT)

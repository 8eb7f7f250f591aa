"""The allotment of node sets to the subgroups of a preemptor, before room is made in them.

Each subgroup gets the first of its sets where evictions could make enough room for it, beside the subgroups that got
sets before it. No other combinations are tried.
"""

from collections.abc import Callable, Sequence

from tonnage.actions.eviction.outlook import Outlook
from tonnage.actions.subjobs import SubJob, sub_jobs
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSet, SetOf
from tonnage.framework.session import Session

Prospect = Callable[[Sequence[Task], NodeSet | None], Outlook]
"""The room that evictions could make for pods on the nodes of a set."""


class Allotment:
    """The node set of each pod of one preemptor."""

    def __init__(self, session: Session, job: Job, prospect: Prospect) -> None:
        self._session, self._job = session, job
        self._prospect = prospect
        self._sets: dict[str, NodeSet | None] = {}
        self._taken: list[tuple[NodeSet, list[Task]]] = []
        self.reason: Reason | None = None
        """Why a subgroup could get no set."""

    def divide(self, tasks: Sequence[Task], within: NodeSet | None) -> SetOf | None:
        """The set of each of these pods within one that is to hold them all; nothing if a subgroup gets none."""
        if self._job.subgroups is None:
            return lambda task: within
        wanted = {task.key for task in tasks}
        parts = sub_jobs(self._job, tasks)
        if not all(self._allot(part, within, wanted) for part in parts):
            return None
        return lambda task: self._sets.get(task.key, within)

    def _allot(self, part: SubJob, within: NodeSet | None, wanted: set[str]) -> bool:
        tasks = [task for task in part.tasks if task.key in wanted]
        sets = self._session.jobs.subgroup_node_sets(self._job, part.path, tasks, within)
        if sets is None:
            return self._allot_inside(part, within, wanted)
        self.reason = sets.reason
        for one in sets:
            outlook = self._prospect([*tasks, *self._beside(one)], one)
            if outlook.places >= outlook.needed and self._allot_inside(part, one, wanted):
                self._taken.append((one, tasks))
                return True
        return False

    def _allot_inside(self, part: SubJob, within: NodeSet | None, wanted: set[str]) -> bool:
        if part.parts:
            return all(self._allot(inside, within, wanted) for inside in part.parts)
        self._sets |= {task.key: within for task in part.tasks}
        return True

    def _beside(self, one: NodeSet) -> list[Task]:
        """The pods that got sets with some of the same nodes."""
        return [task for taken, tasks in self._taken if (taken.mask & one.mask).any() for task in tasks]

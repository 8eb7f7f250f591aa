"""Sub-job allocator: places the subgroups of one job, each whole and in one of its node sets, or not at all.

Node sets of a subgroup are tried one after another within the set of what is around it: the first that holds it now is
taken, else the first that will later. What was tried in vain is undone. No other combinations are searched: a subgroup
that has its places keeps them while the next one is tried.
"""

from collections.abc import Callable, Sequence

from tonnage.actions.subjobs import SubJob
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, DecisionOutcome, Reason
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

Place = Callable[[Task, NodeSet | None], Decision]
"""Places a pod on the nodes of a set, now or once others have left."""


class SubJobAllocator:
    """Places sub-jobs of one job in a statement."""

    def __init__(self, session: Session, statement: Statement, job: Job, action: str, place: Place) -> None:
        self._session, self._statement = session, statement
        self._job, self._action = job, action
        self._place = place
        self.why: tuple[str, Reason] = action, Reason("JobNotReady", "")
        """Why the last sub-job got no place, and who says so."""

    def allocate(self, part: SubJob, among: NodeSet | None) -> list[Decision]:
        """Place a sub-job within a set of nodes; nothing is placed if it does not fit there whole."""
        session, statement = self._session, self._statement
        sets = session.jobs.subgroup_node_sets(self._job, part.path, part.tasks, among)
        if sets is None:
            return self._fill(part, among)
        later: NodeSet | None = None
        why = sets.plugin, sets.reason
        for one in [one for one in sets if one.has_room]:
            mark = len(statement)
            found = self._fill(part, one)
            if found and all(decision.outcome == DecisionOutcome.PLACED for decision in found):
                return found
            if found and later is None:
                later = one
            statement.undo(mark)
        if later is None:
            self.why = why
            return []
        return self._fill(part, later)

    def _fill(self, part: SubJob, among: NodeSet | None) -> list[Decision]:
        """Place a sub-job on the nodes of a set; nothing is placed if it does not fit."""
        mark = len(self._statement)
        found = self._fill_parts(part, among) if part.parts else self._fill_pods(part, among)
        if not found:
            self._statement.undo(mark)
        return found

    def _fill_parts(self, part: SubJob, among: NodeSet | None) -> list[Decision]:
        found: list[Decision] = []
        complete = 0
        for number, inside in enumerate(part.parts):
            placed = self.allocate(inside, among)
            found += placed
            complete += bool(placed)
            if complete == part.needed:
                return found
            if complete + len(part.parts) - number - 1 < part.needed:
                break
        return []

    def _fill_pods(self, part: SubJob, among: NodeSet | None) -> list[Decision]:
        found: list[Decision] = []
        tasks: Sequence[Task] = part.tasks
        while len(found) + len(tasks) >= part.needed:
            task, tasks = tasks[0], tasks[1:]
            decision = self._place(task, among)
            if decision.node is not None:
                found.append(decision)
                if len(found) == part.needed:
                    return found
                continue
            self.why = self._action, self._why_not(part, found, decision)
            if decision.is_of_class:
                kind = self._session.class_key(task)
                tasks = [other for other in tasks if self._session.class_key(other) != kind]
        return []

    def _why_not(self, part: SubJob, found: Sequence[Decision], failed: Decision) -> Reason:
        name = f"subgroup {'/'.join(part.path)} of {self._job.key}" if part.path else self._job.key
        message = f"{name} needs places for {part.needed} more pods at once, {len(found)} fit"
        return Reason("JobNotReady", f"{message}; {failed.task.key}: {failed.why_not()}")

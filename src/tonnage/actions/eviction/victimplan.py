"""Victim plan: the victims of one preemptor and the places of its pods, carried out in a statement.

The search adds victims pod by pod. Once all pods have a place, the plan is settled: its pods are placed anew, all
victims gone, so that the normal node scores choose among the nodes that became free; victims without whom all pods
still get a place stay; and the other victims move where they fit.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

from tonnage.actions.eviction.outlook import Needs
from tonnage.actions.eviction.searchlimit import Progress
from tonnage.actions.eviction.victims import VictimBatch
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.nodesets import SetOf
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

Batches = dict[int, VictimBatch]
"""Batches by number."""
MayLose = Callable[[Mapping[int, VictimBatch]], bool]
"""Whether all of these victims may be lost."""


class VictimPlan:
    """Victims and places; the session is changed accordingly until the statement is undone."""

    def __init__(
        self,
        statement: Statement,
        session: Session,
        queue: Queue,
        preemptor: Job,
        reason: str,
        progress: Progress,
        within: SetOf,
    ) -> None:
        self._statement, self._session = statement, session
        self._queue, self._preemptor, self._reason = queue, preemptor, reason
        self._progress, self._within = progress, within
        self.evicted: list[VictimBatch] = []
        self.placed: list[Decision] = []
        self.lost: set[int] = set()
        """The victims that may be lost, by position in `evicted`; the others must move."""

    def keep(self, decision: Decision, batches: Sequence[VictimBatch]) -> None:
        """Evict these victims and place a pod."""
        self._evict(batches)
        self._statement.take(decision)
        self.evicted += batches
        self.placed.append(decision)

    def without_new_place(self, decision: Decision, batches: Sequence[VictimBatch]) -> Batches:
        """The victims that would be lost but must not be if these were evicted for a pod, by position."""
        evicted, placed, mark = len(self.evicted), len(self.placed), len(self._statement)
        self.keep(decision, batches)
        homeless = {place: self.evicted[place] for place in sorted(self._move() - self.lost)}
        self._statement.undo(mark)
        del self.evicted[evicted:], self.placed[placed:]
        return homeless

    # -- once all pods have a place

    def settle(self, tasks: Sequence[Task], may_lose: MayLose) -> bool:
        """Place all pods with no more victims than needed, and move the victims; a no means that some must not go."""
        if len(self._nodes_of_victims()) > 1:
            self._place_anew(tasks)
        if len(tasks) > 1 and len(self.evicted) > 1:
            self._spare(tasks, may_lose)
        homeless = self._move()
        if not self.lost.issuperset(homeless):
            return False
        self._let_mates_stay(homeless)
        return True

    def _place_anew(self, tasks: Sequence[Task]) -> None:
        decisions = self._places(tasks)
        if decisions is not None and self._all_may_go(self.evicted, self.lost):
            self.placed = decisions
        else:
            self._take_places()

    def _spare(self, tasks: Sequence[Task], may_lose: MayLose) -> None:
        """Let those victims stay, the last ones first, without whom all pods have places."""
        spent, is_changed = self._progress.spent, False
        needs = Needs(self._session, self.placed, self.evicted)
        stopped = {batch.job.key for batch in self.evicted if batch.is_rest}
        for place in range(len(self.evicted) - 1, -1, -1):
            batch = self.evicted[place]
            if self._progress.is_over:
                break
            if (not batch.is_rest and batch.job.key in stopped) or not needs.could_do_without(batch):
                continue
            others = [*self.evicted[:place], *self.evicted[place + 1 :]]
            lost = {number - (number > place) for number in self.lost if number != place}
            self._statement.undo()
            is_changed = True
            if not may_lose({number: others[number] for number in sorted(lost)}):
                continue
            self._evict(others)
            decisions = self._places(tasks)
            if decisions is not None and self._all_may_go(others, lost):
                self.evicted, self.placed, self.lost = others, decisions, lost
                needs.restore(batch)
                stopped.discard(batch.job.key)
        self._progress.found(spent)
        if is_changed:
            self._carry_out()

    def _let_mates_stay(self, homeless: set[int]) -> None:
        """Of gangs that move, let the pods stay where they are whose node nobody gets."""
        holders, before = self._session.cluster.holders, self.evicted
        taken = {decision.node for decision in self.placed}
        needed = [
            batch
            if place in homeless
            else batch._replace(tasks=tuple([task for task in batch.tasks if holders[task.key] in taken]))
            for place, batch in enumerate(before)
        ]
        if needed == before:
            return
        self.evicted = needed
        self._carry_out()
        if self._move() <= homeless:
            self.evicted = [batch for batch in needed if batch.tasks]
            return
        self.evicted = before
        self._carry_out()
        self._move()

    def _nodes_of_victims(self) -> set[str]:
        holders = self._session.cluster.holders
        return {holders[task.key] for batch in self.evicted for task in batch.tasks}

    # -- in the statement

    def _evict(self, batches: Sequence[VictimBatch]) -> None:
        for batch in batches:
            for task in batch.tasks:
                self._statement.evict(task, self._preemptor.key, self._reason)

    def _carry_out(self) -> None:
        """Bring the session to the state of the plan, nobody moved yet."""
        self._statement.undo()
        self._evict(self.evicted)
        self._take_places()

    def _take_places(self) -> None:
        self._statement.undo_places()
        for decision in self.placed:
            self._statement.take(decision)

    def _places(self, tasks: Sequence[Task]) -> list[Decision] | None:
        """The places of all pods with the victims gone, as the session is afterwards; nothing if one gets none."""
        self._statement.undo_places()
        decisions: list[Decision] = []
        for task in tasks:
            if self._session.queues.why_not_allocatable(self._queue, task) is not None:
                return None
            self._progress.decided(task)
            decision = self._session.decide(task, self._within(task))
            if decision.node is None:
                return None
            self._statement.take(decision)
            decisions.append(decision)
        return decisions

    def _all_may_go(self, batches: Sequence[VictimBatch], lost: set[int]) -> bool:
        """Whether each of these victims that must not be lost finds another place."""
        if len(lost) == len(batches):
            return True
        mark = len(self._statement)
        homeless = self._move(batches)
        self._statement.undo(mark)
        return homeless <= lost

    def _move(self, batches: Sequence[VictimBatch] | None = None) -> set[int]:
        """Move victims to new places, the last ones first; the result is the positions of those without one."""
        batches = self.evicted if batches is None else batches
        statement, session = self._statement, self._session
        homeless: set[int] = set()
        hopeless: set[Hashable] = set()
        stopped: set[str] = set()
        for place in range(len(batches) - 1, -1, -1):
            batch = batches[place]
            queue = session.cluster.queues[batch.job.queue]
            if batch.job.key in stopped or session.jobs.is_kept_together(batch.job, batch.tasks):
                # Nothing of a gang runs without its rest, and in a node set all would have to be in the new place.
                homeless.add(place)
                continue
            mark = len(statement)
            for task in batch.tasks:
                kind = queue.name, session.class_key(task)
                refused = kind in hopeless or session.queues.why_not_allocatable(queue, task) is not None
                self._progress.decided(task)
                if refused or statement.move(task).node is None:
                    if len(statement) == mark:
                        # With no pod of its own batch in the way it would fit nowhere for others of its kind either.
                        hopeless.add(kind)
                    statement.undo(mark)
                    homeless.add(place)
                    stopped |= {batch.job.key} if batch.is_rest else set()
                    break
        return homeless

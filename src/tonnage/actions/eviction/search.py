"""Search for victims of a preemptor, proven in the session before any pod is evicted.

Candidates come batch by batch in their order. For each batch the search looks at the batch's nodes as they will be once
the leaving pods have left, and removes all candidates there that have come so far. If the preemptor's pod fits then,
the search restores candidates, the latest first, as long as the pod still fits; the remaining ones are the victims. If
the plugins allow them, the search keeps them and goes on with the preemptor's next pod, else with the next batch. It
tries no combinations, so an impossible preemptor costs one look at every candidate, and no look at nodes that reject
the pod for a reason that no eviction resolves. It stops when it has tried too much for one cycle. In the end all pods
of the preemptor have a place, or nothing has changed.

A victim gets another place if there is one. Such a victim is moved, not lost, and the plugins are not asked about it.
If a victim must not be lost and finds no other place, the search spares it and tries other candidates of the node.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.actions.eviction.disruptions import Disruptions
from tonnage.actions.eviction.noderoom import HelpfulNodes, NodeRoom
from tonnage.actions.eviction.searchlimit import Place, Progress
from tonnage.actions.eviction.victimplan import Batches, VictimPlan
from tonnage.actions.eviction.victims import VictimBatch
from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.nodesets import NodeSet, SetOf, anywhere
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

Allows = Callable[[Job, Sequence[Task]], Sequence[Task]]
"""Of victims that a preemptor would cost their place, those that may lose it."""


class Objection(NamedTuple):
    """Why a place is not taken: numbers of batches; none if no single one is to blame."""

    refused: set[int]
    """Those that the plugins do not let go."""
    homeless: set[int]
    """Those that must not be lost and find no other place."""


class Search:
    """The search for victims of one preemptor."""

    def __init__(
        self,
        statement: Statement,
        session: Session,
        queue: Queue,
        preemptor: Job,
        victims: Iterator[VictimBatch],
        allows: Allows | None,
        reason: str,
        helpful: HelpfulNodes,
        progress: Progress,
        within: SetOf = anywhere,
        disruptions: Disruptions | None = None,
    ) -> None:
        self._session, self._cluster = session, session.cluster
        self._queue, self._preemptor = queue, preemptor
        self._victims = victims
        self._allows = allows
        """Nothing if no victim may be lost: each must get another place."""
        self._helpful = helpful
        self._progress = progress
        self._within = within
        """The nodes to make room on for each pod."""
        self._disruptions = disruptions
        """The budgets to keep to; nothing to go beyond them."""
        self.is_beyond_budgets = False
        """Whether pods would have made room that budgets do not let go."""
        self._nodes: Array | None = None
        """Those of them that evictions may make room on for the pod at hand, as a mask; all at first."""
        self._candidates: Batches = {}
        """Candidates that have come and are not victims yet, by number in the order in which they came."""
        self._numbers_of_job: dict[str, set[int]] = {}
        """The numbers of candidates, by job."""
        self._must_keep_surplus: set[str] = set()
        """Jobs whose surplus must not be evicted, and so the rest of which must not be either."""
        self._rooms: dict[str, NodeRoom] = {}
        """The room that the candidates of each node could make."""
        self._seen = 0
        self._last: tuple[Hashable, str] | None = None
        """The class of the last pod that got a place, and the node."""
        self._needs_moves = allows is None
        """Whether some victims must not be lost, so that the search must find new places for them."""
        self.plan = VictimPlan(statement, session, queue, preemptor, reason, progress, within)
        self.considered = 0
        """How many pods were candidates."""
        self.refused: set[str] = set()
        """Queues whose pods would have made room but must not be evicted."""

    def run(self, tasks: Sequence[Task]) -> bool:
        """Make room for all of the pods; if the result is no, the caller undoes the statement."""
        with self._session.looking_ahead():
            return all(map(self._make_room, tasks)) and self.plan.settle(tasks, self._may_lose)

    def _may_lose(self, batches: Mapping[int, VictimBatch]) -> bool:
        return not self._not_allowed(batches)

    # -- room for one pod

    def _make_room(self, task: Task) -> bool:
        session = self._session
        if session.queues.why_not_allocatable(self._queue, task) is not None:
            return self._allows is not None and self._make_room_in_queue(task)
        spent = self._progress.spent
        decision = session.decide(task, self._within(task))
        if decision.node is not None and self._take(decision, {}) is None:
            self._progress.found(spent)
            return True
        self._choose_nodes(task)
        kind = session.class_key(task)
        is_like_last = self._last is not None and self._last[0] == kind
        again = [self._last[1]] if self._last is not None and is_like_last else list(self._rooms)
        again = [node for node in again if node in self._rooms and self._rooms[node].is_among(self._nodes)]
        if any(self._place_on(task, node) for node in again):
            return True
        while not self._progress.is_over and (batch := next(self._victims, None)) is not None:
            if any(self._place_on(task, node) for node in self._add_candidate(batch)):
                return True
        return False

    def _choose_nodes(self, task: Task) -> None:
        """Look only at nodes where the pod may fit once others have left."""
        nodes, within = self._helpful.of(task), self._within(task)
        self._nodes = nodes if within is None else nodes & within.mask

    def _add_candidate(self, batch: VictimBatch) -> list[str]:
        """Add a batch to the candidates, unless its job must keep its surplus and so its rest; returns its nodes."""
        self.considered += len(batch.tasks)
        if batch.is_rest and batch.job.key in self._must_keep_surplus:
            return []
        if self._beyond_budgets({self._seen: batch}):
            self._must_keep_surplus.add(batch.job.key)
            return []
        self._candidates[self._seen] = batch
        self._numbers_of_job.setdefault(batch.job.key, set()).add(self._seen)
        rooms: dict[str, NodeRoom] = {}
        for task in batch.tasks:
            node = self._cluster.holders[task.key]
            if node not in self._rooms:
                self._rooms[node] = NodeRoom(self._cluster, node)
            self._rooms[node].add(self._seen, task)
            rooms[node] = self._rooms[node]
        self._seen += 1
        return [node for node, room in rooms.items() if room.is_among(self._nodes)]

    def _place_on(self, task: Task, node: str) -> bool:
        """Place a pod on a node if it fits there without some of the candidates."""
        room, progress = self._rooms[node], self._progress
        place, candidates, spent = self._place(task, node), len(room.batches), progress.spent
        if progress.is_over or progress.was_tried(place, candidates):
            return False
        spared: set[int] = set()
        while room.could_hold(task) and not progress.is_over:
            found = self._fewest_victims(task, node, room, spared)
            if found is None:
                break
            decision, needed = found
            objection = self._take(decision, needed)
            if objection is None:
                progress.found(spent)
                return True
            # Other candidates may make enough room without the ones that must stay.
            for number in objection.refused:
                self._must_keep_surplus.add(self._candidates[number].job.key)
                self._drop(number)
            if not objection.refused and objection.homeless <= spared:
                break
            spared |= objection.homeless
        progress.failed(place, candidates)
        return False

    def _place(self, task: Task, node: str) -> Place:
        within = self._within(task)
        name = "" if within is None else within.name
        if self._disruptions is None:
            name += " beyond budgets"
        return name, self._session.class_key(task), node, len(self.plan.placed)

    def _fewest_victims(
        self, task: Task, node: str, room: NodeRoom, spared: set[int]
    ) -> tuple[Decision, Batches] | None:
        """The place that a pod would get on a node, and the fewest batches to evict for it, others than the spared."""
        among = self._cluster.mask((node,))
        needed = {number: self._candidates[number] for number in room.batches if number not in spared}
        for batch in needed.values():
            self._remove(batch, task)
        decision = self._decide(task, among)
        stopped: set[str] = set()
        for number in sorted(needed, reverse=True) if decision.node is not None else ():
            batch = needed[number]
            if batch.job.key in stopped:
                continue
            if room.can_take_back(number, task):
                self._restore(batch, task)
                without = self._decide(task, among)
                if without.node is not None:
                    decision = without
                    del needed[number]
                    continue
                self._remove(batch, task)
            stopped |= {batch.job.key} if batch.is_rest else set()
        for batch in needed.values():
            self._restore(batch, task)
        return None if decision.node is None else (decision, self._with_surplus_of(stopped, needed))

    def _with_surplus_of(self, stopped: set[str], needed: Batches) -> Batches:
        """The victims with the surplus of jobs that stop, on whatever node, unless all victims run again anyway."""
        if self._allows is None:
            return needed
        numbers = {number for key in stopped for number in self._numbers_of_job[key]}
        return {number: self._candidates[number] for number in sorted(numbers | needed.keys())}

    def _make_room_in_queue(self, task: Task) -> bool:
        """Evict pods until the queue may have what the pod requests, and the pod fits."""
        session, progress, needed = self._session, self._progress, Batches()
        place, spent = self._place(task, ""), progress.spent
        decision: Decision | None = None
        for batch in self._victims:
            number = self._seen
            self._add_candidate(batch)
            if number not in self._candidates:
                continue
            needed[number] = batch
            self._remove(batch, task, tell=True)
            tried = len(needed)
            if session.queues.why_not_allocatable(self._queue, task) is None and not progress.was_tried(place, tried):
                decision = self._decide(task, self._within(task))
                if decision.node is not None:
                    break
                progress.failed(place, tried)
                if progress.is_over:
                    decision = None
                    break
        else:
            decision = None
        stopped: set[str] = set()
        for number in sorted(needed, reverse=True) if decision is not None else ():
            batch = needed[number]
            if batch.job.key in stopped:
                continue
            self._restore(batch, task, tell=True)
            without = self._decide(task, self._within(task))
            if without.node is not None and session.queues.why_not_allocatable(self._queue, task) is None:
                decision = without
                del needed[number]
            else:
                self._remove(batch, task, tell=True)
                stopped |= {batch.job.key} if batch.is_rest else set()
        for batch in needed.values():
            self._restore(batch, task, tell=True)
        if decision is None or self._take(decision, self._with_surplus_of(stopped, needed)) is not None:
            return False
        progress.found(spent)
        return True

    def _decide(self, task: Task, among: Array | NodeSet | None) -> Decision:
        self._progress.decided(task)
        return self._session.decide(task, among)

    def _remove(self, batch: VictimBatch, beneficiary: Task, tell: bool = False) -> None:
        """Remove pods from the cluster for a while; with `tell` the plugins' event handlers hear of it."""
        self._progress.tried_without(beneficiary, len(batch.tasks))
        for task in batch.tasks:
            if tell:
                self._session.evict(task)
            else:
                self._cluster.evict(task.key)

    def _restore(self, batch: VictimBatch, beneficiary: Task, tell: bool = False) -> None:
        self._progress.tried_without(beneficiary, len(batch.tasks))
        for task in batch.tasks:
            if tell:
                self._session.restore(task)
            else:
                self._cluster.restore(task.key)

    # -- keeping victims

    def _take(self, decision: Decision, needed: Batches) -> Objection | None:
        """Keep a place and evict the victims for it, unless some must not go."""
        refused = self._beyond_budgets(needed)
        objection = Objection(refused, set()) if refused else self._objection(decision, needed)
        if objection is not None:
            return objection
        for number in needed:
            self._drop(number)
        self.plan.keep(decision, list(needed.values()))
        assert decision.node is not None
        self._last = self._session.class_key(decision.task), decision.node
        return None

    def _drop(self, number: int) -> None:
        """Take a batch out of the candidates."""
        batch = self._candidates.pop(number)
        self._numbers_of_job[batch.job.key].discard(number)
        for task in batch.tasks:
            self._rooms[self._cluster.holders[task.key]].drop(number)

    def _objection(self, decision: Decision, needed: Batches) -> Objection | None:
        """Which batches must not go for a place; nothing if all may."""
        plan = self.plan
        evicted = len(plan.evicted)
        if not needed and not (evicted and self._needs_moves):
            return None
        refused: set[int] = set()
        if not self._needs_moves:
            refused = self._not_allowed(needed)
            if not refused:
                plan.lost.update(range(evicted, evicted + len(needed)))
                return None
        homeless = plan.without_new_place(decision, list(needed.values()))
        stuck = self._not_allowed(homeless)
        if stuck:
            numbers = list(needed)
            return Objection(refused, {numbers[place - evicted] for place in stuck if place >= evicted})
        self._needs_moves = True
        plan.lost.update(homeless)
        return None

    def _beyond_budgets(self, batches: Batches) -> set[int]:
        """Which of these batches no budget lets go after the victims so far; none if the search may go beyond them."""
        found = set() if self._disruptions is None else self._disruptions.beyond(batches, self.plan.evicted)
        self.is_beyond_budgets |= bool(found)
        return found

    def _not_allowed(self, batches: Mapping[int, VictimBatch]) -> set[int]:
        """Which of these batches the plugins do not allow to be lost."""
        if self._allows is None or not batches:
            return set(batches)
        allowed = {
            t.key for t in self._allows(self._preemptor, [task for batch in batches.values() for task in batch.tasks])
        }
        refused = {n for n, batch in batches.items() if not all(task.key in allowed for task in batch.tasks)}
        self.refused.update([batches[number].job.queue for number in refused])
        return refused

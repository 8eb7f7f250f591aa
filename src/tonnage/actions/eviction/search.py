"""Search for victims of a preemptor, proven in the session before any pod is evicted.

Candidates come batch by batch in their order. For each batch the search looks at the batch's nodes as they will be once
the leaving pods have left, and removes all candidates there that have come so far. If the preemptor's pod fits then,
the search restores candidates, the latest first, as long as the pod still fits; the remaining ones are the victims. If
the plugins allow them, the search keeps them and goes on with the preemptor's next pod, else with the next batch. It
tries no combinations, so an impossible preemptor costs one look at every candidate, and no look at nodes that reject
the pod for a reason that no eviction resolves. It stops when it has tried too much for one cycle. In the end all pods
of the preemptor have a place, or nothing has changed.

A victim gets another place if there is one. Such a victim is moved, not lost, and the plugins are not asked about it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from tonnage.actions.eviction.noderoom import HelpfulNodes, NodeRoom
from tonnage.actions.eviction.searchlimit import Place, Progress
from tonnage.actions.eviction.victims import VictimBatch
from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

Allows = Callable[[Job, Sequence[Task]], Sequence[Task]]
"""Of victims that a preemptor would cost their place, those that may lose it."""
Batches = dict[int, VictimBatch]
"""Batches by number, in the order in which they came."""


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
        within: NodeSet | None = None,
    ) -> None:
        self._statement, self._session, self._cluster = statement, session, session.cluster
        self._queue, self._preemptor = queue, preemptor
        self._victims = victims
        self._allows = allows
        """Nothing if no victim may be lost: each must get another place."""
        self._reason = reason
        self._helpful = helpful
        self._progress = progress
        self._within = within
        """The nodes to make room on; all nodes if there is no set."""
        self._nodes: Array | None = None
        """Those of them that evictions may make room on for the pod at hand, as a mask; all at first."""
        self._candidates: Batches = {}
        """Candidates that have come and are not victims yet."""
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
        self._lost: set[int] = set()
        """The victims that may be lost, by position in `evicted`."""
        self.placed: list[Decision] = []
        self.evicted: list[VictimBatch] = []
        self.considered = 0
        """How many pods were candidates."""
        self.refused: set[str] = set()
        """Queues whose pods would have made room but must not be evicted."""

    def run(self, tasks: Sequence[Task]) -> bool:
        """Make room for all of the pods; if the result is no, the caller undoes the statement."""
        with self._session.looking_ahead():
            return all(map(self._make_room, tasks)) and self._lost.issuperset(self._move())

    # -- room for one pod

    def _make_room(self, task: Task) -> bool:
        session = self._session
        if session.queues.why_not_allocatable(self._queue, task) is not None:
            return self._allows is not None and self._make_room_in_queue(task)
        spent = self._progress.spent
        decision = session.decide(task, self._within)
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
        nodes = self._helpful.of(task)
        self._nodes = nodes if self._within is None else nodes & self._within.mask

    def _add_candidate(self, batch: VictimBatch) -> list[str]:
        """Add a batch to the candidates, unless its job must keep its surplus and so its rest; returns its nodes."""
        self.considered += len(batch.tasks)
        if batch.is_rest and batch.job.key in self._must_keep_surplus:
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
        while room.could_hold(task):
            found = self._fewest_victims(task, node, room)
            if found is None:
                break
            decision, needed = found
            refused = self._take(decision, needed)
            if refused is None:
                progress.found(spent)
                return True
            if not refused:
                break
            # Other candidates may make enough room without the ones that must stay.
            for number in refused:
                self._must_keep_surplus.add(self._candidates[number].job.key)
                self._drop(number)
        progress.failed(place, candidates)
        return False

    def _place(self, task: Task, node: str) -> Place:
        name = "" if self._within is None else self._within.name
        return name, self._session.class_key(task), node, len(self.placed)

    def _fewest_victims(self, task: Task, node: str, room: NodeRoom) -> tuple[Decision, Batches] | None:
        """The place that a pod would get on a node, and the fewest batches to evict for it."""
        among = self._cluster.mask((node,))
        needed = {number: self._candidates[number] for number in room.batches}
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
                decision = self._decide(task, self._within)
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
            without = self._decide(task, self._within)
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

    def _take(self, decision: Decision, needed: Batches) -> set[int] | None:
        """Keep a place and evict the victims for it; else the result is the victims that must stay, if known."""
        refused = self._refused(decision, needed)
        if refused is not None:
            return refused
        for number in needed:
            self._drop(number)
        self._keep(decision, list(needed.values()))
        assert decision.node is not None
        self._last = self._session.class_key(decision.task), decision.node
        return None

    def _drop(self, number: int) -> None:
        """Take a batch out of the candidates."""
        batch = self._candidates.pop(number)
        self._numbers_of_job[batch.job.key].discard(number)
        for task in batch.tasks:
            self._rooms[self._cluster.holders[task.key]].drop(number)

    def _keep(self, decision: Decision, batches: Sequence[VictimBatch]) -> None:
        for batch in batches:
            for task in batch.tasks:
                self._statement.evict(task, self._preemptor.key, self._reason)
        self._statement.take(decision)
        self.evicted += batches
        self.placed.append(decision)

    def _refused(self, decision: Decision, needed: Batches) -> set[int] | None:
        """The batches that must not be lost, none if no single one is to blame; nothing at all if all may be."""
        evicted, placed = len(self.evicted), len(self.placed)
        if not needed and not (evicted and self._needs_moves):
            return None
        refused: set[int] = set()
        if not self._needs_moves:
            refused = self._not_allowed(needed)
            if not refused:
                self._lost.update(range(evicted, evicted + len(needed)))
                return None
        mark = len(self._statement)
        self._keep(decision, list(needed.values()))
        homeless = set(self._move()) - self._lost
        self._statement.undo(mark)
        everyone = dict(enumerate(self.evicted))
        del self.evicted[evicted:], self.placed[placed:]
        if self._not_allowed({place: everyone[place] for place in homeless}):
            return refused
        self._needs_moves = True
        self._lost.update(homeless)
        return None

    def _not_allowed(self, batches: Batches) -> set[int]:
        """Which of these batches the plugins do not allow to be lost."""
        if self._allows is None or not batches:
            return set(batches)
        allowed = {
            t.key for t in self._allows(self._preemptor, [task for batch in batches.values() for task in batch.tasks])
        }
        refused = {n for n, batch in batches.items() if not all(task.key in allowed for task in batch.tasks)}
        self.refused.update([batches[number].job.queue for number in refused])
        return refused

    # -- new places for victims

    def _move(self) -> list[int]:
        """Move victims to new places, the last ones first; the result is the positions of those without one."""
        statement = self._statement
        homeless: list[int] = []
        hopeless: set[Hashable] = set()
        for place in range(len(self.evicted) - 1, -1, -1):
            batch = self.evicted[place]
            queue = self._cluster.queues[batch.job.queue]
            if self._session.jobs.node_sets(batch.job, batch.tasks) is not None:
                # Its pods would have to be in one node set in the new place too.
                homeless.append(place)
                continue
            mark = len(statement)
            for task in batch.tasks:
                kind = queue.name, self._session.class_key(task)
                refused = kind in hopeless or self._session.queues.why_not_allocatable(queue, task) is not None
                self._progress.decided(task)
                if refused or statement.move(task).node is None:
                    hopeless.add(kind)
                    statement.undo(mark)
                    homeless.append(place)
                    break
        return homeless

"""Finding pods that have to go so that a job can start: proven on the picture, before anybody is stopped.

Victims come batch by batch in their order. Whenever a batch comes, the batches of its nodes so far are taken out of the
picture of the time when the leaving pods have left. If the waiting pod fits on such a node then, those batches come
back with which it still fits, the latest first, and what is left is the least that has to go there. If the plugins
allow it, it is kept and the search goes on with the job's next pod, else with the next batch. No combinations are
tried, so that an impossible job costs one look at every victim. In the end all pods of the job have a place, or nothing
has changed.

Those who have to go get another place if there is one; who does is not lost, and the plugins are not asked about it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from tonnage.actions.eviction.noderoom import NodeRoom
from tonnage.actions.eviction.victims import VictimBatch
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

Allows = Callable[[Job, Sequence[Task]], Sequence[Task]]
"""Of pods that would be lost to a job, those that may be."""
Batches = dict[int, VictimBatch]
"""By number, in the order in which they came."""


class Search:
    """The search for victims of one job."""

    def __init__(
        self,
        statement: Statement,
        session: Session,
        queue: Queue,
        job: Job,
        victims: Iterator[VictimBatch],
        allows: Allows | None,
        reason: str,
        within: NodeSet | None = None,
    ) -> None:
        self._statement, self._session, self._cluster = statement, session, session.cluster
        self._queue, self._job = queue, job
        self._victims = victims
        self._allows = allows
        """Nothing if nobody may be lost: all who have to go must get another place."""
        self._reason = reason
        self._within = within
        """The nodes on which places are looked for; all if nothing is said."""
        self._known: Batches = {}
        """Batches that have come and stay so far."""
        self._of_job: dict[str, set[int]] = {}
        """Their numbers, by job."""
        self._keeping: set[str] = set()
        """Jobs that must keep what they could spare, and so the rest too."""
        self._rooms: dict[str, NodeRoom] = {}
        """What is there and what they hold, by node."""
        self._seen = 0
        self._last: tuple[Hashable, str] | None = None
        """Of which class the last pod was that got a place, and on which node."""
        self._needs_moves = allows is None
        """Whether some must not be lost, so that it takes new places for them."""
        self._lost: set[int] = set()
        """Who may be lost of those who have to go, by their place in that list."""
        self.placed: list[Decision] = []
        self.evicted: list[VictimBatch] = []
        self.considered = 0
        """How many pods were looked at as victims."""
        self.refused: set[str] = set()
        """Queues whose pods would have made room and must not be taken."""

    def run(self, tasks: Sequence[Task]) -> bool:
        """Make room for all of the pods; whether that was possible. If not, the statement is to be undone."""
        with self._session.looking_ahead():
            return all(map(self._make_room, tasks)) and self._lost.issuperset(self._move())

    # -- one pod

    def _make_room(self, task: Task) -> bool:
        session = self._session
        if session.queues.why_not_allocatable(self._queue, task) is not None:
            return self._allows is not None and self._make_room_in_queue(task)
        decision = session.decide(task, self._within)
        if decision.node is not None and self._take(decision, {}) is None:
            return True
        kind = session.class_key(task)
        is_like_last = self._last is not None and self._last[0] == kind
        again = [self._last[1]] if self._last is not None and is_like_last else list(self._rooms)
        within = None if self._within is None else self._within.mask
        again = [node for node in again if node in self._rooms and self._rooms[node].is_among(within)]
        if any(self._try(task, node) for node in again):
            return True
        return any(self._try(task, node) for batch in self._victims for node in self._come(batch))

    def _come(self, batch: VictimBatch) -> list[str]:
        """Take note of a batch; the nodes that it is on. A job without its rest could not use what it keeps."""
        self.considered += len(batch.tasks)
        if batch.is_rest and batch.job.key in self._keeping:
            return []
        self._known[self._seen] = batch
        self._of_job.setdefault(batch.job.key, set()).add(self._seen)
        rooms: dict[str, NodeRoom] = {}
        for task in batch.tasks:
            node = self._cluster.holders[task.key]
            if node not in self._rooms:
                self._rooms[node] = NodeRoom(self._cluster, node)
            self._rooms[node].add(self._seen, task)
            rooms[node] = self._rooms[node]
        self._seen += 1
        within = None if self._within is None else self._within.mask
        return [node for node, room in rooms.items() if room.is_among(within)]

    def _try(self, task: Task, node: str) -> bool:
        """Give a pod a place on a node if it fits there without some of the batches."""
        room = self._rooms[node]
        while room.could_hold(task):
            found = self._least(task, node, room)
            if found is None:
                return False
            decision, needed = found
            refused = self._take(decision, needed)
            if refused is None:
                return True
            if not refused:
                return False
            # Without those that must not go, others may do.
            for number in refused:
                self._keeping.add(self._known[number].job.key)
                self._drop(number)
        return False

    def _least(self, task: Task, node: str, room: NodeRoom) -> tuple[Decision, Batches] | None:
        """The place that a pod would get on a node, and the least that has to go for it."""
        session, among = self._session, self._cluster.mask((node,))
        needed = {number: self._known[number] for number in room.batches}
        for batch in needed.values():
            self._away(batch)
        decision = session.decide(task, among)
        stopped: set[str] = set()
        for number in sorted(needed, reverse=True) if decision.node is not None else ():
            batch = needed[number]
            if batch.job.key in stopped:
                continue
            if room.can_take_back(number, task):
                self._back(batch)
                without = session.decide(task, among)
                if without.node is not None:
                    decision = without
                    del needed[number]
                    continue
                self._away(batch)
            stopped |= {batch.job.key} if batch.is_rest else set()
        for batch in needed.values():
            self._back(batch)
        return None if decision.node is None else (decision, self._with_all_of(stopped, needed))

    def _with_all_of(self, stopped: set[str], needed: Batches) -> Batches:
        """With the rest of jobs goes what they could have spared, wherever it is, unless all run again anyway."""
        if self._allows is None:
            return needed
        numbers = {number for key in stopped for number in self._of_job[key]}
        return {number: self._known[number] for number in sorted(numbers | needed.keys())}

    def _make_room_in_queue(self, task: Task) -> bool:
        """Stop pods until the queue may have what the pod asks for, and the pod fits."""
        session, needed = self._session, Batches()
        tell = True
        decision: Decision | None = None
        for batch in self._victims:
            number = self._seen
            self._come(batch)
            if number not in self._known:
                continue
            needed[number] = batch
            self._away(batch, tell)
            if session.queues.why_not_allocatable(self._queue, task) is None:
                decision = session.decide(task, self._within)
                if decision.node is not None:
                    break
        else:
            decision = None
        stopped: set[str] = set()
        for number in sorted(needed, reverse=True) if decision is not None else ():
            batch = needed[number]
            if batch.job.key in stopped:
                continue
            self._back(batch, tell)
            without = session.decide(task, self._within)
            if without.node is not None and session.queues.why_not_allocatable(self._queue, task) is None:
                decision = without
                del needed[number]
            else:
                self._away(batch, tell)
                stopped |= {batch.job.key} if batch.is_rest else set()
        for batch in needed.values():
            self._back(batch, tell)
        return decision is not None and self._take(decision, self._with_all_of(stopped, needed)) is None

    def _away(self, batch: VictimBatch, tell: bool = False) -> None:
        """Take pods out of the picture, for the plugins too if they are told."""
        for task in batch.tasks:
            if tell:
                self._session.evict(task)
            else:
                self._cluster.evict(task.key)

    def _back(self, batch: VictimBatch, tell: bool = False) -> None:
        for task in batch.tasks:
            if tell:
                self._session.restore(task)
            else:
                self._cluster.restore(task.key)

    # -- keeping what was found

    def _take(self, decision: Decision, needed: Batches) -> set[int] | None:
        """Keep a place and stop those who have to go for it; or say which of them must not, if that is known."""
        refused = self._against(decision, needed)
        if refused is not None:
            return refused
        for number in needed:
            self._drop(number)
        self._keep(decision, list(needed.values()))
        assert decision.node is not None
        self._last = self._session.class_key(decision.task), decision.node
        return None

    def _drop(self, number: int) -> None:
        """A batch does not come into question any more."""
        batch = self._known.pop(number)
        self._of_job[batch.job.key].discard(number)
        for task in batch.tasks:
            self._rooms[self._cluster.holders[task.key]].drop(number)

    def _keep(self, decision: Decision, batches: Sequence[VictimBatch]) -> None:
        for batch in batches:
            for task in batch.tasks:
                self._statement.evict(task, self._job.key, self._reason)
        self._statement.take(decision)
        self.evicted += batches
        self.placed.append(decision)

    def _against(self, decision: Decision, needed: Batches) -> set[int] | None:
        """Which batches must not be lost, none of them if it takes more than one to tell; nothing if all may be."""
        evicted, placed = len(self.evicted), len(self.placed)
        if not needed and not (evicted and self._needs_moves):
            return None
        refused: set[int] = set()
        if not self._needs_moves:
            refused = self._must_stay(needed)
            if not refused:
                self._lost.update(range(evicted, evicted + len(needed)))
                return None
        mark = len(self._statement)
        self._keep(decision, list(needed.values()))
        homeless = set(self._move()) - self._lost
        self._statement.undo(mark)
        everyone = dict(enumerate(self.evicted))
        del self.evicted[evicted:], self.placed[placed:]
        if self._must_stay({place: everyone[place] for place in homeless}):
            return refused
        self._needs_moves = True
        self._lost.update(homeless)
        return None

    def _must_stay(self, batches: Batches) -> set[int]:
        """Which of these batches must not be lost."""
        if self._allows is None or not batches:
            return set(batches)
        allowed = {t.key for t in self._allows(self._job, [task for batch in batches.values() for task in batch.tasks])}
        refused = {n for n, batch in batches.items() if not all(task.key in allowed for task in batch.tasks)}
        self.refused.update([batches[number].job.queue for number in refused])
        return refused

    # -- new places

    def _move(self) -> list[int]:
        """Find new places for those who have to go, the last ones first; for whom there is none, by their place."""
        statement = self._statement
        homeless: list[int] = []
        hopeless: set[Hashable] = set()
        for place in range(len(self.evicted) - 1, -1, -1):
            batch = self.evicted[place]
            queue = self._cluster.queues[batch.job.queue]
            if self._session.jobs.node_sets(batch.job, batch.tasks) is not None:
                # Its pods would have to be close to each other in the new place too.
                homeless.append(place)
                continue
            mark = len(statement)
            for task in batch.tasks:
                kind = queue.name, self._session.class_key(task)
                refused = kind in hopeless or self._session.queues.why_not_allocatable(queue, task) is not None
                if refused or statement.move(task).node is None:
                    hopeless.add(kind)
                    statement.undo(mark)
                    homeless.append(place)
                    break
        return homeless

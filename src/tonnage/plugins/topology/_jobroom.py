"""Job room: how many pods of a job fit on each node, as columns that can be summed over groups of nodes.

Pods of one class form a kind, and each kind is counted by node. The count may be too high, never too low: pods of
several containers compete for cards, and kinds compete with each other. The total request of each resource is compared
with what is free as well. Terminating pods count as gone.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import CORES, LARGEST, MEMORY, SLOTS, UNLIMITED, Array, Nodes
from tonnage.cluster.jobs.job import HAVE_PLACES, Job
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.task import Task
from tonnage.framework.session import Session
from tonnage.model.resources import PODS, show
from tonnage.plugins.helpers.cardrules import CARD_FITS, CardAsk

Totals = Callable[[Array], Array]
"""Sums a column of nodes over groups of nodes."""
_MOST = 2**31 - 1
_MOST_REMEMBERED = 2**16


class _Kind(NamedTuple):
    """Pods of one class: their number, and how many of them fit on each node."""

    pods: int
    fits: Array


class _ResourceNeed(NamedTuple):
    """A resource: what the pods request in total, and what is free of it on each node."""

    resource: str
    wanted: int
    free: Array


class RoomFit(NamedTuple):
    """The fit of a job into groups of nodes."""

    holds: Array
    """How many of the pods each group holds, by their number alone."""
    enough: Array
    """Whether each group may hold all pods that the job needs."""
    tightness: Array
    """The part of the room that would be taken; 1 is all of it."""


class PodKinds:
    """Pods by class; classes are remembered, because a growing job asks for one pod at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, tuple[Task, Hashable]] = {}

    def sort(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """The pods by kind, in order."""
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()
        alike: dict[Hashable, list[Task]] = {}
        for task in tasks:
            known = self._known.get(task.key)
            if known is None or known[0] is not task:
                known = self._known[task.key] = task, self._session.class_key(task)
            alike.setdefault(known[1], []).append(task)
        return list(alike.values())


class JobRoom:
    """The room for the pods that a job, or a subgroup of it, asks for."""

    def __init__(self, session: Session, kinds: PodKinds, job: Job, tasks: Sequence[Task], subgroup: Path = ()) -> None:
        """`tasks` are the waiting pods, those that the job or subgroup needs to start first."""
        missing = job.tree.missing(job.with_place, subgroup) if subgroup else job.minimum - job.with_place()
        self.needed = min(max(missing, 1), len(tasks))
        """How many of the pods must be placed."""
        self.subject = f"subgroup {'/'.join(subgroup)} of {job.key}" if subgroup else job.key
        """Whose pods they are, in messages."""
        self.held = np.zeros(session.cluster.columns.size)
        """The number of its pods on each node."""
        for task in job.inside(subgroup, *HAVE_PLACES):
            state = session.cluster.nodes.get(session.cluster.holders.get(task.key, ""))
            if state is not None:
                self.held[state.row] += 1
        self._cluster = session.cluster
        if session.cluster.leaving:
            with session.looking_ahead():
                self._kinds, self._needs = self._look(session, kinds.sort(tasks))
        else:
            self._kinds, self._needs = self._look(session, kinds.sort(tasks))

    def _look(
        self, session: Session, sorted_tasks: Sequence[Sequence[Task]]
    ) -> tuple[list[_Kind], list[_ResourceNeed]]:
        kinds = [_Kind(len(alike), self._count(session, alike[0])) for alike in sorted_tasks]
        tasks = [task for alike in sorted_tasks for task in alike]
        if len(kinds) == 1 or len(tasks) > self.needed:
            # Counting is enough for one kind; and if not all pods are needed, it is open which will be placed.
            return kinds, []
        usable = np.logical_or.reduce([kind.fits > 0 for kind in kinds])
        return kinds, list(self._compare(tasks, usable))

    def _count(self, session: Session, task: Task) -> Array:
        """How many pods like this one fit on each node."""
        columns = self._cluster.columns
        needs = self._cluster.vector(task.requests)
        asked = needs.nonzero()[0]
        count = (columns.free.take(asked, axis=0) // needs.take(asked)[:, None]).min(axis=0, initial=_MOST)
        for demand in task.demands:
            for request in demand.requests:
                number = self._cluster.vendor_numbers[request.vendor]
                ask = CardAsk(request, task, self._cluster.vendors[number], number)
                count = np.minimum(count, self._count_cards(ask) // max(request.count, 1))
        if task.rules is None:
            # The first pods of the job itself may meet a pod's affinity.
            count = np.where(session.fitting(task), count, 0)
        result: Array = np.clip(count, 0, _MOST)
        return result

    def _count_cards(self, ask: CardAsk) -> Array:
        """How often each node can serve a request for one card."""
        columns = self._cluster.columns
        cards = Nodes(columns).cards
        fits = ask.codes(cards, columns) == CARD_FITS
        slots, memory = np.maximum(cards.free[SLOTS], 0), ask.request.memory_on(cards.total[MEMORY])
        each = np.minimum(slots, np.where(memory > np.int64(0), cards.free[MEMORY] // np.maximum(memory, 1), _MOST))
        if ask.cores:
            each = np.minimum(each, cards.free[CORES] // ask.cores)
        if ask.takes_whole_cards:
            each = np.minimum(each, 1)
        elif columns.plain and not ask.request.shares:
            each = np.where(ask.plain(cards), np.minimum(each, 1), each)
        count: Array = np.where(fits, np.maximum(each, 1), 0).sum(axis=0)
        if columns.foreign_total:
            owned = np.where(fits, slots, 0).sum(axis=0)
            count = np.minimum(count, np.maximum(owned - columns.foreign[ask.number], 0))
        return count

    def _compare(self, tasks: Sequence[Task], usable: Array) -> list[_ResourceNeed]:
        columns, wanted = self._cluster.columns, dict[str, int]()
        for task in tasks:
            for name, value in task.requests:
                wanted[name] = wanted.get(name, 0) + value
        needs = []
        for name, value in sorted(wanted.items()):
            place = columns.resources.get(name)
            if place is not None and value:
                free, offered = columns.free[place], columns.allocatable[place]
                free = np.where(offered < UNLIMITED, np.clip(free, 0, LARGEST), LARGEST)
                needs.append(_ResourceNeed(name, value, np.where(usable, free, 0)))
        return needs

    def fit(self, totals: Totals) -> RoomFit:
        """The fit of the job into the groups of nodes that `totals` sums over."""
        fitting = [totals(kind.fits) for kind in self._kinds]
        holds = np.add.reduce([np.minimum(fits, kind.pods) for kind, fits in zip(self._kinds, fitting, strict=True)])
        enough = holds >= self.needed
        tightness = self.needed / np.maximum(np.add.reduce(fitting), 1)
        shares = [need.wanted / np.maximum(totals(need.free), 1) for need in self._needs]
        if shares:
            tightness = np.maximum.reduce(shares)
            enough &= tightness <= 1
        return RoomFit(holds, enough, tightness)

    def capacity(self, totals: Totals) -> Array:
        """How many of the pods each group holds; beyond the job's own number if all are of one kind."""
        if len(self._kinds) == 1:
            return totals(self._kinds[0].fits)
        return self.fit(totals).holds

    def nearest(self, fit: RoomFit, groups: Sequence[int]) -> int:
        """The group that holds the most pods, then the one that lacks the least, then the first."""
        return min(groups, key=lambda group: (-fit.holds[group], fit.tightness[group], group))

    def shortage(self, totals: Totals, fit: RoomFit, group: int) -> str:
        """What a group lacks, with numbers."""
        holds = int(fit.holds[group])
        if holds < self.needed:
            return f"holds {holds}"
        lacking = []
        for name, wanted, column in self._needs:
            free = int(totals(column)[group])
            if free < wanted and name != PODS:
                lacking.append(f"{name}: {show(name, free)} of {show(name, wanted)} are free")
        return f"lacks {'; '.join(lacking)}" if lacking else f"holds {holds} by their number"

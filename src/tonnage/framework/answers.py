"""Combined answers of all plugins about jobs, queues and cards; `points` states the rule of each combination."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import groupby
from typing import Any

from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework import points
from tonnage.framework.decision import QueueFigures, QueueRecord, Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.points import QueueOrder, VictimQueues
from tonnage.framework.registration import Registered, Registration


class JobAnswers:
    """What the plugins say about jobs and the pods of a job."""

    def __init__(self, registration: Registration) -> None:
        questions = registration.questions
        self._orders = questions[points.JOB_ORDER]
        self._task_orders = questions[points.TASK_ORDER]
        self._valid = questions[points.JOB_VALID]
        self._ready = questions[points.JOB_READY]
        self._pipelined = questions[points.JOB_PIPELINED]
        self._starving = questions[points.JOB_STARVING]
        self._enqueueable = questions[points.JOB_ENQUEUEABLE]
        self._node_sets = questions[points.NODE_SETS]
        self._subgroup_node_sets = questions[points.SUBGROUP_NODE_SETS]
        self._preemptable = questions[points.PREEMPTABLE]
        self._reclaimer = questions[points.RECLAIMER]
        self._reclaimable = questions[points.RECLAIMABLE]

    def compare(self, one: Job, other: Job) -> int:
        """Below 0 if the first job comes before the second in their queue."""
        order = _first_decides(self._orders, one, other)
        return order or _compare((one.created, one.key), (other.created, other.key))

    def compare_tasks(self, one: Task, other: Task) -> int:
        """Below 0 if the first pod is placed before the second."""
        order = _first_decides(self._task_orders, one, other)
        return order or _compare(by_size(one), by_size(other))

    def ordered(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs of a queue, the next one first."""
        result = sorted(jobs, key=lambda job: (job.created, job.key))
        result.sort(key=cmp_to_key(lambda one, other: _first_decides(self._orders, one, other)))
        return result

    def ordered_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """The pods of a job in the order in which they are placed."""
        result = list(tasks)
        if len(result) > 1:
            result.sort(key=by_size)
            result.sort(key=cmp_to_key(lambda one, other: _first_decides(self._task_orders, one, other)))
        return result

    def why_invalid(self, job: Job) -> tuple[str, Reason] | None:
        """Why a job cannot be scheduled as it is, and which plugin says so."""
        return _first_reason(self._valid, job)

    def is_ready(self, job: Job) -> bool:
        """Whether enough pods of a job have a place for it to start."""
        return _all_agree(self._ready, job)

    def is_pipelined(self, job: Job) -> bool:
        """Whether enough pods of a job have a place, now or once others have left."""
        return _by_vote(self._pipelined, job)

    def is_starving(self, job: Job) -> bool:
        """Whether pods may be evicted so that more pods of a job get a place."""
        return _by_vote(self._starving, job)

    def is_enqueueable(self, job: Job) -> bool:
        """Whether a job may be admitted."""
        return _by_vote(self._enqueueable, job)

    def node_sets(self, job: Job, tasks: Sequence[Task]) -> NodeSets | None:
        """The sets of nodes of which one is to hold all of these pods of a job, in order; nothing if any nodes do.

        Sets without room now are among them, because others may leave.
        """
        return _first_sets(self._node_sets, job, tasks)

    def subgroup_node_sets(
        self, job: Job, path: Path, tasks: Sequence[Task], around: NodeSet | None
    ) -> NodeSets | None:
        """The same for pods of a subgroup, within the nodes of the set `around` it if there is one."""
        sets = _first_sets(self._subgroup_node_sets, job, path, tasks) if path else None
        return sets if sets is None or around is None else sets.within(around)

    def is_kept_together(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether some of these pods must be within one set of nodes."""
        if job.subgroups is not None:
            inside: dict[Path, list[Task]] = {}
            for task in tasks:
                path = job.subgroup_of(task)
                for depth in range(1, len(path) + 1):
                    inside.setdefault(path[:depth], []).append(task)
            if any(self.subgroup_node_sets(job, path, pods, None) is not None for path, pods in inside.items()):
                return True
        return self.node_sets(job, tasks) is not None

    def preemptable(self, job: Job, candidates: Sequence[Task], *, whole_gangs: bool = False) -> list[Task]:
        """Which pods may be evicted for a job of the same queue; gangs also as a whole, whatever protects them."""
        return _common_victims(self._preemptable, job, candidates, whole_gangs)

    def reclaimable(self, job: Job, candidates: Sequence[Task], *, whole_gangs: bool = False) -> list[Task]:
        """Which pods may be evicted for a job of another queue; `whole_gangs` as in `preemptable`."""
        return _common_victims(self._reclaimable, job, candidates, whole_gangs)

    def why_not_reclaimer(self, job: Job, tasks: Sequence[Task]) -> tuple[str, Reason] | None:
        """Why pods of other queues must not be evicted for these of a job, and which plugin says so."""
        return _first_reason(self._reclaimer, job, tasks)


class QueueAnswers:
    """What the plugins say about queues."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._orders = registration.questions[points.QUEUE_ORDER]
        self._overused = registration.questions[points.OVERUSED]
        self._allocatable = registration.questions[points.ALLOCATABLE]

    def compare(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first queue gets a pod placed before the second."""
        order = _first_decides(self._orders, one, other)
        return order or _compare((one.created, one.name), (other.created, other.name))

    def why_overused(self, queue: Queue) -> tuple[str, Reason] | None:
        """Why a queue has had its share, and which plugin says so."""
        return _first_reason(self._overused, queue)

    def why_not_allocatable(self, queue: Queue, task: Task) -> tuple[str, Reason] | None:
        """Why a queue must not get what a pod needs, and which plugin says so."""
        return _first_reason(self._allocatable, queue, task)

    def victim_order(self) -> VictimQueues:
        """In which order queues give up pods; by default the reverse of the order of queues."""
        make = self._registration.victim_queues
        return _ReverseOrder(self.compare) if make is None else make()

    def records(self) -> list[QueueRecord]:
        """What each queue deserves and holds; nothing if no plugin keeps shares."""
        report = self._registration.queue_report
        return [] if report is None else report[0]()

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        """The same in numbers, by queue and resource."""
        report = self._registration.queue_report
        return {} if report is None else report[1]()


class CardAnswers:
    """What the plugins say about the cards of a node."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._keys = registration.gpu_keys
        self._predicates = registration.card_predicates
        self._orders = registration.gpu_orders
        self._sets = registration.gpu_sets

    @property
    def follow_looks(self) -> bool:
        """Whether the looks of nodes tell all about which of their cards plugins reject."""
        return self._registration.cards_follow_looks

    def key(self, task: Task) -> Hashable:
        """Everything about a pod that the choice among a node's cards depends on."""
        return tuple([key(task) for key in self._keys])

    def rejected(self, task: Task, request: DeviceRequest, cards: Cards) -> Array | None:
        """Cards that some plugin rejects; nothing if none does."""
        rejected: Array | None = None
        for reject in self._predicates:
            part = reject(task, request, cards)
            if part is not None:
                rejected = part if rejected is None else rejected | part
        return rejected

    def ordered(
        self,
        task: Task,
        request: DeviceRequest,
        node: NodeState,
        free: Sequence[Sequence[int]],
        fitting: Sequence[int],
    ) -> Sequence[int]:
        """A node's fitting cards, the best first."""
        if not self._orders or len(fitting) < 2:
            return fitting
        parts = [score(task, request, node, free, fitting) for score in self._orders]
        totals = parts[0] if len(parts) == 1 else [sum(scores) for scores in zip(*parts, strict=True)]
        if totals.count(totals[0]) == len(totals):
            return fitting
        return [fitting[place] for place in sorted(range(len(fitting)), key=totals.__getitem__, reverse=True)]

    def choose_set(
        self, task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]
    ) -> Sequence[int] | None:
        """The cards to take of the fitting ones, if a plugin has an opinion."""
        for choose in self._sets:
            chosen = choose(task, request, row, candidates)
            if chosen is not None:
                return chosen
        return None


def _first_decides(functions: Sequence[Registered], one: object, other: object) -> int:
    """Which of two comes first, by the first plugin with an opinion; 0 if none has one."""
    for registered in functions:
        order: int = registered.function(one, other)
        if order:
            return order
    return 0


def _first_sets(functions: Sequence[Registered], *about: object) -> NodeSets | None:
    """The node sets of the first plugin that has an opinion."""
    for registered in functions:
        sets: NodeSets | None = registered.function(*about)
        if sets is not None:
            sets.attribute_to(registered.plugin)
            return sets
    return None


def _first_reason(functions: Sequence[Registered], *about: object) -> tuple[str, Reason] | None:
    """The first reason against something, with the plugin that gives it."""
    for registered in functions:
        reason: Reason | None = registered.function(*about)
        if reason is not None:
            return registered.plugin, reason
    return None


def _all_agree(functions: Sequence[Registered], job: Job) -> bool:
    """Whether no plugin says no."""
    return False not in [registered.function(job) for registered in functions]


def _by_vote(functions: Sequence[Registered], job: Job) -> bool:
    """No as soon as one says no; yes after the first tier with a yes, or if nobody votes."""
    for _, tier in groupby(functions, lambda registered: registered.tier):
        votes = [registered.function(job) for registered in tier]
        if False in votes:
            return False
        if True in votes:
            return True
    return True


def _common_victims(
    functions: Sequence[Registered], job: Job, candidates: Sequence[Task], whole_gangs: bool
) -> list[Task]:
    """The victims that the tiers allow, without those that a veto of any tier spares."""
    tier, victims = _allowed([one for one in functions if not one.is_veto], job, candidates)
    for registered in functions:
        if registered.is_veto and victims:
            ask = registered.overruled if whole_gangs or registered.tier < tier else None
            answer: Sequence[Task] | None = (ask or registered.function)(job, victims)
            if answer is not None:
                left = {task.key for task in answer}
                victims = [task for task in victims if task.key in left]
    return victims


def _allowed(functions: Sequence[Registered], job: Job, candidates: Sequence[Task]) -> tuple[int, list[Task]]:
    """The first tier with an opinion, and the victims that every plugin of it allows; none if nobody has one."""
    for number, tier in groupby(functions, lambda registered: registered.tier):
        answers = [registered.function(job, candidates) for registered in tier]
        opinions = [{task.key for task in answer} for answer in answers if answer is not None]
        if opinions:
            allowed = set.intersection(*opinions)
            return number, [task for task in candidates if task.key in allowed]
    return 0, []


class _ReverseOrder:
    """Queues give up pods in the reverse of their order."""

    def __init__(self, compare: QueueOrder) -> None:
        self._compare = compare

    def compare(self, one: Queue, other: Queue) -> int:
        return self._compare(other, one)

    def give_up(self, task: Task) -> None:
        """The order does not depend on it."""


def _compare(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    return (one > other) - (one < other)


def by_size(task: Task) -> tuple[bool, int, int, int, str, str, int, str]:
    """Larger pods first, by cards, CPU and memory; then the older, then by name with its last number as such.

    Pods with a pod affinity come last, so that the pods that they must be near are placed before them.
    """
    follows = task.rules is not None and bool(task.rules.affinity)
    cards = sum([request.count for demand in task.demands for request in demand.requests])
    needs = dict(task.requests)
    stem = task.key.rstrip("0123456789")
    index = int(task.key[len(stem) :][:18] or -1)
    return follows, -cards, -needs.get("cpu", 0), -needs.get("memory", 0), task.created, stem, index, task.key

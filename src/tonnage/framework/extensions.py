"""What plugins register with a session, and how their answers about cards, jobs and queues combine.

`points` declares every extension point; the answers about nodes are joined by `classes`.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Protocol, TypeVar

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework import points
from tonnage.framework.classes import FITS, Classes, PredicateFunction, everything
from tonnage.framework.combine import Registered, all_agree, by_vote, common_victims, first_decides, first_reason
from tonnage.framework.decision import QueueFigures, QueueRecord, Reason
from tonnage.framework.guard import Guard
from tonnage.framework.nodesets import NodeSets
from tonnage.framework.pernode import NodeScore, PerNodePredicate, PerNodeScore, Predicate
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import (
    Assign,
    CardPredicate,
    ChooseNodeSets,
    Confirm,
    Detail,
    Evaluate,
    ExtensionPoint,
    GpuOrder,
    GpuSet,
    GrantPredicate,
    JobCheck,
    JobOrder,
    JobTasksCheck,
    JobVote,
    Key,
    NodeOrder,
    PrePredicate,
    QueueCheck,
    QueueOrder,
    QueueTaskCheck,
    Reduce,
    TaskEvent,
    TaskOrder,
    VictimQueues,
    Victims,
)
from tonnage.framework.reasons import PLUGIN_FAILED
from tonnage.framework.scores import ScoreFunction
from tonnage.model.problem import Problem

F = TypeVar("F", bound=Callable[..., Any])
OPEN, CLOSE, REDUCE = "open", "close", "reduce"
"""What is watched of plugins beside what they answer at extension points: REDUCE fits scores to each other."""
QueueReport = Callable[[], list[QueueRecord]]
QueueNumbers = Callable[[], Mapping[str, Mapping[str, QueueFigures]]]


class CallObserver(Protocol):
    """Watches what plugins do, to measure it: makes of a plugin's function at a point the one that is called."""

    def __call__(self, plugin: str, point: str, function: F) -> F: ...


class SessionError(Exception):
    """Plugins that cannot be opened, or that cannot work together."""


class Extensions:
    """The callbacks of all plugins, in the order of tiers and plugins."""

    def __init__(self, cluster: Cluster, watch: CallObserver | None = None) -> None:
        self.cluster = cluster
        self._watch = watch
        """Sees what is called about many nodes or pods at once; what is called for each of them would cost too much."""
        self.registered: list[tuple[str, str]] = []
        """Which plugin registered something at which extension point, in that order."""
        self._opening: Plugin
        self._classes = Classes(cluster)
        self._pre_predicates: list[tuple[str, PrePredicate]] = []
        self._card_predicates: list[CardPredicate] = []
        self._gpu_orders: list[GpuOrder] = []
        self._gpu_keys: list[Key] = []
        self._gpu_sets: list[GpuSet] = []
        self._on_allocate: list[TaskEvent] = []
        self._on_deallocate: list[TaskEvent] = []
        self._assign: tuple[str, int, Assign] | None = None
        self._grant_predicates: list[tuple[int, GrantPredicate]] = []
        self._asked: dict[ExtensionPoint, list[Registered]] = {}
        self._problems: dict[tuple[str, str], Problem] = {}
        self.failures: Counter[str] = Counter()
        """How often each plugin failed to answer."""
        self._queue_report: tuple[QueueReport, QueueNumbers] | None = None
        self._victim_queues: Callable[[], VictimQueues] | None = None
        self.next_jobs: dict[str, Job] = {}
        """The job of each queue that is served next in it, while an action serves queues."""
        self.queue_changes: list[str] = []
        """Queues for which that changed, or what their pods hold, in the order of changes."""

    def job_of(self, task: Task) -> Job:
        """The job that a pod belongs to."""
        return self.cluster.groups.job_of(task)

    def report(self, problem: Problem) -> None:
        """Keep something that is wrong with an object but stops nothing; the latest word on each field counts."""
        self._problems[problem.object, problem.field] = problem

    def problems(self) -> list[Problem]:
        """What plugins reported, in the order of objects."""
        return [self._problems[key] for key in sorted(self._problems)]

    # -- registration

    @property
    def _is_built_in(self) -> bool:
        """Whether the answers of the plugin being opened can be relied on; checking them takes time."""
        return type(self._opening).__module__.startswith("tonnage.plugins.")

    @property
    def _guard(self) -> Guard:
        name = self._opening.name

        def failed(problem: Problem) -> None:
            self.failures[name] += 1
            self.report(problem)

        return Guard(name, failed)

    def _registers(self, point: ExtensionPoint, function: Callable[..., Any]) -> bool:
        """Note that the plugin being opened registers a function; no if the configuration switched that off."""
        plugin = self._opening
        if point.name in plugin.switched_off:
            return False
        if not self._is_built_in:
            try:
                inspect.signature(function).bind(*point.takes.split(", "))
            except TypeError as error:
                name = getattr(function, "__name__", repr(function))
                message = f"plugin {plugin.name}: {name} is registered as {point.name}, which takes ({point.takes})"
                raise SessionError(f"{message}: {error}") from error
            except ValueError:
                # A function of a compiled module may not tell what it takes.
                pass
        self.registered.append((plugin.name, point.name))
        return True

    def _watched(self, point: str, function: F, plugin: Plugin | None = None) -> F:
        """A function of a plugin, else of the one being opened, with somebody watching if that is wished."""
        return function if self._watch is None else self._watch((plugin or self._opening).name, point, function)

    def _add_question(self, point: ExtensionPoint, function: Callable[..., Any], is_veto: bool = False) -> None:
        """Register a question about queues, jobs or tasks."""
        if self._registers(point, function):
            if not self._is_built_in:
                function = self._guard.question(point, function)
            if point in _ABOUT_VICTIMS:
                function = self._watched(point.name, function)
            asked = Registered(self._opening.name, self._opening.tier, function, is_veto)
            self._asked.setdefault(point, []).append(asked)

    def add_queue_order(self, compare: QueueOrder) -> None:
        """Say which of two queues is served first."""
        self._add_question(points.QUEUE_ORDER, compare)

    def add_job_order(self, compare: JobOrder) -> None:
        """Say which of two jobs of a queue is served first."""
        self._add_question(points.JOB_ORDER, compare)

    def add_task_order(self, compare: TaskOrder) -> None:
        """Say which of two pods of a job is placed first."""
        self._add_question(points.TASK_ORDER, compare)

    def add_job_valid(self, check: JobCheck) -> None:
        """Say why a job cannot be scheduled as it is."""
        self._add_question(points.JOB_VALID, check)

    def add_job_ready(self, vote: JobVote) -> None:
        """Say whether enough pods of a job have a place for it to start."""
        self._add_question(points.JOB_READY, vote)

    def add_job_pipelined(self, vote: JobVote) -> None:
        """Say whether enough pods of a job have a place, now or once others have left."""
        self._add_question(points.JOB_PIPELINED, vote)

    def add_job_enqueueable(self, vote: JobVote) -> None:
        """Say whether a job may be looked at by the actions."""
        self._add_question(points.JOB_ENQUEUEABLE, vote)

    def add_node_sets(self, choose: ChooseNodeSets) -> None:
        """Say which sets of nodes are to be tried for the pods of a job as a whole."""
        if not self._registers(points.NODE_SETS, choose):
            return
        if not self._is_built_in:
            choose = self._guard.node_sets(choose, self.cluster)
        choose = self._watched(points.NODE_SETS.name, choose)
        self._asked.setdefault(points.NODE_SETS, []).append(Registered(self._opening.name, self._opening.tier, choose))

    def add_preemptable(self, choose: Victims, *, veto: bool = False) -> None:
        """Say which pods may be stopped for a job of the same queue.

        With `veto` it is asked about the pods that all others would stop, whatever its tier, and can only spare some.
        """
        self._add_question(points.PREEMPTABLE, choose, veto)

    def add_reclaimer(self, check: JobTasksCheck) -> None:
        """Say why pods of other queues must not be stopped for these of a job."""
        self._add_question(points.RECLAIMER, check)

    def add_reclaimable(self, choose: Victims, *, veto: bool = False) -> None:
        """Say which pods may be stopped for a job of another queue; `veto` as for one of the same."""
        self._add_question(points.RECLAIMABLE, choose, veto)

    def add_overused(self, check: QueueCheck) -> None:
        """Say why a queue has had its share."""
        self._add_question(points.OVERUSED, check)

    def add_allocatable(self, check: QueueTaskCheck) -> None:
        """Say why a queue must not get what a pod needs."""
        self._add_question(points.ALLOCATABLE, check)

    def add_pre_predicate(self, check: PrePredicate) -> None:
        """Look at a pod before any node is looked at."""
        if not self._registers(points.PRE_PREDICATE, check):
            return
        if not self._is_built_in:
            check = self._guard.pre_predicate(check)
        self._pre_predicates.append((self._opening.name, check))

    def _everything(self, task: Task) -> Hashable:
        """All that is in a pod and in its job, but names, age, and how far the job has come."""
        return everything(task), self.job_of(task).facts

    def add_predicate(self, check: Predicate, *, key: Key | None = None) -> None:
        """Say of one node whether it will do; asked once per class of pods and node, and again when the node changes.

        `key` names what of a pod the answer depends on; without it, pods that differ in anything are asked about apart.
        """
        if not self._registers(points.PREDICATE, check):
            return
        function = PerNodePredicate(self.cluster, self._guard, check, self.job_of)
        evaluate = self._watched(points.PREDICATE.name, function.evaluate)
        self._add_predicate(evaluate, key or self._everything, function.reasons, function.detail)

    def add_node_order(self, score: NodeScore, *, key: Key | None = None) -> None:
        """Score one node; asked as seldom as a predicate about one node."""
        if not self._registers(points.NODE_ORDER, score):
            return
        evaluate = self._watched(points.NODE_ORDER.name, PerNodeScore(self.cluster, self._guard, score).evaluate)
        self._classes.scorers.append(ScoreFunction(self._opening.name, evaluate, key or self._everything))

    def add_batch_predicate(
        self,
        evaluate: Evaluate,
        *,
        key: Key,
        reasons: Sequence[str],
        detail: Detail,
        confirm: Confirm | None = None,
        fits: int = FITS,
        fresh: bool = False,
    ) -> int:
        """Say for all nodes at once which will not do; `confirm` settles the ones answered with MAYBE, one by one.

        `key` names everything about a pod that the answer depends on, `reasons` the codes from 1 on, and `detail`
        captures what a sentence about one node needs. A code without a reason means that the node fits; `fits` is the
        usual one. With `fresh` it is asked about all nodes whenever anything changed, because the answer about one node
        depends on others; that is expensive. The result is the predicate's number.
        """
        if not self._registers(points.BATCH_PREDICATE, evaluate):
            return -1
        names = ("", *reasons)
        if not self._is_built_in:
            evaluate = self._guard.predicate(evaluate, failed=len(names))
            names += (PLUGIN_FAILED,)
        evaluate = self._watched(points.BATCH_PREDICATE.name, evaluate)
        return self._add_predicate(evaluate, key, names, detail, confirm, fits, fresh)

    def _add_predicate(
        self,
        evaluate: Evaluate,
        key: Key,
        names: Sequence[str],
        detail: Detail,
        confirm: Confirm | None = None,
        fits: int = FITS,
        fresh: bool = False,
    ) -> int:
        number = len(self._classes.predicates)
        self._classes.predicates.append(
            PredicateFunction(number, self._opening.name, evaluate, key, names, detail, confirm, fits, fresh)
        )
        return number

    def add_batch_node_order(
        self,
        evaluate: NodeOrder,
        *,
        key: Key,
        reduce: Reduce | None = None,
        fresh: bool = False,
        alike: float = 0.0,
        every_pod: bool = False,
    ) -> None:
        """Score all nodes at once; `key` names everything about a pod that the scores depend on.

        `reduce` fits the scores to those of all other nodes, once per decision. With `fresh` all nodes are scored
        whenever anything changed, because the score of one depends on others; that is expensive. `alike` is what every
        node scores when `evaluate` says nothing. With `every_pod` all nodes are scored for each pod, whatever its key.
        """
        if not self._registers(points.BATCH_NODE_ORDER, evaluate):
            return
        if not self._is_built_in:
            guard = self._guard
            evaluate = guard.node_order(evaluate)
            reduce = guard.reduce(reduce) if reduce is not None else None
        evaluate = self._watched(points.BATCH_NODE_ORDER.name, evaluate)
        reduce = self._watched(REDUCE, reduce) if reduce is not None else None
        self._classes.scorers.append(ScoreFunction(self._opening.name, evaluate, key, reduce, fresh, alike, every_pod))

    def add_card_predicate(self, reject: CardPredicate, *, key: Key) -> None:
        """Say for the cards of some nodes which must not be taken."""
        if not self._registers(points.CARD_PREDICATE, reject):
            return
        self._card_predicates.append(reject if self._is_built_in else self._guard.card_predicate(reject))
        self._add_gpu_key(key)

    def add_gpu_order(self, score: GpuOrder, *, key: Key) -> None:
        """Score the cards of a node."""
        if not self._registers(points.GPU_ORDER, score):
            return
        self._gpu_orders.append(score if self._is_built_in else self._guard.gpu_order(score))
        self._add_gpu_key(key)

    def _add_gpu_key(self, key: Key) -> None:
        if key not in self._gpu_keys:
            self._gpu_keys.append(key)

    def add_gpu_set(self, choose: GpuSet) -> None:
        """Choose which of a node's fitting cards go together."""
        if not self._registers(points.GPU_SET, choose):
            return
        self._gpu_sets.append(choose if self._is_built_in else self._guard.gpu_set(choose))

    def set_assign(self, assign: Assign, predicate: int) -> None:
        """Hand out a node's cards to a pod; the predicate of that number is the one that looked at cards.

        An error in it is not caught: nobody else could say what a pod gets.
        """
        if not self._registers(points.ASSIGN, assign):
            return
        if self._assign is not None:
            raise SessionError(
                f"plugins {self._assign[0]} and {self._opening.name} both want to assign devices; keep one"
            )
        self._assign = (self._opening.name, predicate, self._watched(points.ASSIGN.name, assign))

    def add_grant_predicate(self, is_too_much: GrantPredicate, predicate: int) -> None:
        """Look at what a pod would get before it gets it.

        A node on which that is too much is turned down for the first reason of the plugin's predicate of that number.
        That predicate's key must name everything that the answer depends on beside the node.
        """
        if not self._registers(points.GRANT_PREDICATE, is_too_much):
            return
        if not self._is_built_in:
            is_too_much = self._guard.grant_predicate(is_too_much)
        self._grant_predicates.append((predicate, is_too_much))

    def add_event_handler(self, allocate: TaskEvent | None = None, deallocate: TaskEvent | None = None) -> None:
        """Be told of every placement and of every one undone."""
        for told, handlers in ((allocate, self._on_allocate), (deallocate, self._on_deallocate)):
            if told is not None and self._registers(points.EVENTS, told):
                handlers.append(told if self._is_built_in else self._guard.event(told))

    def set_queue_report(self, report: QueueReport, figures: QueueNumbers) -> None:
        """Say where queues stand, for people and in numbers; the first plugin that keeps shares does."""
        if self._queue_report is None:
            self._queue_report = report, figures

    def set_victim_queues(self, make: Callable[[], VictimQueues]) -> None:
        """Say which queue gives up a pod next when others reclaim; the first plugin that keeps shares does."""
        if self._victim_queues is None:
            self._victim_queues = make

    def queue_records(self) -> list[QueueRecord]:
        """Where queues stand; nothing if no plugin keeps shares."""
        return [] if self._queue_report is None else self._queue_report[0]()

    def queue_figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        """The same in numbers, by queue and resource."""
        return {} if self._queue_report is None else self._queue_report[1]()

    # -- what plugins ask of each other

    def gpu_key(self, task: Task) -> Hashable:
        """Everything about a pod that the choice among a node's cards depends on."""
        return tuple([key(task) for key in self._gpu_keys])

    def rejected_cards(self, task: Task, request: DeviceRequest, cards: Cards) -> Array | None:
        """Cards that some plugin rules out; nothing if none does."""
        rejected: Array | None = None
        for reject in self._card_predicates:
            part = reject(task, request, cards)
            if part is not None:
                rejected = part if rejected is None else rejected | part
        return rejected

    def order_cards(
        self,
        task: Task,
        request: DeviceRequest,
        node: NodeState,
        free: Sequence[Sequence[int]],
        fitting: Sequence[int],
    ) -> Sequence[int]:
        """A node's fitting cards, the best first."""
        if not self._gpu_orders or len(fitting) < 2:
            return fitting
        parts = [score(task, request, node, free, fitting) for score in self._gpu_orders]
        totals = parts[0] if len(parts) == 1 else [sum(scores) for scores in zip(*parts, strict=True)]
        if totals.count(totals[0]) == len(totals):
            return fitting
        return [fitting[place] for place in sorted(range(len(fitting)), key=totals.__getitem__, reverse=True)]

    def choose_set(
        self, task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]
    ) -> Sequence[int] | None:
        """Which of the fitting cards to take, if a plugin cares."""
        for choose in self._gpu_sets:
            chosen = choose(task, request, row, candidates)
            if chosen is not None:
                return chosen
        return None

    # -- what actions tell and ask about queues and jobs

    def serve_next(self, queue: str, job: Job | None) -> None:
        """Say which job of a queue is served next; the order of queues may depend on it."""
        if job is None:
            self.next_jobs.pop(queue, None)
        else:
            self.next_jobs[queue] = job
        self.queue_changes.append(queue)

    def _of(self, point: ExtensionPoint) -> Sequence[Registered]:
        return self._asked.get(point, ())

    def compare_queues(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first is served before the second."""
        order = first_decides(self._of(points.QUEUE_ORDER), one, other)
        return order or _compare((one.created, one.name), (other.created, other.name))

    def compare_jobs(self, one: Job, other: Job) -> int:
        """Below 0 if the first is served before the second."""
        order = first_decides(self._of(points.JOB_ORDER), one, other)
        return order or _compare((one.created, one.key), (other.created, other.key))

    def compare_tasks(self, one: Task, other: Task) -> int:
        """Below 0 if the first is placed before the second."""
        order = first_decides(self._of(points.TASK_ORDER), one, other)
        return order or _compare(by_size(one), by_size(other))

    def ordered_jobs(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs of a queue in the order in which they are served."""
        orders = self._of(points.JOB_ORDER)
        result = sorted(jobs, key=lambda job: (job.created, job.key))
        result.sort(key=cmp_to_key(lambda one, other: first_decides(orders, one, other)))
        return result

    def ordered(self, tasks: Iterable[Task]) -> list[Task]:
        """The pods of a job in the order in which they are placed."""
        result = list(tasks)
        if len(result) > 1:
            orders = self._of(points.TASK_ORDER)
            result.sort(key=by_size)
            result.sort(key=cmp_to_key(lambda one, other: first_decides(orders, one, other)))
        return result

    def why_invalid(self, job: Job) -> tuple[str, Reason] | None:
        """Why a job cannot be scheduled as it is, and which plugin says so."""
        return first_reason(self._of(points.JOB_VALID), job)

    def is_ready(self, job: Job) -> bool:
        """Whether enough pods of a job have a place for it to start."""
        return all_agree(self._of(points.JOB_READY), job)

    def is_pipelined(self, job: Job) -> bool:
        """Whether enough pods of a job have a place, now or once others have left."""
        return by_vote(self._of(points.JOB_PIPELINED), job)

    def is_enqueueable(self, job: Job) -> bool:
        """Whether a job may be looked at."""
        return by_vote(self._of(points.JOB_ENQUEUEABLE), job)

    def node_sets(self, job: Job, tasks: Sequence[Task]) -> NodeSets | None:
        """The sets of nodes of which one is to hold all of these pods of a job, in order; nothing if any nodes do.

        Sets without room now are among them, because others may leave.
        """
        for registered in self._of(points.NODE_SETS):
            sets: NodeSets | None = registered.function(job, tasks)
            if sets is not None:
                sets.said_by(registered.plugin)
                return sets
        return None

    def preemptable(self, job: Job, candidates: Sequence[Task]) -> list[Task]:
        """Which pods may be stopped for a job of the same queue."""
        return common_victims(self._of(points.PREEMPTABLE), job, candidates)

    def why_not_reclaimer(self, job: Job, tasks: Sequence[Task]) -> tuple[str, Reason] | None:
        """Why pods of other queues must not be stopped for these of a job, and which plugin says so."""
        return first_reason(self._of(points.RECLAIMER), job, tasks)

    def victim_queues(self) -> VictimQueues:
        """In which order queues give up pods; the reverse of the order in which they are served if nobody says."""
        return _ReverseOrder(self.compare_queues) if self._victim_queues is None else self._victim_queues()

    def reclaimable(self, job: Job, candidates: Sequence[Task]) -> list[Task]:
        """Which pods may be stopped for a job of another queue."""
        return common_victims(self._of(points.RECLAIMABLE), job, candidates)

    def why_overused(self, queue: Queue) -> tuple[str, Reason] | None:
        """Why a queue has had its share, and which plugin says so."""
        return first_reason(self._of(points.OVERUSED), queue)

    def why_not_allocatable(self, queue: Queue, task: Task) -> tuple[str, Reason] | None:
        """Why a queue must not get what a pod needs, and which plugin says so."""
        return first_reason(self._of(points.ALLOCATABLE), queue, task)


_ABOUT_VICTIMS = (points.PREEMPTABLE, points.RECLAIMABLE)


class _ReverseOrder:
    """Queues give up pods in the reverse of the order in which they are served."""

    def __init__(self, compare: QueueOrder) -> None:
        self._compare = compare

    def compare(self, one: Queue, other: Queue) -> int:
        return self._compare(other, one)

    def give_up(self, task: Task) -> None:
        """It makes no difference."""


def _compare(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    return (one > other) - (one < other)


def by_size(task: Task) -> tuple[bool, int, int, int, str, str, int, str]:
    """Larger pods first, by cards, processors and memory; then the older, then by name with its last number as such.

    Pods that must be near others come after those that need not, so that those others can be there first.
    """
    follows = task.rules is not None and bool(task.rules.affinity)
    cards = sum([request.count for demand in task.demands for request in demand.requests])
    needs = dict(task.requests)
    stem = task.key.rstrip("0123456789")
    index = int(task.key[len(stem) :][:18] or -1)
    return follows, -cards, -needs.get("cpu", 0), -needs.get("memory", 0), task.created, stem, index, task.key

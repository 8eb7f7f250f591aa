"""Registration: what plugins register at a session's extension points, checked and in the order of tiers and plugins.

`points` declares every extension point. The combined answers and the decider call what is registered here.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework import points
from tonnage.framework.classes import Classes, PredicateFunction, everything
from tonnage.framework.classfit import FITS
from tonnage.framework.decision import QueueFigures, QueueRecord
from tonnage.framework.guard import Guard, PluginProblems
from tonnage.framework.nodesets import NodeSets
from tonnage.framework.pernode import NodeScore, PerNodePredicate, PerNodeScore, Predicate
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import (
    Assign,
    CardPredicate,
    ChooseNodeSets,
    ChooseSubGroupNodeSets,
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
    Note,
    PrePredicate,
    QueueCheck,
    QueueOrder,
    QueueTaskCheck,
    Reads,
    ReadsOf,
    Reduce,
    TaskEvent,
    TaskOrder,
    VictimQueues,
    Victims,
    VolumeChoice,
)
from tonnage.framework.reasons import PLUGIN_FAILED
from tonnage.framework.scores import ScoreFunction

F = TypeVar("F", bound=Callable[..., Any])
OPEN, CLOSE, REDUCE = "open", "close", "reduce"
"""What a `CallObserver` sees beside extension points; REDUCE fits a plugin's scores to each other."""
QueueReport = Callable[[], list[QueueRecord]]
QueueNumbers = Callable[[], Mapping[str, Mapping[str, QueueFigures]]]
_VICTIM_POINTS = (points.PREEMPTABLE, points.RECLAIMABLE)


class CallObserver(Protocol):
    """Measures calls of plugins: turns a plugin's function at a point into the one that the session calls."""

    def __call__(self, plugin: str, point: str, function: F) -> F: ...


class SessionError(Exception):
    """Plugins that cannot be opened, or that cannot work together."""


class Registered(NamedTuple):
    """A callback, and the plugin and tier it belongs to."""

    plugin: str
    tier: int
    function: Callable[..., Any]
    is_veto: bool = False
    """Of a callback about victims: whether it only spares some of the pods that others would evict."""
    overruled: Callable[..., Any] | None = None
    """The callback that is asked instead where a later tier decides."""


class Registration:
    """The callbacks of all plugins of a session. Plugins reach its methods as `session.add_...`."""

    def __init__(
        self, cluster: Cluster, classes: Classes, problems: PluginProblems, observer: CallObserver | None
    ) -> None:
        self._cluster = cluster
        self._classes = classes
        self._problems = problems
        self._observer = observer
        """Sees calls about many nodes or pods at once; observing calls about each of them would cost too much."""
        self._opening: Plugin
        self.entries: list[tuple[str, str]] = []
        """Which plugin registered something at which extension point, in that order."""
        self.questions: dict[ExtensionPoint, list[Registered]] = {point: [] for point in points.POINTS}
        """The callbacks about queues, jobs and tasks."""
        self.pre_predicates: list[tuple[str, PrePredicate]] = []
        self.card_predicates: list[CardPredicate] = []
        self.cards_follow_looks = True
        """Whether card predicates read nothing but the looks of nodes."""
        self.gpu_orders: list[GpuOrder] = []
        self.gpu_keys: list[Key] = []
        self.gpu_sets: list[GpuSet] = []
        self.on_allocate: list[TaskEvent] = []
        self.on_deallocate: list[TaskEvent] = []
        self.assign: tuple[str, int, Assign] | None = None
        self.volume_choice: tuple[str, VolumeChoice] | None = None
        """The plugin that hands out cards, the number of its predicate, and the function."""
        self.grant_predicates: list[tuple[int, GrantPredicate]] = []
        self.queue_report: tuple[QueueReport, QueueNumbers] | None = None
        self.victim_queues: Callable[[], VictimQueues] | None = None

    def begin(self, plugin: Plugin) -> None:
        """Note whose callbacks the next calls register."""
        self._opening = plugin

    def observed(self, plugin: Plugin, point: str, function: F) -> F:
        """A function of a plugin as the session calls it: with the observer around it, if there is one."""
        return function if self._observer is None else self._observer(plugin.name, point, function)

    def _observed(self, point: str, function: F) -> F:
        return self.observed(self._opening, point, function)

    @property
    def _guard(self) -> Guard:
        return Guard(self._opening.name, partial(self._problems.failed, self._opening.name))

    def _registers(self, point: ExtensionPoint, function: Callable[..., Any]) -> bool:
        """Record a registration of the plugin being opened; the result is no if the point is switched off for it."""
        plugin = self._opening
        if point.name in plugin.options.switched_off:
            return False
        if not self._opening.trusted:
            try:
                inspect.signature(function).bind(*point.takes.split(", "))
            except TypeError as error:
                name = getattr(function, "__name__", repr(function))
                message = f"plugin {plugin.name}: {name} is registered as {point.name}, which takes ({point.takes})"
                raise SessionError(f"{message}: {error}") from error
            except ValueError:
                # A function of a compiled module may not tell what it takes.
                pass
        self.entries.append((plugin.name, point.name))
        return True

    def _add_question(
        self, point: ExtensionPoint, function: Callable[..., Any], is_veto: bool = False, later: Victims | None = None
    ) -> None:
        """Register a question about queues, jobs or tasks."""
        if self._registers(point, function):
            overruled = None if later is None else self._asked(point, later)
            name, tier = self._opening.name, self._opening.options.tier
            self.questions[point].append(Registered(name, tier, self._asked(point, function), is_veto, overruled))

    def _asked(self, point: ExtensionPoint, function: Callable[..., Any]) -> Callable[..., Any]:
        """A question as the session asks it: guarded unless the plugin is trusted, and observed if it may take long."""
        if not self._opening.trusted:
            function = self._guard.question(point, function)
        return self._observed(point.name, function) if point in _VICTIM_POINTS else function

    def add_queue_order(self, compare: QueueOrder) -> None:
        """Say which of two queues comes first."""
        self._add_question(points.QUEUE_ORDER, compare)

    def add_job_order(self, compare: JobOrder) -> None:
        """Say which of two jobs of a queue comes first."""
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

    def add_job_starving(self, vote: JobVote) -> None:
        """Say whether pods may be evicted so that more pods of a job get a place."""
        self._add_question(points.JOB_STARVING, vote)

    def add_job_enqueueable(self, vote: JobVote) -> None:
        """Say whether `enqueue` may admit a job."""
        self._add_question(points.JOB_ENQUEUEABLE, vote)

    def add_node_sets(self, choose: ChooseNodeSets) -> None:
        """Say which sets of nodes are to be tried for the pods of a job as a whole."""
        self._add_node_sets(points.NODE_SETS, choose)

    def add_subgroup_node_sets(self, choose: ChooseSubGroupNodeSets) -> None:
        """Say which sets of nodes are to be tried for the pods of a subgroup of a job."""
        self._add_node_sets(points.SUBGROUP_NODE_SETS, choose)

    def _add_node_sets(self, point: ExtensionPoint, choose: Callable[..., NodeSets | None]) -> None:
        if not self._registers(point, choose):
            return
        if not self._opening.trusted:
            choose = self._guard.node_sets(choose, self._cluster)
        choose = self._observed(point.name, choose)
        self.questions[point].append(Registered(self._opening.name, self._opening.options.tier, choose))

    def add_preemptable(self, choose: Victims, *, veto: bool = False, later: Victims | None = None) -> None:
        """Say which pods may be evicted for a job of the same queue.

        With `veto` it is called last, whatever its tier, with the pods that the others would evict, and spares some.
        With `later` that is called instead where a later tier than its own has decided.
        """
        self._add_question(points.PREEMPTABLE, choose, veto, later)

    def add_reclaimer(self, check: JobTasksCheck) -> None:
        """Say why pods of other queues must not be evicted for these pods of a job."""
        self._add_question(points.RECLAIMER, check)

    def add_reclaimable(self, choose: Victims, *, veto: bool = False, later: Victims | None = None) -> None:
        """Say which pods may be evicted for a job of another queue; `veto` and `later` as in `add_preemptable`."""
        self._add_question(points.RECLAIMABLE, choose, veto, later)

    def add_overused(self, check: QueueCheck) -> None:
        """Say why a queue has had its share."""
        self._add_question(points.OVERUSED, check)

    def add_allocatable(self, check: QueueTaskCheck) -> None:
        """Say why a queue must not get what a pod needs."""
        self._add_question(points.ALLOCATABLE, check)

    def add_pre_predicate(self, check: PrePredicate) -> None:
        """Say why no node will do for a pod, before any node is considered."""
        if not self._registers(points.PRE_PREDICATE, check):
            return
        if not self._opening.trusted:
            check = self._guard.pre_predicate(check)
        self.pre_predicates.append((self._opening.name, check))

    def _everything(self, task: Task) -> Hashable:
        """All that is in a pod and in its job, but names, age, and how far the job has come."""
        return everything(task), self._cluster.groups.job_of(task).facts

    def add_predicate(self, check: Predicate, *, key: Key | None = None) -> None:
        """Say whether one node fits; called once per class of pods and node, and again when the node changes.

        `key` names what of a pod the answer depends on; without it, pods that differ in anything are of two classes.
        """
        if not self._registers(points.PREDICATE, check):
            return
        function = PerNodePredicate(self._cluster, self._guard, check, self._cluster.groups.job_of)
        evaluate = self._observed(points.PREDICATE.name, function.evaluate)
        self._add_predicate(evaluate, key or self._everything, function.reasons, function.detail)

    def add_node_order(self, score: NodeScore, *, key: Key | None = None) -> None:
        """Score one node; asked as seldom as a predicate about one node."""
        if not self._registers(points.NODE_ORDER, score):
            return
        evaluate = self._observed(points.NODE_ORDER.name, PerNodeScore(self._cluster, self._guard, score).evaluate)
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
        detail_per_class: bool = False,
        reads: ReadsOf = Reads.EVERYTHING,
    ) -> int:
        """Say for all nodes at once which do not fit; `confirm` decides nodes answered with MAYBE, one by one.

        `key` names everything about a pod that the answer depends on, `reasons` the codes from 1 on, and `detail`
        captures what a sentence about one node needs. A code without a reason means that the node fits; `fits` is the
        usual one. With `fresh` it is called for all nodes whenever anything changed, because the answer about one node
        depends on others; that is expensive. With `detail_per_class` what `detail` captures of a node serves all pods
        with the same keys until the node changes. `reads` says what of a node the answer depends on, so that it is not
        called in vain. The result is the predicate's number.
        """
        if not self._registers(points.BATCH_PREDICATE, evaluate):
            return -1
        names = ("", *reasons)
        if not self._opening.trusted:
            evaluate = self._guard.predicate(evaluate, failed=len(names))
            names += (PLUGIN_FAILED,)
        evaluate = self._observed(points.BATCH_PREDICATE.name, evaluate)
        return self._add_predicate(evaluate, key, names, detail, confirm, fits, fresh, detail_per_class, reads)

    def _add_predicate(
        self,
        evaluate: Evaluate,
        key: Key,
        names: Sequence[str],
        detail: Detail,
        confirm: Confirm | None = None,
        fits: int = FITS,
        fresh: bool = False,
        detail_per_class: bool = False,
        reads: ReadsOf = Reads.EVERYTHING,
    ) -> int:
        number = len(self._classes.predicates)
        self._classes.predicates.append(
            PredicateFunction(
                number, self._opening.name, evaluate, key, names, detail, confirm, fits, fresh, detail_per_class, reads
            )
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
        reads: ReadsOf = Reads.EVERYTHING,
        part: str = "",
        note: Note | None = None,
    ) -> None:
        """Score all nodes at once; `key` names everything about a pod that the scores depend on.

        `reduce` fits the scores to those of all other nodes, once per decision. With `fresh` all nodes are scored
        whenever anything changed, because the score of one depends on others; that is expensive. `alike` is what every
        node scores when `evaluate` says nothing. With `every_pod` all nodes are scored for each pod, whatever its key.
        `reads` says what of a node its score depends on, before `reduce`.
        `part` names the score in decisions beside the plugin, for plugins whose score has several parts. `note` says in
        a sentence what the score of the chosen node means; only a trusted plugin may give one.
        """
        if not self._registers(points.BATCH_NODE_ORDER, evaluate):
            return
        if not self._opening.trusted:
            guard = self._guard
            evaluate = guard.node_order(evaluate)
            reduce = guard.reduce(reduce) if reduce is not None else None
        evaluate = self._observed(points.BATCH_NODE_ORDER.name, evaluate)
        reduce = self._observed(REDUCE, reduce) if reduce is not None else None
        name = f"{self._opening.name}/{part}" if part else self._opening.name
        note = note if self._opening.trusted else None
        self._classes.scorers.append(ScoreFunction(name, evaluate, key, reduce, fresh, alike, every_pod, reads, note))

    def add_card_predicate(
        self, reject: CardPredicate, *, key: Key, reads: Literal[Reads.EVERYTHING, Reads.LOOK] = Reads.EVERYTHING
    ) -> None:
        """Say which cards of some nodes must not be taken; `reads` says what of a node that depends on."""
        if not self._registers(points.CARD_PREDICATE, reject):
            return
        self.cards_follow_looks = self.cards_follow_looks and reads is Reads.LOOK
        self.card_predicates.append(reject if self._opening.trusted else self._guard.card_predicate(reject))
        self._add_gpu_key(key)

    def add_gpu_order(self, score: GpuOrder, *, key: Key) -> None:
        """Score the cards of a node."""
        if not self._registers(points.GPU_ORDER, score):
            return
        self.gpu_orders.append(score if self._opening.trusted else self._guard.gpu_order(score))
        self._add_gpu_key(key)

    def _add_gpu_key(self, key: Key) -> None:
        if key not in self.gpu_keys:
            self.gpu_keys.append(key)

    def add_gpu_set(self, choose: GpuSet) -> None:
        """Choose which of a node's fitting cards go together."""
        if not self._registers(points.GPU_SET, choose):
            return
        self.gpu_sets.append(choose if self._opening.trusted else self._guard.gpu_set(choose))

    def set_assign(self, assign: Assign, predicate: int) -> None:
        """Hand out a node's cards to a pod; `predicate` is the number of the predicate that checked the cards.

        An error in it is not caught: no other plugin could say what a pod gets.
        """
        if not self._registers(points.ASSIGN, assign):
            return
        if self.assign is not None:
            raise SessionError(
                f"plugins {self.assign[0]} and {self._opening.name} both want to assign devices; keep one"
            )
        self.assign = (self._opening.name, predicate, self._observed(points.ASSIGN.name, assign))

    def set_volume_choice(self, choose: VolumeChoice) -> None:
        """Choose what the unbound claims of a pod get on a node; it is reserved with the pod's place.

        An error in it is not caught: a pod must not take its place without its volumes.
        """
        if not self._registers(points.VOLUME_CHOICE, choose):
            return
        if self.volume_choice is not None:
            other = self.volume_choice[0]
            raise SessionError(f"plugins {other} and {self._opening.name} both want to choose volumes; keep one")
        self.volume_choice = (self._opening.name, self._observed(points.VOLUME_CHOICE.name, choose))

    def add_grant_predicate(self, is_too_much: GrantPredicate, predicate: int) -> None:
        """Say whether the grant of a pod is too much.

        A node on which it is too much is rejected for the first reason of the plugin's predicate of that number.
        That predicate's key must name everything that the answer depends on beside the node.
        """
        if not self._registers(points.GRANT_PREDICATE, is_too_much):
            return
        if not self._opening.trusted:
            is_too_much = self._guard.grant_predicate(is_too_much)
        self.grant_predicates.append((predicate, is_too_much))

    def add_event_handler(self, allocate: TaskEvent | None = None, deallocate: TaskEvent | None = None) -> None:
        """Hear of every placement, and of every one undone."""
        for told, handlers in ((allocate, self.on_allocate), (deallocate, self.on_deallocate)):
            if told is not None and self._registers(points.EVENTS, told):
                handlers.append(told if self._opening.trusted else self._guard.event(told))

    def set_queue_report(self, report: QueueReport, figures: QueueNumbers) -> None:
        """Report what queues deserve and hold, as records and in numbers; the first plugin that registers does."""
        if self.queue_report is None:
            self.queue_report = report, figures

    def set_victim_queues(self, make: Callable[[], VictimQueues]) -> None:
        """Say which queue gives up a pod next when others reclaim; the first plugin that keeps shares does."""
        if self.victim_queues is None:
            self.victim_queues = make

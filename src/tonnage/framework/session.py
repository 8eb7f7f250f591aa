"""A session: plugins around one picture of the cluster, and decisions made by asking all of them.

A decision joins the plugins' answers for the pod's class, takes the best node (the first by name among equals), has
the pod's cards assigned there, and records why other nodes were not taken.
"""

from collections.abc import Hashable, Sequence
from types import TracebackType

from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.job import Job
from tonnage.cluster.state import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.classes import (
    FITS,
    MAYBE,
    Classes,
    PodClass,
    PredicateFunction,
    ScoreFunction,
    everything,
)
from tonnage.framework.decision import MOST_SCORES, Decision, RejectedNodes
from tonnage.framework.guard import FAILED, Guard
from tonnage.framework.pernode import NodeScore, PerNodePredicate, PerNodeScore, Predicate
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import (
    Assign,
    CardPredicate,
    Confirm,
    Detail,
    Evaluate,
    GpuOrder,
    GpuSet,
    Key,
    NodeOrder,
    PrePredicate,
    Reduce,
    TaskEvent,
)
from tonnage.model.problem import Problem


class SessionError(Exception):
    """Plugins that cannot be opened, or that cannot work together."""


class Session:
    """Plugins, and the cluster they decide about. Use it in a `with` statement, so that plugins are closed."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin]) -> None:
        self.cluster = cluster
        self._classes = Classes(cluster)
        self._pre_predicates: list[tuple[str, PrePredicate]] = []
        self._card_predicates: list[CardPredicate] = []
        self._gpu_orders: list[GpuOrder] = []
        self._gpu_keys: list[Key] = []
        self._gpu_sets: list[GpuSet] = []
        self._on_allocate: list[TaskEvent] = []
        self._on_deallocate: list[TaskEvent] = []
        self._assign: tuple[str, int, Assign] | None = None
        self._problems: dict[tuple[str, str], Problem] = {}
        self.registered: list[tuple[str, str]] = []
        """Which plugin registered something at which extension point, in that order."""
        self._open: list[Plugin] = []
        try:
            for plugin in plugins:
                self._open.append(plugin)
                plugin.on_session_open(self)
        except SessionError:
            self.close()
            raise
        except Exception as error:
            name = self._opening
            self.close()
            raise SessionError(f"plugin {name} cannot be opened: {type(error).__name__}: {error}") from error
        self._classes.close_registration()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let every plugin tidy up, the last opened first; one that fails does not keep the others from it."""
        while self._open:
            plugin = self._open.pop()
            try:
                plugin.on_session_close(self)
            except Exception as error:
                Guard(plugin.name, self.report).failed("close", "the session", error)

    # -- extension points: `points` says what each callback answers and how answers combine

    @property
    def _opening(self) -> str:
        return self._open[-1].name

    @property
    def _is_built_in(self) -> bool:
        """Whether the answers of the plugin being opened can be relied on; checking them takes time."""
        return type(self._open[-1]).__module__.startswith("tonnage.plugins.")

    def add_pre_predicate(self, check: PrePredicate) -> None:
        """Look at a pod before any node is looked at."""
        self.registered.append((self._opening, "pre-predicate"))
        if not self._is_built_in:
            check = Guard(self._opening, self.report).pre_predicate(check)
        self._pre_predicates.append((self._opening, check))

    def add_predicate(self, check: Predicate, *, key: Key = everything) -> None:
        """Say of one node whether it will do; asked once per class of pods and node, and again when the node changes.

        `key` names what of a pod the answer depends on; without it, pods that differ in anything are asked about apart.
        """
        self.registered.append((self._opening, "predicate"))
        function = PerNodePredicate(self.cluster, Guard(self._opening, self.report), check, self.job_of)
        self._add_predicate(function.evaluate, key, function.reasons, function.detail)

    def add_node_order(self, score: NodeScore, *, key: Key = everything) -> None:
        """Score one node; asked as seldom as a predicate about one node."""
        self.registered.append((self._opening, "node order"))
        function = PerNodeScore(self.cluster, Guard(self._opening, self.report), score)
        self._classes.scorers.append(ScoreFunction(self._opening, function.evaluate, key))

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
        self.registered.append((self._opening, "batch predicate"))
        names = ("", *reasons)
        if not self._is_built_in:
            evaluate = Guard(self._opening, self.report).predicate(evaluate, failed=len(names))
            names += (FAILED,)
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
            PredicateFunction(number, self._opening, evaluate, key, names, detail, confirm, fits, fresh)
        )
        return number

    def add_batch_node_order(
        self, evaluate: NodeOrder, *, key: Key, reduce: Reduce | None = None, fresh: bool = False
    ) -> None:
        """Score all nodes at once; `key` names everything about a pod that the scores depend on.

        `reduce` fits the scores to those of all other nodes, once per decision. With `fresh` all nodes are scored
        whenever anything changed, because the score of one depends on others; that is expensive.
        """
        self.registered.append((self._opening, "batch node order"))
        if not self._is_built_in:
            guard = Guard(self._opening, self.report)
            evaluate = guard.node_order(evaluate)
            reduce = guard.reduce(reduce) if reduce is not None else None
        self._classes.scorers.append(ScoreFunction(self._opening, evaluate, key, reduce, fresh))

    def add_card_predicate(self, reject: CardPredicate, *, key: Key) -> None:
        """Say for the cards of some nodes which must not be taken."""
        self.registered.append((self._opening, "card predicate"))
        self._card_predicates.append(reject)
        self._add_gpu_key(key)

    def add_gpu_order(self, score: GpuOrder, *, key: Key) -> None:
        """Score the cards of a node."""
        self.registered.append((self._opening, "GPU order"))
        self._gpu_orders.append(score)
        self._add_gpu_key(key)

    def _add_gpu_key(self, key: Key) -> None:
        if key not in self._gpu_keys:
            self._gpu_keys.append(key)

    def add_gpu_set(self, choose: GpuSet) -> None:
        """Choose which of a node's fitting cards go together."""
        self.registered.append((self._opening, "GPU set"))
        self._gpu_sets.append(choose)

    def set_assign(self, assign: Assign, predicate: int) -> None:
        """Hand out a node's cards to a pod; the predicate of that number is the one that looked at cards."""
        self.registered.append((self._opening, "assign"))
        if self._assign is not None:
            raise SessionError(f"plugins {self._assign[0]} and {self._opening} both want to assign devices; keep one")
        self._assign = (self._opening, predicate, assign)

    def add_event_handler(self, allocate: TaskEvent | None = None, deallocate: TaskEvent | None = None) -> None:
        """Be told of every placement and of every one undone."""
        self.registered.append((self._opening, "events"))
        guard = Guard(self._opening, self.report)
        if allocate is not None:
            self._on_allocate.append(guard.event(allocate))
        if deallocate is not None:
            self._on_deallocate.append(guard.event(deallocate))

    def report(self, problem: Problem) -> None:
        """Keep something that is wrong with an object but stops nothing; the latest word on each field counts."""
        self._problems[problem.object, problem.field] = problem

    def problems(self) -> list[Problem]:
        """What plugins reported, in the order of objects."""
        return [self._problems[key] for key in sorted(self._problems)]

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
        if not self._gpu_orders or len(fitting) == 1:
            return fitting
        parts = [score(task, request, node, free, fitting) for score in self._gpu_orders]
        totals = parts[0] if len(parts) == 1 else [sum(scores) for scores in zip(*parts, strict=True)]
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

    # -- decisions

    def job_of(self, task: Task) -> Job:
        """The job that a pod belongs to."""
        return Job(task.key, {task.key: task})

    def class_key(self, task: Task) -> Hashable:
        """Everything about a pod that plugins' answers about nodes depend on: pods with equal keys fit alike."""
        return self._classes.key(task)

    def decide(self, task: Task) -> Decision:
        """Where the pod should go, and why not elsewhere. Changes nothing."""
        self.cluster.settle()
        job = self.job_of(task)
        for plugin, check in self._pre_predicates:
            reason = check(task, job)
            if reason is not None:
                return self._refuse(task, plugin, reason.name, reason.message)
        pods = self._classes.current(task)
        while True:
            rows = self._best_rows(task, pods)
            if not rows or self._assign is None or not task.demands:
                return self._record(task, pods, rows, ())
            _, number, assign = self._assign
            grant = assign(task, rows[0], pods.extras.get(number))
            if not isinstance(grant, int):
                return self._record(task, pods, rows, grant)
            pods.settle_row(rows[0], self._classes.predicates[number], grant)

    def place(self, task: Task) -> Decision:
        """Decide and, if a node was found, hold the placement; an earlier one of the same pod is given up first."""
        self.unplace(task.key)
        decision = self.decide(task)
        if decision.node is not None:
            self.cluster.reserve(task, decision.node, decision.grant)
            for told in self._on_allocate:
                told(task)
        return decision

    def unplace(self, key: str) -> None:
        """Undo a placement that is not confirmed."""
        task = self.cluster.reserved.get(key)
        if task is not None:
            self.cluster.release(key)
            for told in self._on_deallocate:
                told(task)

    def _best_rows(self, task: Task, pods: PodClass) -> list[int]:
        """The best nodes that certainly fit, best first."""
        known = self._classes.verdicts
        while True:
            rows = pods.now.best(MOST_SCORES)
            verdicts = pods.now.verdicts.tobytes()
            doubtful = [row for row in rows if verdicts[row] != FITS]
            if not doubtful:
                return rows
            for row in doubtful:
                meaning = known.meanings[verdicts[row]]
                if meaning is not None and meaning[0].confirm is not None:
                    pods.settle_row(row, meaning[0], meaning[0].confirm(task, row))

    def _record(self, task: Task, pods: PodClass, rows: list[int], grant: Grant) -> Decision:
        states = self.cluster.states
        names = [states[row].name for row in rows]
        rejected = self._rejections(task, pods)
        return Decision(
            task, names[0] if names else None, grant, self.cluster.vendors, names, pods.scores_of(rows), rejected
        )

    def _rejections(self, task: Task, pods: PodClass) -> list[RejectedNodes]:
        """Why nodes were turned down, grouped by plugin and reason."""
        known, verdicts = self._classes.verdicts, pods.now.verdicts.tobytes()
        groups: dict[tuple[str, str], RejectedNodes] = {}
        for verdict in pods.now.counts.nonzero()[0].tolist():
            meaning = known.meanings[verdict]
            if meaning is None or meaning[1] == MAYBE:
                continue
            function, code = meaning
            count = int(pods.now.counts[verdict])
            reason = function.reasons[code]
            group = groups.get((function.plugin, reason))
            if group is not None:
                group.count += count
                continue
            row = verdicts.index(verdict)
            render = function.detail(task, row, code, pods.extras.get(function.number))
            name = self.cluster.states[row].name
            groups[function.plugin, reason] = RejectedNodes(reason, function.plugin, count, name, render)
        return list(groups.values())

    def _refuse(self, task: Task, plugin: str, reason: str, message: str) -> Decision:
        """A pod that no node can take, whatever the nodes are like."""
        nodes = self.cluster.columns.size
        example = self.cluster.states[0].name if nodes else ""
        refused = RejectedNodes(reason, plugin, nodes, example, lambda: message)
        return Decision(task, None, (), self.cluster.vendors, (), (), [refused])

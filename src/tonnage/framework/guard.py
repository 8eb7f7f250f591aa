"""Guard around the callbacks of plugins that are not trusted, so that their failures do not stop the cycle.

A callback that raises or gives an invalid answer becomes a problem that names it. A predicate that fails says no, a
score that fails counts nothing, and an event handler that fails is skipped.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.columns import Array, Cards, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.decision import Reason
from tonnage.framework.failures import failure, place_of_function
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.points import (
    JOB_ORDER,
    JOB_READY,
    JOB_VALID,
    PREEMPTABLE,
    CardPredicate,
    Evaluate,
    ExtensionPoint,
    GpuOrder,
    GpuSet,
    GrantPredicate,
    NodeOrder,
    PrePredicate,
    Reduce,
    TaskEvent,
)
from tonnage.framework.reasons import PLUGIN_FAILED
from tonnage.model.problem import Problem


class PluginProblems:
    """The problems that plugins report or cause during a session."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], Problem] = {}
        self.failures: Counter[str] = Counter()
        """How often each plugin failed to answer."""

    def report(self, problem: Problem) -> None:
        """Keep a problem with an object that stops nothing; of several about one field the latest counts."""
        self._problems[problem.object, problem.field] = problem

    def failed(self, plugin: str, problem: Problem) -> None:
        """Count a plugin's failure and keep the problem that describes it."""
        self.failures[plugin] += 1
        self.report(problem)

    def all(self) -> list[Problem]:
        """The problems, in the order of objects."""
        return [self._problems[key] for key in sorted(self._problems)]


class Guard:
    """Wraps the callbacks of one plugin."""

    def __init__(self, plugin: str, report: Callable[[Problem], None]) -> None:
        self._plugin = plugin
        self._report = report

    def failed(self, point: str, about: str, what: str | Exception, function: Callable[..., Any]) -> str:
        """Report a problem that names the plugin, with file and line; the result is its sentence."""
        text = failure(what, function) if isinstance(what, Exception) else f"{what} ({place_of_function(function)})"
        message = f"about {about}: {text}"
        self._report(Problem(f"Plugin/{self._plugin}", point, "", "an answer", message))
        return message

    def pre_predicate(self, check: PrePredicate) -> PrePredicate:
        def guarded(task: Task, job: Job) -> Reason | None:
            try:
                answer = check(task, job)
            except Exception as error:
                return Reason(PLUGIN_FAILED, self.failed("pre-predicate", task.key, error, check))
            if answer is None or isinstance(answer, Reason):
                return answer
            what = f"answered {answer!r} instead of a Reason or nothing"
            return Reason(PLUGIN_FAILED, self.failed("pre-predicate", task.key, what, check))

        return guarded

    def predicate(self, evaluate: Evaluate, failed: int) -> Evaluate:
        """A predicate over nodes; `failed` is the code of nodes for which it gave no answer."""

        def guarded(task: Task, nodes: Nodes) -> Array | tuple[Array, Array] | None:
            try:
                answer = evaluate(task, nodes)
                codes = answer[0] if isinstance(answer, tuple) else answer
                if codes is None or (_fits(codes, nodes) and codes.dtype == np.uint8):
                    return answer
                what: str | Exception = f"answered {_shown(codes)} instead of an array of {len(nodes)} uint8 codes"
            except Exception as error:
                what = error
            self.failed("predicate", task.key, what, evaluate)
            return np.full(len(nodes), failed, np.uint8)

        return guarded

    def node_order(self, evaluate: NodeOrder) -> NodeOrder:
        def guarded(task: Task, nodes: Nodes) -> Array | None:
            return self._scores(task, len(nodes), evaluate, (task, nodes))

        return guarded

    def reduce(self, function: Reduce) -> Reduce:
        def guarded(task: Task, scores: Array, fits: Array) -> Array:
            reduced = self._scores(task, len(scores), function, (task, scores, fits), may_abstain=False)
            assert reduced is not None
            return reduced

        return guarded

    def _scores(
        self,
        task: Task,
        size: int,
        function: Callable[..., Array | None],
        arguments: Sequence[Any],
        may_abstain: bool = True,
    ) -> Array | None:
        """A finite score for each of so many nodes; zeros if there is none."""
        try:
            scores = function(*arguments)
            if scores is None and may_abstain:
                return None
            if isinstance(scores, np.ndarray) and scores.shape == (size,) and bool(np.isfinite(scores).all()):
                # A copy, because the plugin may keep its array and the session changes this one.
                return scores.astype(np.float64)
            what: str | Exception = f"answered {_shown(scores)} instead of an array of {size} finite numbers"
        except Exception as error:
            what = error
        self.failed("node order", task.key, what, function)
        return np.zeros(size)

    def card_predicate(self, reject: CardPredicate) -> CardPredicate:
        def guarded(task: Task, request: DeviceRequest, cards: Cards) -> Array | None:
            try:
                answer = reject(task, request, cards)
                if answer is None or (isinstance(answer, np.ndarray) and answer.shape == cards.model.shape):
                    return answer
                what: str | Exception = f"answered {_shown(answer)} instead of an array of {cards.model.shape}"
            except Exception as error:
                what = error
            self.failed("card predicate", task.key, what, reject)
            return np.ones(cards.model.shape, np.bool_)

        return guarded

    def gpu_order(self, score: GpuOrder) -> GpuOrder:
        def guarded(
            task: Task,
            request: DeviceRequest,
            node: NodeState,
            free: Sequence[Sequence[int]],
            fitting: Sequence[int],
        ) -> Sequence[float]:
            try:
                scores = [float(one) for one in score(task, request, node, free, fitting)]
                if len(scores) == len(fitting) and all(map(math.isfinite, scores)):
                    return scores
                what: str | Exception = f"answered {_shown(scores)} instead of {len(fitting)} finite numbers"
            except Exception as error:
                what = error
            self.failed("GPU order", f"{task.key} on {node.name}", what, score)
            return [0.0] * len(fitting)

        return guarded

    def gpu_set(self, choose: GpuSet) -> GpuSet:
        def guarded(task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]) -> Sequence[int] | None:
            try:
                chosen = choose(task, request, row, candidates)
                if chosen is None or (len(chosen) == request.count and set(chosen) <= set(candidates)):
                    return chosen
                what: str | Exception = f"answered {chosen!r} instead of {request.count} of {list(candidates)}"
            except Exception as error:
                what = error
            self.failed("GPU set", task.key, what, choose)
            return None

        return guarded

    def grant_predicate(self, is_too_much: GrantPredicate) -> GrantPredicate:
        def guarded(task: Task, row: int, grant: Grant) -> bool:
            try:
                answer = is_too_much(task, row, grant)
                if isinstance(answer, bool):
                    return answer
                what: str | Exception = f"answered {answer!r} instead of true or false"
            except Exception as error:
                what = error
            self.failed("grant predicate", task.key, what, is_too_much)
            return True

        return guarded

    def node_sets(self, choose: Callable[..., NodeSets | None], cluster: Cluster) -> Callable[..., NodeSets | None]:
        def guarded(job: Job, *about: object) -> NodeSets | None:
            try:
                sets = choose(job, *about)
                cluster.settle()
                if sets is None or (isinstance(sets, NodeSets) and all(_is_node_set(s, cluster) for s in sets)):
                    return sets
                what: str | Exception = f"answered {_shown(sets)} instead of NodeSets, each a mask over all nodes"
            except Exception as error:
                what = error
            return NodeSets((), Reason(PLUGIN_FAILED, self.failed("node sets", job.key, what, choose)))

        return guarded

    def question(self, point: ExtensionPoint, function: Callable[..., Any]) -> Callable[..., Any]:
        """A question about queues, jobs or tasks; the answer after a failure places and evicts nothing."""
        expected, accepts, fallback = _ANSWERS[point.answers]

        def guarded(*about: Any) -> Any:
            try:
                answer = function(*about)
                if accepts(answer):
                    return answer
                what: str | Exception = f"answered {answer!r} instead of {expected}"
            except Exception as error:
                what = error
            name = getattr(about[0], "key", "") or getattr(about[0], "name", "")
            message = self.failed(point.name, name, what, function)
            return Reason(PLUGIN_FAILED, message) if fallback is Reason else fallback

        return guarded

    def event(self, told: TaskEvent) -> TaskEvent:
        def guarded(task: Task) -> None:
            try:
                told(task)
            except Exception as error:
                self.failed("event", task.key, error, told)

        return guarded


def _is_order(answer: object) -> bool:
    return isinstance(answer, int) and not isinstance(answer, bool)


def _is_reason(answer: object) -> bool:
    return answer is None or isinstance(answer, Reason)


def _is_vote(answer: object) -> bool:
    return answer is None or isinstance(answer, bool)


def _is_tasks(answer: object) -> bool:
    return answer is None or (isinstance(answer, Sequence) and all(isinstance(task, Task) for task in answer))


_ANSWERS: dict[str, tuple[str, Callable[[object], bool], Any]] = {
    JOB_ORDER.answers: ("-1, 0 or 1", _is_order, 0),
    JOB_VALID.answers: ("a Reason or nothing", _is_reason, Reason),
    JOB_READY.answers: ("True, False or None", _is_vote, False),
    PREEMPTABLE.answers: ("a list of tasks or nothing", _is_tasks, ()),
}
"""By what a point answers: the expected answer in words, its check, and the answer after a failure."""


def _is_node_set(answer: object, cluster: Cluster) -> bool:
    if not isinstance(answer, NodeSet):
        return False
    shape, mask, scores = (cluster.columns.size,), answer.mask, answer.scores
    if not (isinstance(mask, np.ndarray) and mask.shape == shape and mask.dtype == np.bool_):
        return False
    return scores is None or (
        isinstance(scores, np.ndarray) and scores.shape == shape and bool(np.isfinite(scores).all())
    )


def _fits(answer: object, nodes: Nodes) -> bool:
    return isinstance(answer, np.ndarray) and answer.shape == (len(nodes),)


def _shown(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    return repr(answer)[:80]

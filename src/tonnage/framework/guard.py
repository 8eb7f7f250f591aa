"""What plugins of others do wrong must not stop the cycle.

A callback that raises, or answers something else than it should, is named in a problem: a predicate that fails says no,
a score that fails counts nothing, an event that fails is passed over.
"""

from collections.abc import Callable

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.points import Evaluate, NodeOrder, PrePredicate, Reduce, TaskEvent
from tonnage.model.problem import Problem

FAILED = "PluginFailed"

Report = Callable[[Problem], None]


class Guard:
    """Wraps the callbacks of one plugin."""

    def __init__(self, plugin: str, report: Report) -> None:
        self._plugin = plugin
        self._report = report

    def failed(self, point: str, about: str, what: str | Exception) -> str:
        """Name the plugin in a problem; the result says the same in a sentence."""
        text = f"{type(what).__name__}: {what}" if isinstance(what, Exception) else what
        message = f"about {about}: {text}"
        self._report(Problem(f"Plugin/{self._plugin}", point, "", "an answer", message))
        return message

    def pre_predicate(self, check: PrePredicate) -> PrePredicate:
        def guarded(task: Task, job: Job) -> Reason | None:
            try:
                answer = check(task, job)
            except Exception as error:
                return Reason(FAILED, self.failed("pre-predicate", task.key, error))
            if answer is None or isinstance(answer, Reason):
                return answer
            what = f"answered {answer!r} instead of a Reason or nothing"
            return Reason(FAILED, self.failed("pre-predicate", task.key, what))

        return guarded

    def predicate(self, evaluate: Evaluate, failed: int) -> Evaluate:
        """A predicate over nodes; `failed` is the code of nodes about which it gave no answer."""

        def guarded(task: Task, nodes: Nodes) -> Array | tuple[Array, Array] | None:
            try:
                answer = evaluate(task, nodes)
                codes = answer[0] if isinstance(answer, tuple) else answer
                if codes is None or (_fits(codes, nodes) and codes.dtype == np.uint8):
                    return answer
                what: str | Exception = f"answered {_shown(codes)} instead of an array of {len(nodes)} uint8 codes"
            except Exception as error:
                what = error
            self.failed("predicate", task.key, what)
            return np.full(len(nodes), failed, np.uint8)

        return guarded

    def node_order(self, evaluate: NodeOrder) -> NodeOrder:
        def guarded(task: Task, nodes: Nodes) -> Array | None:
            try:
                scores = evaluate(task, nodes)
                if scores is None:
                    return None
                if _fits(scores, nodes) and bool(np.isfinite(scores).all()):
                    # A copy, so that what becomes of the scores here does not reach back into the plugin.
                    return scores.astype(np.float64)
                what: str | Exception = f"answered {_shown(scores)} instead of an array of {len(nodes)} finite numbers"
            except Exception as error:
                what = error
            self.failed("node order", task.key, what)
            return np.zeros(len(nodes))

        return guarded

    def reduce(self, function: Reduce) -> Reduce:
        def guarded(task: Task, scores: Array, fits: Array) -> Array:
            try:
                reduced = function(task, scores, fits)
                if isinstance(reduced, np.ndarray) and reduced.shape == scores.shape and np.isfinite(reduced).all():
                    return reduced.astype(np.float64)
                what: str | Exception = f"answered {_shown(reduced)} instead of an array of {len(scores)} numbers"
            except Exception as error:
                what = error
            self.failed("node order", task.key, what)
            return np.zeros(len(scores))

        return guarded

    def event(self, told: TaskEvent) -> TaskEvent:
        def guarded(task: Task) -> None:
            try:
                told(task)
            except Exception as error:
                self.failed("event", task.key, error)

        return guarded


def _fits(answer: object, nodes: Nodes) -> bool:
    return isinstance(answer, np.ndarray) and answer.shape == (len(nodes),)


def _shown(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    return repr(answer)[:80]

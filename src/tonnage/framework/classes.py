"""Pod classes: pods that no plugin can tell apart, and the plugins' joint answer for each class.

A class has one column of verdicts and one of scores over all nodes. They are computed in full once; afterwards only for
rows that changed. Answers that depend on more than the pod's class and a node's row are expensive: they are computed in
full whenever anything changed.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.decision import RejectedNodes
from tonnage.framework.points import Confirm, Detail, Evaluate, Key
from tonnage.framework.reasons import is_lasting, is_resolvable
from tonnage.framework.scores import ScoreFunction, Scores
from tonnage.model.wire import comparable

FITS = 0
MAYBE = 255
"""A predicate's answer for a node that it must check more closely before it can say yes."""
_MOST_CLASSES = 128
_MOST_VERDICTS = 256
_NOTHING = np.float64(-np.inf)


def everything(task: Task) -> Hashable:
    """The key of callbacks that declare none: everything in a pod but its name and age."""
    metadata = task.pod.metadata
    return comparable((metadata.namespace, metadata.labels, metadata.annotations, task.pod.spec))


class PredicateFunction:
    """A predicate over nodes: a code per node, 0 for yes, with names for the others."""

    def __init__(
        self,
        number: int,
        plugin: str,
        evaluate: Evaluate,
        key: Key,
        reasons: Sequence[str],
        detail: Detail,
        confirm: Confirm | None,
        fits: int,
        fresh: bool = False,
        detail_per_class: bool = False,
    ) -> None:
        self.number = number
        self.plugin = plugin
        self.evaluate = evaluate
        self.key = key
        self.reasons = reasons
        self.detail = detail
        self.confirm = confirm
        self.fits = fits
        self.fresh = fresh
        self.detail_per_class = detail_per_class
        """Whether what `detail` captures of a node is the same for all pods of a class until the node changes."""
        self.verdicts = np.zeros(256, np.uint8)
        """The verdict of each code; a code without a reason means that the node fits."""
        self.numbered = 1
        """How many of the reasons have a verdict."""


class Verdicts:
    """The verdicts of all predicates as small numbers: 0 for fits, one per reason, one per predicate's *maybe*."""

    def __init__(self, predicates: Sequence[PredicateFunction]) -> None:
        self.meanings: list[tuple[PredicateFunction, int] | None] = [None]
        self.rejects = np.zeros(_MOST_VERDICTS, np.bool_)
        self.resolvable = np.ones(_MOST_VERDICTS, np.bool_)
        """Whether a node with the verdict fits, or may fit once other pods have left."""
        self.lasting = np.zeros(_MOST_VERDICTS, np.bool_)
        """Whether the reason stays whatever pods come and go."""
        self.doubts: list[int] = []
        """The verdicts of nodes that need a closer look."""
        for function in predicates:
            self.number(function)
            if function.confirm is not None:
                self._add(function, MAYBE)
                self.doubts.append(int(function.verdicts[MAYBE]))

    def number(self, function: PredicateFunction) -> None:
        """Number the new reasons of a predicate; once the numbers run out, reasons share the first."""
        for code in range(function.numbered, len(function.reasons)):
            self._add(function, code)
            self.rejects[function.verdicts[code]] = True
            self.resolvable[function.verdicts[code]] = is_resolvable(function.reasons[code])
            self.lasting[function.verdicts[code]] = is_lasting(function.reasons[code])
        function.numbered = len(function.reasons)

    def _add(self, function: PredicateFunction, code: int) -> None:
        if len(self.meanings) < _MOST_VERDICTS:
            function.verdicts[code] = len(self.meanings)
            self.meanings.append((function, code))
        else:
            function.verdicts[code] = function.verdicts[1]


class ClassFit:
    """Where pods of one class fit, and how good each node is for them."""

    __slots__ = ("counts", "floor", "totals", "verdicts")

    def __init__(self, verdicts: Array, counts: Array, totals: Array, floor: np.float64 = _NOTHING) -> None:
        self.verdicts = verdicts
        """Per node 0 if the pods fit there, else the verdict of the first predicate that rejects it."""
        self.counts = counts
        """How many nodes have each verdict."""
        self.totals = totals
        """The sum of scores where the pods fit or may fit, minus infinity elsewhere."""
        self.floor = floor
        """The lowest of the best totals of the last search, a good guess where the next one may stop."""

    def settle_row(self, row: int, function: PredicateFunction, code: int) -> None:
        """Record the verdict of a closer look at one node."""
        verdict = int(function.verdicts[code])
        self.set_verdict(row, verdict)
        if verdict != FITS:
            self.totals[row] = _NOTHING

    def set_verdict(self, row: int, verdict: int) -> bool:
        """Set the verdict about a node, and count it; whether it is another one than before."""
        before = self.verdicts.item(row)
        if before == verdict:
            return False
        self.counts[before] -= 1
        self.counts[verdict] += 1
        self.verdicts[row] = verdict
        return True

    def best(self, most: int, among: Array | None = None, scores: Array | None = None) -> list[int]:
        """Rows with the highest totals, highest first and lower rows first among equals; only fitting ones.

        With `among` only those rows, by totals plus `scores`.
        """
        if among is not None:
            totals = self.totals if scores is None else self.totals + scores
            return _highest(np.where(among, totals, _NOTHING), most)
        if most == 1:
            row = int(self.totals.argmax()) if len(self.totals) else -1
            return [row] if row >= 0 and self.totals.item(row) != _NOTHING else []
        rows = self._guess(most) if self.floor != _NOTHING else None
        if rows is None:
            rows = _highest(self.totals.copy(), most)
        self.floor = self.totals[rows[-1]] if len(rows) == most else _NOTHING
        return rows

    def _guess(self, most: int) -> list[int] | None:
        """The best rows, if looking above the floor of last time finds enough of them and not too many."""
        totals = self.totals
        above = (totals > self.floor).nonzero()[0]
        count = len(above)
        if count > 8 * most:
            return None
        if count > 1:
            above = above.take((-totals.take(above)).argsort(kind="stable")[:most])
        rows: list[int] = above.tolist()
        if count < most:
            rows += (totals == self.floor).nonzero()[0][: most - count].tolist()
        return rows if len(rows) == most else None


def _highest(left: Array, most: int) -> list[int]:
    """Rows with the highest totals; overwrites the array."""
    rows: list[int] = []
    while len(rows) < min(most, len(left)):
        row = int(left.argmax())
        if left.item(row) == _NOTHING:
            break
        rows.append(row)
        left[row] = _NOTHING
    return rows


class PodClass:
    """The plugins' joint answer for the pods of one class.

    Answers that depend on the class and a node's row alone are kept and updated row by row. Late answers, which depend
    on more, come on top: those of functions with `fresh`, and scores that are reduced over all nodes.
    """

    __slots__ = (
        "_examples",
        "_kept",
        "_known",
        "_late_scores",
        "_rejected",
        "extras",
        "now",
        "scores",
        "used",
        "version",
    )

    def __init__(self, known: "Classes", scores: Scores) -> None:
        self._known = known
        self.scores = scores
        self.version = -1
        self.used = 0
        """The number of its last use, to evict idle classes."""
        self.now: ClassFit
        """The joint answer, late answers included."""
        self._kept: ClassFit
        """The joint answer without late answers; the same object if there are none."""
        self._late_scores: dict[int, Array | None] = {}
        """The late scores by number of the function."""
        self.extras: dict[int, Array] = {}
        """What predicates remember beside their codes, such as the codes of a node's cards."""
        self._rejected: list[RejectedNodes] | None = None
        """The rejected nodes as a decision records them, until a verdict or one of the examples changes."""
        self._examples: frozenset[int] = frozenset()

    def refresh(self, task: Task, nodes: Nodes) -> None:
        """Call all plugins for the nodes that changed and update the joint answer."""
        rows = nodes.rows
        if rows is None:
            self._ask_about_all(task, nodes)
        elif isinstance(rows, slice):
            self._refresh_row(task, nodes, rows.start)
        else:
            self._refresh_rows(task, nodes, rows)
        if self._known.late:
            self._add_late(task, self.now.floor if self.version >= 0 else _NOTHING)
        else:
            self.now = self._kept

    def refresh_late(self, task: Task) -> None:
        """Compute the late answers for another pod of the class, although no node changed."""
        self._add_late(task, self.now.floor)

    def _ask_about_all(self, task: Task, nodes: Nodes) -> None:
        verdicts = self._ask(task, nodes, self._known.kept_predicates)
        totals = self._totals(task, nodes, verdicts)
        verdicts = np.zeros(len(nodes), np.uint8) if verdicts is None else verdicts
        counts = np.bincount(verdicts, minlength=_MOST_VERDICTS)
        self._kept = ClassFit(verdicts, counts, np.array(np.broadcast_to(totals, len(verdicts))))
        self._rejected = None

    def _refresh_rows(self, task: Task, nodes: Nodes, rows: Array) -> None:
        verdicts, kept = self._ask(task, nodes, self._known.kept_predicates), self._kept
        kept.totals[rows] = self._totals(task, nodes, verdicts)
        before = kept.verdicts.take(rows)
        after = np.zeros(len(rows), np.uint8) if verdicts is None else verdicts
        # The bytes of short arrays are compared faster than the arrays, and mostly nothing has changed.
        if after.tobytes() != before.tobytes():
            kept.counts += np.bincount(after, minlength=_MOST_VERDICTS)
            kept.counts -= np.bincount(before, minlength=_MOST_VERDICTS)
            kept.verdicts[rows] = after
            self._rejected = None
        elif not self._examples.isdisjoint(rows.tolist()):
            self._rejected = None

    def _refresh_row(self, task: Task, nodes: Nodes, row: int) -> None:
        """The same for one node, which is the usual case, in plain numbers."""
        known, kept, scores = self._known, self._kept, self.scores
        verdict = self._ask_about_one(task, nodes)
        fits = not known.verdicts.rejects.item(verdict)
        if fits or known.late_scorers:
            scores.update(task, known.cluster.columns, nodes if scores.version == self.version else None)
        kept.totals[row] = scores.totals.item(row) if fits else _NOTHING
        if kept.set_verdict(row, verdict) or row in self._examples:
            self._rejected = None

    def _totals(self, task: Task, nodes: Nodes, verdicts: Array | None) -> Array | np.float64:
        """The sum of scores of nodes; minus infinity where the pods do not fit.

        Scores are computed only if any of the nodes fits: in a full cluster most do not.
        """
        known, scores = self._known, self.scores
        rejected = None if verdicts is None else known.verdicts.rejects.take(verdicts)
        # Looking at the bytes of a short array is faster than reducing it.
        if rejected is not None and not known.late_scorers and not rejected.tobytes().count(0):
            return _NOTHING
        scores.update(task, known.cluster.columns, nodes if scores.version == self.version else None)
        totals = nodes.pick(scores.totals)
        return totals if rejected is None else np.where(rejected, _NOTHING, totals)

    def _add_late(self, task: Task, floor: np.float64) -> None:
        """Add the late answers to the kept ones."""
        known, kept, nodes = self._known, self._kept, self._known.all_nodes
        verdicts, totals = kept.verdicts, kept.totals
        found = self._ask(task, nodes, known.fresh_predicates) if known.fresh_predicates else None
        if found is not None:
            # An earlier rejection stands; an earlier maybe does not.
            verdicts = np.where((found != FITS) & ~known.verdicts.rejects.take(verdicts), found, verdicts)
            totals = np.where(known.verdicts.rejects.take(verdicts), _NOTHING, totals)
        for number, function in known.late_scorers:
            scores = function.evaluate(task, nodes) if function.fresh else self.scores.by_function[number]
            if function.reduce is not None and scores is not None:
                scores = function.reduce(task, scores, totals != _NOTHING)
            self._late_scores[number] = scores
            if scores is not None:
                totals = totals + scores
        if found is not None:
            self.now = ClassFit(verdicts, np.bincount(verdicts, minlength=_MOST_VERDICTS), totals, floor)
        elif totals is not kept.totals:
            self.now = ClassFit(verdicts, kept.counts, totals, floor)
        else:
            self.now = kept

    def settle_row(self, row: int, function: PredicateFunction, code: int) -> None:
        """Record the verdict of a closer look at one node."""
        now, kept = self.now, self._kept
        self._rejected = None
        if function.fresh and now.verdicts is kept.verdicts:
            now = self.now = ClassFit(kept.verdicts.copy(), kept.counts.copy(), now.totals.copy(), now.floor)
        now.settle_row(row, function, code)
        if now is not kept and not function.fresh:
            kept.settle_row(row, function, code)

    @property
    def rejected(self) -> list[RejectedNodes] | None:
        """The rejected nodes of the last decision, if nothing has changed about them."""
        return self._rejected if self.now.verdicts is self._kept.verdicts else None

    def keep_rejected(self, rejected: list[RejectedNodes], examples: frozenset[int]) -> None:
        """Keep the rejected nodes for the next decision; what is said about the examples is about those rows."""
        if self.now.verdicts is self._kept.verdicts:
            self._rejected, self._examples = rejected, examples

    def scores_of(self, rows: Sequence[int]) -> list[tuple[str, list[float]]]:
        """Each plugin's scores of nodes that fit."""
        where, count = np.array(rows, np.intp), len(rows)
        result: list[tuple[str, list[float]]] = []
        for number, function in enumerate(self._known.scorers):
            column = self._late_scores.get(number) if function.late else self.scores.by_function[number]
            if column is not None:
                result.append((function.plugin, column.take(where).tolist()))
            # The scores of a plugin's functions are added up, so zeros beside another function change nothing.
            elif function.alike or not result or result[-1][0] != function.plugin:
                result.append((function.plugin, [function.alike] * count))
        return result

    def _ask_about_one(self, task: Task, nodes: Nodes) -> int:
        """The verdict of the kept predicates about one node."""
        result = FITS
        for function in self._known.kept_predicates:
            answer = function.evaluate(task, nodes)
            if answer is None:
                continue
            if isinstance(answer, tuple):
                answer, extra = answer
                self.extras[function.number][..., nodes.rows] = extra
            code = answer.item()
            if code == function.fits or (code == MAYBE and function.confirm is not None and result != FITS):
                continue
            if len(function.reasons) > function.numbered:
                self._known.verdicts.number(function)
            result = function.verdicts.item(code) or result
        return result

    def _ask(self, task: Task, nodes: Nodes, functions: Sequence[PredicateFunction]) -> Array | None:
        """The verdict about each node; nothing if the pods fit on all of them."""
        result: Array | None = None
        for function in functions:
            answer = function.evaluate(task, nodes)
            if answer is None:
                continue
            if isinstance(answer, tuple):
                answer, extra = answer
                if nodes.rows is None:
                    self.extras[function.number] = extra
                else:
                    self.extras[function.number][..., nodes.rows] = extra
            # Counting bytes is faster than asking a short array whether it holds anything else.
            if answer.tobytes().count(function.fits) == answer.size:
                continue
            if len(function.reasons) > function.numbered:
                self._known.verdicts.number(function)
            found = function.verdicts.take(answer)
            if result is None:
                result = found
            elif function.confirm is None:
                np.copyto(result, found, where=found != FITS)
            else:
                np.copyto(result, found, where=(found != FITS) & ((answer != MAYBE) | (result == FITS)))
        return result


class Classes:
    """The pod classes in use, and the callbacks whose answers they join."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.predicates: list[PredicateFunction] = []
        self.scorers: list[ScoreFunction] = []
        self.kept_predicates: list[PredicateFunction] = []
        """The predicates whose answers are kept, the last one first."""
        self.fresh_predicates: list[PredicateFunction] = []
        self.late_scorers: list[tuple[int, ScoreFunction]] = []
        self.late = False
        """Whether there are late answers."""
        self.every_pod = False
        """Whether a function tells pods of one class apart."""
        self.verdicts: Verdicts
        self.all_nodes: Nodes
        """Every node; the same as long as rows stay where they are."""
        self._kept: dict[tuple[Hashable, ...], PodClass] = {}
        self._scores: dict[tuple[Hashable, ...], Scores] = {}
        self._keys: list[Key] = []
        self._score_keys: list[Key] = []
        self._layout = -1
        self._asked = 0

    def close_registration(self) -> None:
        """Prepare for decisions: no callbacks are added from here on."""
        self.verdicts = Verdicts(self.predicates)
        self.kept_predicates = [f for f in reversed(self.predicates) if not f.fresh]
        self.fresh_predicates = [f for f in reversed(self.predicates) if f.fresh]
        self.late_scorers = [(number, f) for number, f in enumerate(self.scorers) if f.late]
        self.late = bool(self.fresh_predicates or self.late_scorers)
        self.every_pod = any(f.every_pod for f in self.scorers)
        self._keys = list(dict.fromkeys([f.key for f in self.predicates] + [f.key for f in self.scorers]))
        self._score_keys = list(dict.fromkeys([f.key for f in self.scorers if not f.fresh]))

    def key(self, task: Task) -> tuple[Hashable, ...]:
        """The key of a pod's class."""
        return tuple([key(task) for key in self._keys])

    def current(self, task: Task) -> PodClass:
        """The class of a pod, with every row up to date."""
        columns = self.cluster.columns
        if self._layout != columns.layout:
            self._layout = columns.layout
            self.all_nodes = Nodes(columns)
            self._kept.clear()
            self._scores.clear()
        key = self.key(task)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _MOST_CLASSES:
                self._drop_idle()
            scores = self._scores.setdefault(tuple([key(task) for key in self._score_keys]), Scores(self.scorers))
            kept = self._kept[key] = PodClass(self, scores)
            kept.refresh(task, Nodes(columns))
        elif kept.version < columns.clock:
            kept.refresh(task, columns.nodes_since(kept.version))
        elif self.every_pod:
            kept.refresh_late(task)
        kept.version = columns.clock
        self._asked += 1
        kept.used = self._asked
        return kept

    def lasting(self, task: Task) -> Array:
        """The verdict of a predicate that rejects a node for a reason that stays whatever pods leave; 0 for none."""
        result = np.zeros(len(self.all_nodes), np.uint8)
        for function in self.predicates:
            answer = function.evaluate(task, self.all_nodes)
            if answer is not None:
                found = function.verdicts.take(answer[0] if isinstance(answer, tuple) else answer)
                np.copyto(result, found, where=self.verdicts.lasting.take(found) & (result == FITS))
        return result

    def _drop_idle(self) -> None:
        """Drop the half of the classes that was idle the longest."""
        by_use = sorted(self._kept, key=lambda key: self._kept[key].used)
        for key in by_use[: len(by_use) // 2]:
            del self._kept[key]
        in_use = {id(kept.scores) for kept in self._kept.values()}
        self._scores = {key: scores for key, scores in self._scores.items() if id(scores) in in_use}

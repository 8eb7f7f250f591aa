"""Pod classes: pods that no plugin can tell apart, and the plugins' joint answer for each class.

A class has one column of verdicts and one of scores over all nodes. They are computed in full once; afterwards only for
rows that changed. Answers that depend on more than the pod's class and a node's row are expensive: they are computed in
full whenever anything changed.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Look, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Task
from tonnage.framework.classfit import FITS, MAYBE, NOTHING, ClassFit
from tonnage.framework.decision import RejectedNodes
from tonnage.framework.points import UNCONCERNED, Confirm, Detail, Evaluate, Key, Reads, ReadsOf, what_it_reads
from tonnage.framework.reasons import is_lasting, is_resolvable
from tonnage.framework.scores import NodeScores, ScoreFunction, Scores
from tonnage.model.wire import comparable

_MOST_CLASSES = 128
_MOST_VERDICTS = 256
_MOST_LOOKS = 128


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
        reads: ReadsOf = Reads.EVERYTHING,
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
        self.reads = reads
        self.place = 0
        """The place of its key in the key of a class."""
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


class _AnswerToLook(NamedTuple):
    """What the plugins said about a node, for all nodes that look the same."""

    verdict: int
    extras: list[tuple[int, Array]]
    """What predicates remember of the node beside their codes, by the number of the predicate."""
    scores: NodeScores | None
    """Nothing if the node was not scored, because it does not fit."""


class PodClass:
    """The plugins' joint answer for the pods of one class.

    Answers that depend on the class and a node's row alone are kept and updated row by row. Late answers, which depend
    on more, come on top: those of functions with `fresh`, and scores that are reduced over all nodes. While only pods
    come and go, predicates that read node objects alone are not asked again if they have nothing to say; and if all
    others read a node's look alone, one answer serves all nodes that look alike at one time or another.
    """

    __slots__ = (
        "_asked",
        "_concerned",
        "_examples",
        "_fresh",
        "_kept",
        "_known",
        "_late_scorers",
        "_late_scores",
        "_looks",
        "_loud",
        "_rejected",
        "_told",
        "extras",
        "now",
        "scores",
        "used",
        "version",
    )

    def __init__(self, known: "Classes", key: tuple[Hashable, ...], scores: Scores) -> None:
        self._known = known
        self._concerned = [f for f in known.kept_predicates if key[f.place] is not UNCONCERNED]
        self._asked = self._concerned
        """The predicates to ask about nodes where only pods have come or gone."""
        self._loud: set[PredicateFunction] = set()
        """Predicates that read node objects alone and that have rejected a node, or remember something of one."""
        self._fresh = [f for f in known.fresh_predicates if key[f.place] is not UNCONCERNED]
        self._late_scorers = [late for late in known.late_scorers if key[late[1].place] is not UNCONCERNED]
        self._told = [scorer for scorer in enumerate(known.scorers) if self._is_told(scorer[1], key)]
        """The scores that decisions show."""
        self._looks: Memo[Look, _AnswerToLook] | None = None
        """The answers to looks of nodes; nothing if answers depend on more than those."""
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

    def _is_told(self, function: ScoreFunction, key: tuple[Hashable, ...]) -> bool:
        """Whether a score is shown: that of a plugin's first function always, if only as zero."""
        same = [other for other in self._known.scorers if other.plugin == function.plugin]
        return key[function.place] is not UNCONCERNED or bool(function.alike) or function is same[0]

    def refresh(self, task: Task, nodes: Nodes) -> None:
        """Call all plugins for the nodes that changed and update the joint answer."""
        rows, is_changed = nodes.rows, self.version < nodes.columns.nodes_changed
        if is_changed:
            self._asked, self._looks = self._concerned, None
        if rows is None:
            self._ask_about_all(task, nodes)
        elif type(rows) is slice:
            self._refresh_row(task, nodes, rows.start)
        else:
            self._refresh_rows(task, nodes, rows)
        if is_changed:
            self._leave_out(task)
        if self._fresh or self._late_scorers:
            self._add_late(task, self.now.floor if self.version >= 0 else NOTHING)
        else:
            self.now = self._kept

    def refresh_late(self, task: Task) -> None:
        """Compute the late answers for another pod of the class, although no node changed."""
        self._add_late(task, self.now.floor)

    def _leave_out(self, task: Task) -> None:
        """Find out whom to ask until the next node object changes, and whether answers to looks can be kept."""
        self._asked = [f for f in self._concerned if f in self._loud or f.reads is not Reads.NODE]
        by_look = all(what_it_reads(f.reads, task) is Reads.LOOK for f in self._asked)
        self._looks = Memo(_MOST_LOOKS) if by_look and self.scores.follow_looks(task) else None

    def _ask_about_all(self, task: Task, nodes: Nodes) -> None:
        verdicts = self._ask(task, nodes, self._asked)
        totals = self._totals(task, nodes, verdicts)
        verdicts = np.zeros(len(nodes), np.uint8) if verdicts is None else verdicts
        counts = np.bincount(verdicts, minlength=_MOST_VERDICTS)
        self._kept = ClassFit(verdicts, counts, np.array(np.broadcast_to(totals, len(verdicts))))
        self._rejected = None

    def _refresh_rows(self, task: Task, nodes: Nodes, rows: Array) -> None:
        verdicts, kept = self._ask(task, nodes, self._asked), self._kept
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
        known, kept, scores, columns = self._known, self._kept, self.scores, nodes.columns
        looks = self._looks if self._looks is not None and known.cluster.looks_tell_all else None
        look = columns.look(row) if looks is not None else None
        answer = looks.get(look) if looks is not None and look is not None else None
        if answer is None:
            verdict = self._ask_about_one(task, nodes)
        else:
            verdict = answer.verdict
            for number, extra in answer.extras:
                self.extras[number][..., row] = extra
        fits = not known.verdicts.rejects.item(verdict)
        if fits or self._late_scorers:
            is_level = scores.version == self.version
            if is_level and answer is not None and answer.scores is not None:
                scores.put(row, answer.scores, columns.clock)
            else:
                scores.update(task, columns, nodes if is_level else None)
        if answer is None and look is not None and looks is not None:
            extras = [(number, extra[..., row].copy()) for number, extra in self.extras.items()]
            is_scored = scores.version == columns.clock
            looks.keep(look, _AnswerToLook(verdict, extras, scores.of_row(row) if is_scored else None))
        kept.totals[row] = scores.totals.item(row) if fits else NOTHING
        if kept.set_verdict(row, verdict) or row in self._examples:
            self._rejected = None

    def _totals(self, task: Task, nodes: Nodes, verdicts: Array | None) -> Array | np.float64:
        """The sum of scores of nodes; minus infinity where the pods do not fit.

        Scores are computed only if any of the nodes fits: in a full cluster most do not.
        """
        known, scores = self._known, self.scores
        rejected = None if verdicts is None else known.verdicts.rejects.take(verdicts)
        # Looking at the bytes of a short array is faster than reducing it.
        if rejected is not None and not self._late_scorers and not rejected.tobytes().count(0):
            return NOTHING
        scores.update(task, known.cluster.columns, nodes if scores.version == self.version else None)
        totals = nodes.pick(scores.totals)
        return totals if rejected is None else np.where(rejected, NOTHING, totals)

    def _add_late(self, task: Task, floor: np.float64) -> None:
        """Add the late answers to the kept ones."""
        known, kept, nodes = self._known, self._kept, self._known.all_nodes
        verdicts, totals = kept.verdicts, kept.totals
        found = self._ask(task, nodes, self._fresh) if self._fresh else None
        if found is not None:
            # An earlier rejection stands; an earlier maybe does not.
            verdicts = np.where((found != FITS) & ~known.verdicts.rejects.take(verdicts), found, verdicts)
            totals = np.where(known.verdicts.rejects.take(verdicts), NOTHING, totals)
        for number, function in self._late_scorers:
            scores = function.evaluate(task, nodes) if function.fresh else self.scores.by_function[number]
            if function.reduce is not None and scores is not None:
                scores = function.reduce(task, scores, totals != NOTHING)
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
        now, kept, verdict = self.now, self._kept, int(function.verdicts[code])
        self._rejected = None
        if function.fresh and now.verdicts is kept.verdicts:
            now = self.now = ClassFit(kept.verdicts.copy(), kept.counts.copy(), now.totals.copy(), now.floor)
        now.settle_row(row, verdict)
        if now is not kept and not function.fresh:
            kept.settle_row(row, verdict)

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
        by_function, late = self.scores.by_function, self._late_scores
        for number, function in self._told:
            column = late.get(number) if function.late else by_function[number]
            if column is not None:
                result.append((function.plugin, column.take(where).tolist()))
            # The scores of a plugin's functions are added up, so zeros beside another function change nothing.
            elif function.alike or not result or result[-1][0] != function.plugin:
                result.append((function.plugin, [function.alike] * count))
        return result

    def _ask_about_one(self, task: Task, nodes: Nodes) -> int:
        """The verdict of the kept predicates about one node."""
        result = FITS
        for function in self._asked:
            answer = function.evaluate(task, nodes)
            if answer is None:
                continue
            if function.reads is Reads.NODE:
                self._loud.add(function)
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
            if function.reads is Reads.NODE:
                self._loud.add(function)
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
        self.every_pod = any(f.every_pod for f in self.scorers)
        self._keys = list(dict.fromkeys([f.key for f in self.predicates] + [f.key for f in self.scorers]))
        callbacks: list[PredicateFunction | ScoreFunction] = [*self.predicates, *self.scorers]
        for function in callbacks:
            function.place = self._keys.index(function.key)
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
            kept = self._kept[key] = PodClass(self, key, self._scores_of(task, key))
            kept.refresh(task, Nodes(columns))
        elif kept.version < columns.clock:
            kept.refresh(task, columns.nodes_since(kept.version))
        elif self.every_pod:
            kept.refresh_late(task)
        kept.version = columns.clock
        self._asked += 1
        kept.used = self._asked
        return kept

    def _scores_of(self, task: Task, key: tuple[Hashable, ...]) -> Scores:
        """The scores of pods that no scoring plugin can tell from this one."""
        scored = tuple([score_key(task) for score_key in self._score_keys])
        scores = self._scores.get(scored)
        if scores is None:
            concerned = [key[f.place] is not UNCONCERNED for f in self.scorers]
            scores = self._scores[scored] = Scores(self.scorers, concerned)
        return scores

    def lasting(self, task: Task) -> Array:
        """The verdict of a predicate that rejects a node for a reason that stays whatever pods leave; 0 for none."""
        result = np.zeros(len(self.all_nodes), np.uint8)
        for function in self.predicates:
            if function.key(task) is UNCONCERNED:
                continue
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

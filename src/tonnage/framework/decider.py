"""Decider: where a pod should go, and why not elsewhere, by the answers of all plugins.

A decision joins the plugins' answers for the pod's class, takes the best node (the first by name among equals), has
the pod's cards assigned there, and records why other nodes were not taken. It changes nothing in the cluster.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.classes import Classes, PodClass
from tonnage.framework.classfit import FITS, MAYBE
from tonnage.framework.decision import MOST_SCORES, Decision, DecisionOutcome, Reason, RejectedNodes
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.reasons import is_lasting
from tonnage.framework.registration import Registration


class Survey(NamedTuple):
    """The answer about each of some nodes: its score, or the plugin and reason against it."""

    fits: dict[str, float]
    reasons: dict[str, tuple[str, str]]


class Lasting(NamedTuple):
    """The nodes that reject a pod for reasons that no eviction resolves, and how many give each reason."""

    nodes: Array
    reasons: dict[str, int]


class Decider:
    """Makes decisions about pods, once all plugins have registered."""

    def __init__(self, cluster: Cluster, classes: Classes, registration: Registration, *, brief: bool) -> None:
        self._cluster = cluster
        self._classes = classes
        self._job_of = cluster.groups.job_of
        self._pre_predicates = registration.pre_predicates
        self._assign = registration.assign
        self._grant_predicates = registration.grant_predicates
        self._most = 1 if brief else MOST_SCORES
        """How many nodes a decision has scores of; a brief decision about a pod with a node says nothing of others."""

    def may_fit(self, task: Task) -> bool:
        """Whether any node may fit, in a fraction of the time of a decision."""
        self._cluster.settle()
        return bool(self._classes.current(task).now.best(1))

    def fitting(self, task: Task) -> Array:
        """The nodes on which the pod fits or may fit now, as a mask."""
        self._cluster.settle()
        pods = self._classes.current(task)
        fits: Array = ~self._classes.verdicts.rejects.take(pods.now.verdicts)
        return fits

    def lasting(self, task: Task) -> Lasting:
        """The nodes that reject pods of the class whatever pods leave, also if they reject them for something else."""
        self._cluster.settle()
        self._classes.current(task)
        verdicts = self._classes.lasting(task)
        counts = np.bincount(verdicts, minlength=1)
        reasons: dict[str, int] = {}
        for verdict in counts.nonzero()[0].tolist():
            meaning = self._classes.verdicts.meanings[verdict]
            if meaning is not None:
                name = meaning[0].reasons[meaning[1]]
                reasons[name] = reasons.get(name, 0) + int(counts[verdict])
        return Lasting(verdicts != FITS, reasons)

    def why_lasting(self, task: Task) -> Reason | None:
        """Why the pod fits nowhere whatever pods leave and whatever the nodes are like; nothing if it may."""
        job = self._job_of(task)
        for _, check in self._pre_predicates:
            reason = check(task, job)
            if reason is not None and is_lasting(reason.name):
                return reason
        return None

    def resolvable(self, task: Task) -> Array:
        """The nodes that fit or may fit, or whose first reason against the pod evictions can resolve, as a mask."""
        self._cluster.settle()
        mask: Array = self._classes.verdicts.resolvable.take(self._classes.current(task).now.verdicts)
        return mask

    def decide(self, task: Task, among: Array | NodeSet | None = None) -> Decision:
        """Where the pod should go, and why not elsewhere; on the nodes of `among` if it is given. Changes nothing."""
        within: NodeSet | None = None
        if isinstance(among, NodeSet):
            within, among = among, among.mask
        self._cluster.settle()
        job = self._job_of(task)
        for plugin, check in self._pre_predicates:
            reason = check(task, job)
            if reason is not None:
                decision = self._refuse(task, job, plugin, reason, among=among)
                decision.is_of_class = False
                return decision
        pods = self._classes.current(task)
        while True:
            rows = self._best_rows(task, pods, among, within)
            if not rows or self._assign is None or not task.demands:
                return self._record(task, job, pods, rows, (), among, within)
            _, number, assign = self._assign
            grant = assign(task, rows[0], pods.extras.get(number))
            if not isinstance(grant, int):
                against = self._against(task, rows[0], grant)
                if against is None:
                    return self._record(task, job, pods, rows, grant, among, within)
                number, grant = against, 1
            pods.settle_row(rows[0], self._classes.predicates[number], grant)

    def _against(self, task: Task, row: int, grant: Grant) -> int | None:
        """The number of the predicate whose plugin rejects the grant as too much."""
        for number, is_too_much in self._grant_predicates:
            if is_too_much(task, row, grant):
                return number
        return None

    def survey(self, task: Task, among: Array) -> Survey:
        """The scores of those nodes of `among` that fit, and why the others do not."""
        job = self._job_of(task)
        rows = among.nonzero()[0]
        names = [self._cluster.states[row].name for row in rows.tolist()]
        for plugin, check in self._pre_predicates:
            reason = check(task, job)
            if reason is not None:
                return Survey({}, dict.fromkeys(names, (plugin, reason.name)))
        pods = self._classes.current(task)
        self._confirm(task, pods, rows.tolist())
        survey = Survey({}, {})
        totals, verdicts = pods.now.totals.take(rows).tolist(), pods.now.verdicts.take(rows).tolist()
        for name, total, verdict in zip(names, totals, verdicts, strict=True):
            meaning = self._classes.verdicts.meanings[verdict]
            if meaning is None:
                survey.fits[name] = total
            else:
                survey.reasons[name] = (meaning[0].plugin, meaning[0].reasons[meaning[1]])
        return survey

    def refuse(self, task: Task, plugin: str, reason: Reason) -> Decision:
        """The decision about a pod that waits whatever the nodes are like, because of its job or queue."""
        return self._refuse(task, self._job_of(task), plugin, reason, DecisionOutcome.WAITING)

    def _best_rows(self, task: Task, pods: PodClass, among: Array | None, within: NodeSet | None) -> list[int]:
        """The best nodes that certainly fit, the best first."""
        scores = None if within is None else within.scores
        while True:
            rows = pods.now.best(self._most, among, scores)
            if not self._confirm(task, pods, rows):
                return rows

    def _confirm(self, task: Task, pods: PodClass, rows: Sequence[int]) -> bool:
        """Look closely at the rows that may fit; the result is whether there were any."""
        for verdict in self._classes.verdicts.doubts:
            if pods.now.counts.item(verdict):
                break
        else:
            return False
        verdicts = pods.now.verdicts.tobytes()
        doubtful = [row for row in rows if verdicts[row] != FITS]
        for row in doubtful:
            meaning = self._classes.verdicts.meanings[verdicts[row]]
            if meaning is not None and meaning[1] == MAYBE and meaning[0].confirm is not None:
                pods.settle_row(row, meaning[0], meaning[0].confirm(task, row))
        return bool(doubtful)

    def _record(
        self,
        task: Task,
        job: Job,
        pods: PodClass,
        rows: list[int],
        grant: Grant,
        among: Array | None,
        within: NodeSet | None,
    ) -> Decision:
        states = self._cluster.states
        names = [states[row].name for row in rows]
        rejected = [] if names and self._most == 1 else self._rejections(task, pods, among)
        node = names[0] if names else None
        scores = pods.scores_of(rows)
        if within is not None and within.scores is not None:
            scores.append((within.plugin, within.scores.take(rows).tolist()))
        decision = Decision(task, job, node, grant, self._cluster.vendors, names, scores, rejected)
        if rows:
            decision.cards = states[rows[0]].devices
            if self._most > 1:
                scorers = self._classes.scorers
                decision.notes = [function.note(task, rows[0]) for function in scorers if function.note is not None]
        if node is not None and self._cluster.makes_promises:
            decision.outcome = DecisionOutcome.WAITING
            decision.waits_for = [key for key in states[rows[0]].holdings if key in self._cluster.leaving]
        return decision

    def _rejections(self, task: Task, pods: PodClass, among: Array | None) -> list[RejectedNodes]:
        """The rejected nodes, grouped by plugin and reason."""
        kept = pods.rejected if among is None else None
        if kept is not None:
            return kept
        known, found, counts = self._classes.verdicts, pods.now.verdicts, pods.now.counts
        if among is not None:
            found = np.where(among, found, np.uint8(FITS))
            counts = np.bincount(found)
        verdicts = found.tobytes()
        groups: dict[tuple[str, str], RejectedNodes] = {}
        examples: set[int] = set()
        lasts = among is None
        for verdict in counts.nonzero()[0].tolist():
            meaning = known.meanings[verdict]
            if meaning is None or meaning[1] == MAYBE:
                continue
            function, code = meaning
            count = int(counts[verdict])
            reason = function.reasons[code]
            group = groups.get((function.plugin, reason))
            if group is not None:
                group.count += count
                continue
            row = verdicts.index(verdict)
            examples.add(row)
            lasts = lasts and function.detail_per_class
            render = function.detail(task, row, code, pods.extras.get(function.number))
            name = self._cluster.states[row].name
            groups[function.plugin, reason] = RejectedNodes(reason, function.plugin, count, name, render)
        rejected = list(groups.values())
        if lasts:
            pods.keep_rejected(rejected, frozenset(examples))
        return rejected

    def _refuse(
        self,
        task: Task,
        job: Job,
        plugin: str,
        reason: Reason,
        outcome: DecisionOutcome | None = None,
        among: Array | None = None,
    ) -> Decision:
        """The decision about a pod for which no node would do."""
        nodes = self._cluster.columns.size if among is None else int(among.sum())
        example = self._cluster.states[0 if among is None else int(among.argmax())].name if nodes else ""
        refused = RejectedNodes(reason.name, plugin, nodes, example, lambda: reason.message)
        return Decision(task, job, None, (), self._cluster.vendors, (), (), [refused], outcome)

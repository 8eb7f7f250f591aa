"""A session: plugins around one picture of the cluster, and decisions made by asking all of them.

A decision joins the plugins' answers for the pod's class, takes the best node (the first by name among equals), has
the pod's cards assigned there, and records why other nodes were not taken. Every placement and eviction, and the
undoing of each, is told to the plugins' event handlers; a `Statement` collects several that belong together.
"""

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster, Grant
from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Shares
from tonnage.cluster.task import Task
from tonnage.framework.classes import FITS, MAYBE, PodClass
from tonnage.framework.decision import (
    MOST_SCORES,
    Decision,
    DecisionOutcome,
    Eviction,
    Reason,
    RejectedNodes,
    StaleGang,
)
from tonnage.framework.extensions import CLOSE, OPEN, CallObserver, Extensions, SessionError
from tonnage.framework.guard import Guard
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import TaskEvent
from tonnage.model.timestamp import known_timestamp

__all__ = ["Session", "SessionError", "Survey"]


class Survey(NamedTuple):
    """What is said about each of some nodes: its score, or the plugin and reason against it."""

    fits: dict[str, float]
    reasons: dict[str, tuple[str, str]]


class Session(Extensions):
    """Plugins, and the cluster they decide about. Use it in a `with` statement, so that plugins are closed."""

    def __init__(
        self, cluster: Cluster, plugins: Sequence[Plugin], *, brief: bool = False, watch: CallObserver | None = None
    ) -> None:
        super().__init__(cluster, watch)
        self._most = 1 if brief else MOST_SCORES
        """How many nodes are kept scores of; a brief decision about a pod with a node says nothing of all others."""
        self.decisions: dict[str, Decision] = {}
        """What actions concluded about each pod, in the order in which they first looked at it."""
        self.evictions: list[Eviction] = []
        """Pods that actions decided to stop."""
        self.waits: dict[str, dict[str, Reason]] = {}
        """Why no room was made for a job, by the action that did not."""
        self.stale: list[StaleGang] = []
        """Jobs that an action found to run with fewer pods than their minimum."""
        self.enqueued: list[Job] = []
        """Jobs that were let in during this session, in that order."""
        self.not_enqueued: dict[str, Shares] = {}
        """Jobs that were not, with what they would start with."""
        self.passed_over: Container[str] = frozenset()
        """Waiting pods that actions leave alone, because nothing has changed for them since they were looked at."""
        self.must_stay: Container[str] = frozenset()
        """Running pods that actions do not stop now, because stopping them was refused a short while ago."""
        self._open: list[Plugin] = []
        try:
            for plugin in plugins:
                self._opening = plugin
                self._open.append(plugin)
                self._watched(OPEN, plugin.on_session_open)(self)
        except SessionError:
            self.close()
            raise
        except Exception as error:
            self.close()
            name = self._opening.name
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
                self._watched(CLOSE, plugin.on_session_close, plugin)(self)
            except Exception as error:
                Guard(plugin.name, self.report).failed("close", "the session", error)

    def start_anew(self) -> None:
        """Forget what was concluded in a cycle, before the next one."""
        for concluded in (self.decisions, self.evictions, self.waits, self.stale, self.enqueued, self.not_enqueued):
            concluded.clear()
        self.queue_changes.clear()

    # -- decisions

    def class_key(self, task: Task) -> Hashable:
        """Everything about a pod that plugins' answers about nodes depend on: pods with equal keys fit alike."""
        return self._classes.key(task)

    def waiting_jobs(self, wants: Callable[[Task], bool] | None = None) -> list[Job]:
        """Jobs with a waiting pod, or with one that is wanted."""
        waiting = [task for key, task in self.cluster.waiting.items() if key not in self.passed_over]
        return list(dict.fromkeys([self.job_of(task) for task in waiting if wants is None or wants(task)]))

    def may_fit(self, task: Task) -> bool:
        """Whether plugins that look at nodes leave the pod any; in a fraction of the time of a decision."""
        self.cluster.settle()
        return bool(self._classes.current(task).now.best(1))

    def fitting(self, task: Task) -> Array:
        """On which nodes the pod fits now, or may fit, as plugins say that look at nodes."""
        self.cluster.settle()
        pods = self._classes.current(task)
        fits: Array = ~self._classes.verdicts.rejects.take(pods.now.verdicts)
        return fits

    def why_not_yet(self, job: Job) -> Reason | None:
        """Why no pods may be stopped for a job yet: its group wants some time to pass since it came or was evicted."""
        now, times = self.cluster.now, job.group.times if job.group is not None else None
        if now is None or times is None or not times.preemption_delay:
            return None
        known = [when for when in (known_timestamp(job.created), times.evicted) if when is not None]
        waited = now - max(known) if known else times.preemption_delay
        if waited >= times.preemption_delay:
            return None
        asked = f"{job.key} asks for {times.preemption_delay:g} s before others are stopped for it"
        return Reason("PreemptionDelayNotElapsed", f"{asked}; it has waited {max(waited, 0):.0f} s")

    def decide(self, task: Task, among: Array | NodeSet | None = None) -> Decision:
        """Where the pod should go, and why not elsewhere; `among` of all nodes only those. Changes nothing."""
        within = among if isinstance(among, NodeSet) else None
        among = among.mask if isinstance(among, NodeSet) else among
        self.cluster.settle()
        job = self.job_of(task)
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
        """The number of the predicate whose plugin says that what a pod would get is too much."""
        for number, is_too_much in self._grant_predicates:
            if is_too_much(task, row, grant):
                return number
        return None

    def survey(self, task: Task, among: Array) -> Survey:
        """Every node of those that the pod fits on, with its score, and why it does not fit on the others."""
        job = self.job_of(task)
        rows = among.nonzero()[0]
        names = [self.cluster.states[row].name for row in rows.tolist()]
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

    def place(self, task: Task, among: Array | NodeSet | None = None) -> Decision:
        """Decide and, if a node was found, hold the placement; an earlier one of the same pod is given up first."""
        self.unplace(task.key)
        decision = self.decide(task, among)
        if decision.node is not None:
            self.take(decision)
        return decision

    def take(self, decision: Decision) -> None:
        """Hold the place that was decided for a pod."""
        assert decision.node is not None
        self.cluster.reserve(decision.task, decision.node, decision.grant)
        self._tell(self._on_allocate, decision.task, decision.job)

    def unplace(self, key: str) -> None:
        """Undo a placement that is not confirmed."""
        task = self.cluster.reserved.get(key)
        if task is not None:
            self.cluster.release(key)
            self._tell(self._on_deallocate, task, self.job_of(task))

    def evict(self, task: Task) -> None:
        """Let a running pod go: what it holds is free for those who look ahead."""
        if self.cluster.evict(task.key):
            self._tell(self._on_deallocate, task, self.job_of(task))

    def restore(self, task: Task) -> None:
        """Undo an eviction."""
        if self.cluster.restore(task.key):
            self._tell(self._on_allocate, task, self.job_of(task))

    def _tell(self, handlers: Sequence[TaskEvent], task: Task, job: Job) -> None:
        """Tell plugins what happened to a pod, and note that its queue holds more or less."""
        for told in handlers:
            told(task)
        self.queue_changes.append(job.queue)

    @contextmanager
    def looking_ahead(self) -> Iterator[None]:
        """Decide as if the pods that are leaving had left; what is placed then waits for them."""
        before = self.cluster.is_ahead
        self.cluster.look_ahead(True)
        try:
            yield
        finally:
            self.cluster.look_ahead(before)

    def refuse(self, task: Task, plugin: str, reason: Reason) -> Decision:
        """The decision about a pod that waits whatever the nodes are like, behind its job or its queue's share."""
        return self._refuse(task, self.job_of(task), plugin, reason, DecisionOutcome.WAITING)

    def _best_rows(self, task: Task, pods: PodClass, among: Array | None, within: NodeSet | None) -> list[int]:
        """The best nodes that certainly fit, best first."""
        scores = None if within is None else within.scores
        while True:
            rows = pods.now.best(self._most, among, scores)
            if not self._confirm(task, pods, rows):
                return rows

    def _confirm(self, task: Task, pods: PodClass, rows: Sequence[int]) -> bool:
        """Look closely at nodes that may fit; whether there were any."""
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
        states = self.cluster.states
        names = [states[row].name for row in rows]
        rejected = [] if names and self._most == 1 else self._rejections(task, pods, among)
        node = names[0] if names else None
        scores = pods.scores_of(rows)
        if within is not None and within.scores is not None:
            scores.append((within.plugin, within.scores.take(rows).tolist()))
        decision = Decision(task, job, node, grant, self.cluster.vendors, names, scores, rejected)
        if node is not None and self.cluster.is_ahead:
            decision.outcome = DecisionOutcome.WAITING
            decision.waits_for = [key for key in states[rows[0]].holdings if key in self.cluster.leaving]
        return decision

    def _rejections(self, task: Task, pods: PodClass, among: Array | None) -> list[RejectedNodes]:
        """Why nodes were turned down, grouped by plugin and reason."""
        known, found, counts = self._classes.verdicts, pods.now.verdicts, pods.now.counts
        if among is not None:
            found = np.where(among, found, np.uint8(FITS))
            counts = np.bincount(found)
        verdicts = found.tobytes()
        groups: dict[tuple[str, str], RejectedNodes] = {}
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
            render = function.detail(task, row, code, pods.extras.get(function.number))
            name = self.cluster.states[row].name
            groups[function.plugin, reason] = RejectedNodes(reason, function.plugin, count, name, render)
        return list(groups.values())

    def _refuse(
        self,
        task: Task,
        job: Job,
        plugin: str,
        reason: Reason,
        outcome: DecisionOutcome | None = None,
        among: Array | None = None,
    ) -> Decision:
        """A pod that no node can take, whatever the nodes are like."""
        nodes = self.cluster.columns.size if among is None else int(among.sum())
        example = self.cluster.states[0 if among is None else int(among.argmax())].name if nodes else ""
        refused = RejectedNodes(reason.name, plugin, nodes, example, lambda: reason.message)
        return Decision(task, job, None, (), self.cluster.vendors, (), (), [refused], outcome)

"""Reservations: the places that `filter` decides, and how long they are kept; `prioritize` and decisions of `bind`.

A reservation lasts until its pod is bound, deleted or filtered again, or until it expires. While a bind is in progress
the reservation does not expire. Nothing here does I/O or reads a clock.
"""

import copy
from collections.abc import Sequence
from enum import Enum

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array
from tonnage.cluster.task import Task, make_task
from tonnage.extender.protocol import FilterArgs, FilterResult, HostPriority, NodeItems, node_of
from tonnage.framework.decider import Survey
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.reasons import is_resolvable
from tonnage.framework.session import Session
from tonnage.model.excerpt import excerpt
from tonnage.model.names import name_fault
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError

RESERVATION_SECONDS = 60.0
UNSEEN_SECONDS = 10.0
"""How long a place is kept for a pod that the watch has not shown: it may be gone, and the watch would not say so."""
MOST_UNSEEN = 100
"""Places for pods that the watch has not shown. kube-scheduler asks about one pod after the other and binds each soon
after, so its own watch is rarely ahead by more than a few."""
HIGHEST = 10
"""The highest score of the protocol."""
UNKNOWN_NODE = "NodeUnknown"


class ReservationState(Enum):
    """The progress of a reservation."""

    HELD = "held"
    """Decided; expires if the pod is not bound."""
    BINDING = "binding"
    """A bind is in progress, or its outcome is unknown."""
    BOUND = "bound"
    """The API server accepted the Binding; the watch has not shown it yet."""


class Reservation:
    """A place that is reserved for a pod."""

    __slots__ = ("decided", "decision", "state", "was_known")

    def __init__(self, decision: Decision, decided: float, was_known: bool) -> None:
        self.decision = decision
        self.decided = decided
        self.state = ReservationState.HELD
        self.was_known = was_known
        """Whether the watch had shown the pod when the place was decided."""

    @property
    def task(self) -> Task:
        return self.decision.task

    @property
    def node(self) -> str:
        assert self.decision.node is not None
        return self.decision.node


class Filtered(msgspec.Struct):
    """The answer to a filter call, and the decision behind it, if there was one."""

    result: FilterResult
    decision: Decision | None = None


class Reservations:
    """Places on one cluster that are reserved as kube-scheduler asks about pods."""

    def __init__(
        self,
        session: Session,
        plugins: Sequence[Plugin],
        timeout: float = RESERVATION_SECONDS,
        scheduler_name: str = "",
    ) -> None:
        self._session = session
        self._cluster = session.cluster
        self.plugins = plugins
        self._timeout = timeout
        self._unseen_timeout = min(timeout, UNSEEN_SECONDS)
        self.scheduler_name = scheduler_name
        """The scheduler whose pods get places; of any if empty."""
        self._reservations: dict[str, Reservation] = {}
        self._unseen: set[str] = set()
        """Pods that had a place before the watch showed them; some may be shown, bound or gone by now."""
        self.expired = 0
        """How many reservations expired."""

    # -- filter

    def filter(self, args: FilterArgs, now: float) -> Filtered:
        """Decide, reserve the place, and return its node as the only one."""
        checked = self._check(args)
        if not isinstance(checked, Task):
            return Filtered(checked)
        task, names = checked, args.node_names or []
        is_all = self.is_all(names)
        fault = "" if is_all else self._fault_in(names)
        fault = fault or self._why_no_place(task)
        if fault:
            return Filtered(FilterResult(node_names=[], error=fault))
        kept = self.reservation(task.key, task.uid)
        if kept is not None and kept.state is not ReservationState.HELD:
            if kept.node in names:
                return Filtered(FilterResult(node_names=[kept.node]), kept.decision)
            return Filtered(FilterResult(node_names=[], error=f"a bind of {task.key} to {kept.node} is on its way"))
        # Among all nodes, as in most calls, a decision is faster.
        decision = self._place(task, None if is_all else self._cluster.mask(names), now)
        if decision.node is None:
            return Filtered(self._failed(task, names), decision)
        if not self._reservations[task.key].was_known:
            self._unseen.add(task.key)
        return Filtered(FilterResult(node_names=[decision.node]), decision)

    def _fault_in(self, names: Sequence[str]) -> str:
        """What is wrong with the names of nodes that are not known."""
        faults = (name_fault(name) for name in names if name not in self._cluster.nodes)
        return next((f"the request names a node: {fault}" for fault in faults if fault), "")

    def _why_no_place(self, task: Task) -> str:
        """Why nothing may be reserved for a pod, whatever the nodes are like."""
        if not task.uid:
            return f"{task.key} has no UID in the request, so no place can be reserved for it"
        if self.is_behind(task.pod):
            return f"the watch shows an earlier pod {task.key} still; this one is decided once that one is gone"
        if self._is_known(task) or task.key in self._reservations:
            return ""
        if len(self._unseen) >= MOST_UNSEEN:
            held = [one.task for one in self.kept() if one.state is ReservationState.HELD]
            self._unseen = {one.key for one in held if not self._is_known(one)}
        if len(self._unseen) < MOST_UNSEEN:
            return ""
        return f"places are reserved for {MOST_UNSEEN} pods that the watch has not shown; {task.key} must wait for it"

    def is_all(self, names: Sequence[str]) -> bool:
        """Whether these are all nodes of the cluster."""
        return len(names) == len(self._cluster.nodes) and self._cluster.nodes.keys() == set(names)

    def feasible(self, args: FilterArgs) -> Filtered:
        """Return all nodes that fit, and reserve nothing."""
        checked = self._check(args)
        if not isinstance(checked, Task):
            return Filtered(checked)
        fault = self._fault_in(args.node_names or [])
        return Filtered(FilterResult(error=fault) if fault else self._failed(checked, args.node_names or []))

    def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Scores of the nodes from 0 to 10: the best gets 10, the worst 0."""
        if args.pod is None:
            return []
        task = self._task(args.pod)
        names = args.node_names or []
        if self._fault_in(names):
            return []
        scores = self._session.survey(task, self._cluster.mask(names)).fits if task.demands else {}
        low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
        span = high - low
        scaled = {name: round((score - low) / span * HIGHEST) if span else 0 for name, score in scores.items()}
        return [HostPriority(name, scaled.get(name, 0)) for name in names]

    def _check(self, args: FilterArgs) -> Task | FilterResult:
        """The pod to decide about, or the answer if there is nothing to decide."""
        if args.pod is None:
            return FilterResult(error="the request holds no Pod")
        task = self._task(args.pod)
        if not task.demands and not task.fault:
            return FilterResult(nodes=args.nodes, node_names=args.node_names)
        bound = self._cluster.running.get(task.key)
        if bound is not None and bound.uid == task.uid:
            return FilterResult(error=f"{task.key} is bound to {self._cluster.holders[task.key]} already")
        if args.node_names is None and args.nodes is not None:
            return self._simulated(task, args.nodes)
        foreign = foreign_scheduler(task.pod, self.scheduler_name)
        return FilterResult(error=f"{task.key} {foreign}") if foreign else task

    def _failed(self, task: Task, names: Sequence[str]) -> FilterResult:
        """All nodes that fit, and the reason's name for each that does not."""
        survey = self._session.survey(task, self._cluster.mask(names))
        reasons = {name: reason for name, (_, reason) in survey.reasons.items()}
        reasons |= {name: UNKNOWN_NODE for name in names if name not in self._cluster.nodes}
        fitting = [name for name in survey.fits if name not in reasons]
        return _result(FilterResult(node_names=fitting), reasons)

    def _simulated(self, task: Task, nodes: NodeItems) -> FilterResult:
        """The answer about whole nodes, as the cluster autoscaler asks; reserves nothing.

        A known node counts with its pods, an unknown one as empty.
        """
        items, readable = nodes.items or [], {}
        reasons: dict[str, str] = {}
        world = Cluster(self._cluster.vendors)
        world.quotas = self._cluster.quotas
        for position, item in enumerate(items):
            try:
                node = node_of(item)
            except WireError as error:
                return FilterResult(error=f"node {position + 1} of the request: {error.path}: {error.message}")
            readable[node.name] = item
            if node.name not in self._cluster.nodes:
                world.upsert_node(node)
        known = self._session.survey(task, self._cluster.mask(readable))
        # A plugin belongs to the cluster that it was last opened for, so copies are opened for this one.
        with Session(world, [copy.copy(plugin) for plugin in self.plugins]) as empty:
            new: Survey = empty.survey(task, world.mask(world.nodes))
        for survey in (known, new):
            reasons |= {name: reason for name, (_, reason) in survey.reasons.items()}
        fitting = [item for name, item in readable.items() if name not in reasons]
        return _result(FilterResult(nodes=NodeItems(fitting)), reasons)

    # -- reservations

    def reservation(self, key: str, uid: str | None) -> Reservation | None:
        """The reservation of a pod; None if there is none any more."""
        found = self._reservations.get(key)
        if found is None:
            return None
        held = self._cluster.reserved.get(key)
        if held is None or held.uid != found.task.uid:
            # The pod is bound or gone.
            del self._reservations[key]
            return None
        # Another pod of the same name has no reservation here, and the one that has it keeps it.
        return None if uid and found.task.uid and uid != found.task.uid else found

    def shown(self, key: str) -> Task | None:
        """The pod of that name as the watch shows it; None if it shows none, whatever requests say."""
        found = self._cluster.running.get(key) or self._cluster.waiting.get(key)
        if found is not None:
            return found
        reserved, kept = self._cluster.reserved.get(key), self._reservations.get(key)
        is_asked_about_only = kept is not None and kept.task is reserved and not kept.was_known
        return None if is_asked_about_only else reserved

    def is_behind(self, pod: Pod) -> bool:
        """Whether the watch still shows another pod of that name, an earlier one if the request is true."""
        shown, uid = self.shown(pod.key), pod.metadata.uid
        return shown is not None and None not in (shown.uid, uid) and shown.uid != uid

    def _task(self, pod: Pod) -> Task:
        """The pod of a request; as the watch shows it if it does."""
        shown = self.shown(pod.key)
        if shown is not None and shown.uid == pod.metadata.uid:
            return shown
        # The age that a request claims is not believed, so whatever the watch shows of that name counts.
        meta = msgspec.structs.replace(pod.metadata, creationTimestamp=None)
        return make_task(msgspec.structs.replace(pod, metadata=meta), self._cluster.vendors)

    def _take_plainly(self, task: Task, node: str, now: float) -> Decision:
        """Reserve the given node for a pod that asks for no device: nothing about it is ours to decide."""
        decision = Decision(task, self._session.job_of(task), node, (), self._cluster.vendors, (node,), (), ())
        was_known = self._is_known(task)
        self._session.unplace(task.key)
        self._session.take(decision)
        self._reservations[task.key] = Reservation(decision, now, was_known)
        return decision

    def decide_on(self, pod: Pod, node: str, now: float) -> Decision:
        """Decide for a live pod whose node is given, and reserve the place."""
        task = make_task(pod, self._cluster.vendors)
        if not task.demands and not task.fault:
            return self._take_plainly(task, node, now)
        return self._place(task, self._cluster.mask([node]), now)

    def _place(self, task: Task, among: Array | None, now: float) -> Decision:
        """Decide and reserve the place; an earlier reservation of the pod ends."""
        was_known = self._is_known(task)
        is_changing = True
        try:
            self._session.unplace(task.key)
            self._reservations.pop(task.key, None)
            is_changing = False
            decision = self._session.decide(task, among)
            if decision.node is not None:
                is_changing = True
                self._session.take(decision)
                self._reservations[task.key] = Reservation(decision, now, was_known)
        except Exception:
            if is_changing:
                self._undo(task)
            if not was_known:
                self._forget(task.key)
            raise
        if decision.node is None and not was_known:
            self._forget(task.key)
        return decision

    def _undo(self, task: Task) -> None:
        """Take a pod's place from it, however far the reservation came, and count everything anew."""
        cluster, key = self._cluster, task.key
        self._reservations.pop(key, None)
        cluster.reserved.pop(key, None)
        cluster.waiting[key] = task
        cluster.recount({other: held for other in cluster.reserved if (held := cluster.held(other)) is not None})

    def _is_known(self, task: Task) -> bool:
        """Whether the watch has shown the pod."""
        kept = self._reservations.get(task.key)
        if kept is not None and kept.task.uid == task.uid:
            return kept.was_known or self._cluster.reserved.get(task.key) is not kept.task
        waiting = self._cluster.waiting.get(task.key)
        return waiting is not None and waiting.uid == task.uid

    def _forget(self, key: str) -> None:
        """Remove a pending pod that the watch has not shown: it may be gone, and the watch would not say so."""
        if key in self._cluster.waiting:
            self._cluster.remove_pod(key)

    def release(self, key: str) -> None:
        """Release a place, after a bind that certainly failed."""
        kept = self._reservations.get(key)
        if kept is not None:
            was_known = self._is_known(kept.task)
            del self._reservations[key]
            self._session.unplace(key)
            if not was_known:
                self._forget(key)

    def expire(self, now: float) -> list[Reservation]:
        """Release the places that were not bound in time, and return them."""
        expired: list[Reservation] = []
        for key in list(self._reservations):
            found = self.reservation(key, None)
            if found is None or found.state is not ReservationState.HELD:
                continue
            if now - found.decided >= (self._timeout if self._is_known(found.task) else self._unseen_timeout):
                self.release(key)
                expired.append(found)
        self.expired += len(expired)
        return expired

    def kept(self) -> list[Reservation]:
        """All reservations."""
        found = [self.reservation(key, None) for key in list(self._reservations)]
        return [one for one in found if one is not None]

    def count(self) -> dict[ReservationState, int]:
        """The number of reservations, by state."""
        counts = dict.fromkeys(ReservationState, 0)
        for one in self.kept():
            counts[one.state] += 1
        return counts

    def oldest(self, now: float) -> dict[ReservationState, float]:
        """The age in seconds of the oldest reservation, by state; 0 if there is none."""
        ages = dict.fromkeys(ReservationState, 0.0)
        for one in self.kept():
            ages[one.state] = max(ages[one.state], now - one.decided)
        return ages


def foreign_scheduler(pod: Pod, scheduler_name: str) -> str:
    """What a pod names instead of our scheduler; empty if it names ours, or if any will do."""
    named = pod.scheduler
    if not scheduler_name or named == scheduler_name:
        return ""
    return f"names the scheduler {excerpt(named)}, and this extender serves {scheduler_name} only (--scheduler-name)"


def _result(result: FilterResult, reasons: dict[str, str]) -> FilterResult:
    result.failed_nodes = {name: reason for name, reason in reasons.items() if is_resolvable(reason)}
    unresolvable = {name: reason for name, reason in reasons.items() if not is_resolvable(reason)}
    result.failed_and_unresolvable_nodes = unresolvable
    return result

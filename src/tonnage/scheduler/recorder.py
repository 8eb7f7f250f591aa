"""Tells the outside what became of pods: metrics, Events with Kubernetes' own reasons, conditions, and the log."""

import logging
from collections.abc import Sequence

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.model.pod import Pod
from tonnage.observability.events import (
    DEVICE_OVERLAP,
    EVICTED,
    FAILED_SCHEDULING,
    PREEMPTED,
    SCHEDULED,
    EventRecorder,
    ObjectRef,
)
from tonnage.observability.logs import FIELDS
from tonnage.scheduler.conditions import Conditions
from tonnage.scheduler.evictions.evictor import EVICTED as WAS_EVICTED
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.metrics import SchedulerMetrics

log = logging.getLogger(__name__)

BOUND, NOT_BOUND, WAITING, NOMINATION_DROPPED = "bound", "not_bound", "waiting", "nomination_dropped"


class SchedulerRecorder:
    """What is told of each pod."""

    def __init__(self, metrics: SchedulerMetrics, events: EventRecorder, conditions: Conditions) -> None:
        self._metrics = metrics
        self._events = events
        self._conditions = conditions

    def bound(self, decision: Decision, seconds: float) -> None:
        """A pod has its node."""
        task = decision.task
        self._metrics.bind_seconds.observe(seconds)
        self._metrics.attempts.labels(BOUND).inc()
        self._metrics.timings.answered(task.key)
        self._conditions.forget(task.key)
        self._events.tell(_ref(task), SCHEDULED, f"Successfully assigned {task.key} to {decision.node}")
        if log.isEnabledFor(logging.INFO):
            _say(logging.INFO, BOUND, task, node=decision.node, seconds=round(seconds, 6), devices=decision.devices)

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """A pod was not bound, and its place and perhaps others' are free again."""
        self._metrics.attempts.labels(NOT_BOUND).inc()
        self._events.tell(_ref(decision.task), FAILED_SCHEDULING, why)
        _say(logging.WARNING, NOT_BOUND, decision.task, node=decision.node, message=why, released=released)

    def overlapped(self, pod: Pod, why: str) -> None:
        """A pod was evicted because others held its devices before."""
        self._metrics.overlaps.inc()
        named = pod.metadata
        self._events.tell(ObjectRef(named.namespace or "default", named.name, named.uid or ""), DEVICE_OVERLAP, why)
        log.warning("overlap", extra={FIELDS: {"pod": pod.key, "node": pod.node, "message": why}})

    def waits(self, decision: Decision, why: str) -> None:
        """A pod found no place."""
        task = decision.task
        self._metrics.attempts.labels(WAITING).inc()
        if not self._conditions.tell(task, why):
            return
        reasons = sorted({rejected.reason for rejected in decision.rejected})
        self._metrics.rejected(reasons)
        self._events.tell(_ref(task), FAILED_SCHEDULING, why, ",".join(reasons))
        if log.isEnabledFor(logging.DEBUG):
            _say(logging.DEBUG, WAITING, task, message=why)

    # -- told by evictions

    def evicted(self, victim: Victim, outcome: str) -> None:
        """What became of a pod that had to go."""
        eviction = victim.eviction
        self._metrics.evictions.labels(eviction.action, outcome).inc()
        if outcome == WAS_EVICTED:
            if eviction.for_ == victim.job:
                self._events.tell(_ref(victim.task), EVICTED, f"Evicted from node {eviction.node}: {eviction.reason}")
            else:
                text = f"Preempted by {eviction.for_} on node {eviction.node}: {eviction.reason}"
                text += f"; there is room on {eviction.to}" if eviction.to else ""
                self._events.tell(_ref(victim.task), PREEMPTED, text)
        fields = {"node": eviction.node, "for": eviction.for_, "action": eviction.action, "reason": eviction.reason}
        _say(logging.INFO, outcome, victim.task, **fields)

    def held_up(self, plan: EvictionPlan) -> None:
        """Somebody may not be evicted yet."""
        for decision in plan.decisions.values():
            self.waits(decision, plan.why_not(decision))

    def not_evicted(self, tasks: Sequence[Task], why: str) -> None:
        """Somebody could not be evicted, so that these pods have lost their promised places."""
        for task in tasks:
            self._conditions.tell(task, why)
            self._events.tell(_ref(task), FAILED_SCHEDULING, why)
            _say(logging.WARNING, NOMINATION_DROPPED, task, message=why)


def _ref(task: Task) -> ObjectRef:
    return ObjectRef(task.namespace, task.name, task.uid or "")


def _say(level: int, event: str, task: Task, **fields: object) -> None:
    log.log(level, event, extra={FIELDS: {"pod": task.key, **fields}})

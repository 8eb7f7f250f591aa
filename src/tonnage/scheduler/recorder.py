"""SchedulerRecorder: the metrics, the Event with Kubernetes' own reason, the condition and the log line of each pod."""

import logging
from collections.abc import Callable, Sequence

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.model.pod import Pod
from tonnage.observability.events import (
    EVICT,
    EVICTED,
    FAILED_SCHEDULING,
    GROUP_CAME_LATE,
    PREEMPTED,
    SCHEDULED,
    WAITING_FOR_VOLUME,
    EventRecorder,
    ObjectRef,
)
from tonnage.observability.recorder import PodRecorder, harmless, pod_ref
from tonnage.scheduler.conditions import SCHEDULER_ERROR, Conditions
from tonnage.scheduler.evictions.evictor import EVICTED as WAS_EVICTED
from tonnage.scheduler.evictions.plans import EvictionPlan, Victim
from tonnage.scheduler.metrics import SchedulerMetrics

log = logging.getLogger(__name__)

BOUND, NOT_BOUND, NODE_BUSY, WAITING, FAILED = "bound", "not_bound", "node_busy", "waiting", "failed"
NOMINATION_DROPPED, LATE_GROUP = "nomination_dropped", "group_came_late"
WAITS_FOR_VOLUME = "waits_for_volume"


class SchedulerRecorder(PodRecorder):
    """Records what the scheduler did about each pod."""

    def __init__(
        self,
        metrics: SchedulerMetrics,
        events: EventRecorder,
        conditions: Conditions,
        group_ref: Callable[[str], ObjectRef | None],
    ) -> None:
        super().__init__(log, metrics, events)
        self._metrics = metrics
        self._conditions = conditions
        self._group_ref = group_ref
        """The PodGroup of a job as the object of an Event, if there is one."""

    @harmless
    def bound(self, decision: Decision, seconds: float) -> None:
        """A pod has its node."""
        task = decision.task
        self.on_decision(decision)
        self._conditions.forget(task.key)
        self._metrics.bind_seconds.observe(seconds)
        self._metrics.attempts.labels(BOUND).inc()
        self._metrics.timings.answered(task.key)
        self.events.record(_ref(task), SCHEDULED, f"Successfully assigned {task.key} to {decision.node}")
        self.line(
            logging.INFO, BOUND, task.key, node=decision.node, seconds=round(seconds, 6), devices=decision.devices
        )

    @harmless
    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """A pod was not bound; its reservation and those of the other `released` pods are undone."""
        self._metrics.attempts.labels(NOT_BOUND).inc()
        self.events.record(_ref(decision.task), FAILED_SCHEDULING, why)
        self.line(logging.WARNING, NOT_BOUND, decision.task.key, node=decision.node, message=why, released=released)

    @harmless
    def node_busy(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        """A pod's turn on its node did not come; it and the other `released` pods are decided about again."""
        self._metrics.attempts.labels(NODE_BUSY).inc()
        self.line(logging.INFO, NODE_BUSY, decision.task.key, node=decision.node, message=why, released=released)

    @harmless
    def waits_for_volume(self, decision: Decision, why: str) -> None:
        """A pod has its place, and volumes are being bound before it is."""
        task = decision.task
        if self._conditions.set_unschedulable(task, why, WAITING_FOR_VOLUME):
            self.events.record(_ref(task), WAITING_FOR_VOLUME, why)
            self.line(logging.INFO, WAITS_FOR_VOLUME, task.key, node=decision.node, message=why)

    @harmless
    def unschedulable(self, decision: Decision, why: str) -> None:
        """A pod found no node."""
        task = decision.task
        self.on_decision(decision)
        self._metrics.attempts.labels(WAITING).inc()
        if not self._conditions.set_unschedulable(task, why):
            return
        reasons = sorted({rejected.reason for rejected in decision.rejected})
        self._metrics.rejected(reasons)
        self.events.record(_ref(task), FAILED_SCHEDULING, why, ",".join(reasons))
        self.line(logging.DEBUG, WAITING, task.key, message=why)

    @harmless
    def failed(self, task: Task, why: str) -> None:
        """A cycle failed at the pod's job."""
        self._metrics.attempts.labels(FAILED).inc()
        if self._conditions.set_unschedulable(task, why, SCHEDULER_ERROR):
            self.events.record(_ref(task), FAILED_SCHEDULING, why)
            self.line(logging.WARNING, FAILED, task.key, message=why)

    @harmless
    def group_came_late(self, pod: Pod, why: str) -> None:
        """A pod was placed alone, and belongs to a group that was made later."""
        self._metrics.groups_late.inc()
        message = f"It was placed without its gang: {why}"
        self.events.record(pod_ref(pod), GROUP_CAME_LATE, message)
        self.line(logging.WARNING, LATE_GROUP, pod.key, message=message)

    # -- outcomes of evictions

    @harmless
    def evicted(self, victim: Victim, outcome: str) -> None:
        """The eviction of a victim ended with this outcome."""
        eviction = victim.eviction
        self._metrics.evictions.labels(eviction.action, outcome).inc()
        if outcome == WAS_EVICTED:
            if eviction.for_ == victim.job:
                self.events.record(_ref(victim.task), EVICTED, f"Evicted from node {eviction.node}: {eviction.reason}")
            else:
                text = f"Preempted by {eviction.for_} on node {eviction.node}: {eviction.reason}"
                text += f"; there is room on {eviction.to}" if eviction.to else ""
                self.events.record(_ref(victim.task), PREEMPTED, text)
            for about in (_ref(victim.task), self._group_ref(victim.job)):
                if about is not None:
                    self.events.record(about, EVICT, f"Pod is evicted, because of {eviction.reason}")
        fields = {"node": eviction.node, "for": eviction.for_, "action": eviction.action, "reason": eviction.reason}
        self.line(logging.INFO, outcome, victim.task.key, **fields)

    @harmless
    def postponed(self, plan: EvictionPlan) -> None:
        """The plan waits because a victim may not be evicted yet."""
        for decision in plan.decisions.values():
            self.unschedulable(decision, plan.why_not(decision))

    @harmless
    def not_evicted(self, tasks: Sequence[Task], why: str) -> None:
        """A victim could not be evicted, so these preemptors have lost their nominations."""
        for task in tasks:
            self._conditions.set_unschedulable(task, why)
            self.events.record(_ref(task), FAILED_SCHEDULING, why)
            self.line(logging.WARNING, NOMINATION_DROPPED, task.key, message=why)


def _ref(task: Task) -> ObjectRef:
    return ObjectRef(task.namespace, task.name, task.uid or "")

"""ExtenderRecorder: the metrics, the Event on the pod and the log line of every decision of the extender.

A bound pod has one log line at level info, that of its bind, which says all that was decided. A pending pod has one for
its first attempt and, while its reasons stay the same, for its second, fourth, eighth and so on. Recording costs a
decision 10 to 30 microseconds of CPU.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial

from tonnage.extender.messages import bound_to, fit_node, no_node, reason_counts
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.protocol import BindArgs, FilterArgs
from tonnage.extender.reservations import Filtered
from tonnage.framework.decision import Decision
from tonnage.model.pod import Pod
from tonnage.observability.events import (
    BINDING_FAILED,
    BINDING_SUCCEED,
    FILTERING_FAILED,
    FILTERING_SUCCEED,
    EventRecorder,
    ObjectRef,
)
from tonnage.observability.messages import rejections
from tonnage.observability.recorder import PodRecorder, harmless, pod_ref

log = logging.getLogger(__name__)

FILTER, BIND = "filter", "bind"
PLACED, FITS, UNSCHEDULABLE, ERROR = "placed", "fits", "unschedulable", "error"
NOTHING_ASKED, SIMULATED = "nothing_asked", "simulated"
BOUND, NOT_BOUND = "bound", "not_bound"
OUTCOMES = {
    FILTER: (PLACED, FITS, UNSCHEDULABLE, ERROR, NOTHING_ASKED, SIMULATED),
    BIND: (BOUND, NOT_BOUND),
}
DEVICE_PLUGIN_FAILED = "device_plugin_failed"

MOST_PODS = 20_000
"""Some megabytes; of more pending pods the ones that were not tried for the longest time are forgotten."""


class ExtenderRecorder(PodRecorder):
    """Records what the extender answers kube-scheduler about each pod, and how many seconds it took."""

    def __init__(self, metrics: ExtenderMetrics, events: EventRecorder) -> None:
        super().__init__(log, metrics, events)
        self._metrics = metrics
        self._counts = {
            (verb, outcome): metrics.decisions.labels(verb, outcome)
            for verb, outcomes in OUTCOMES.items()
            for outcome in outcomes
        }
        self._failed = FailedAttempts()
        metrics.events_queued.set_function(lambda: events.queued)

    @harmless
    def filtered(self, args: FilterArgs, filtered: Filtered, seconds: float) -> None:
        outcome = _outcome(args, filtered)
        self._metrics.filter_seconds.observe(seconds)
        self._counts[FILTER, outcome].inc()
        pod, decision = args.pod, filtered.decision
        if decision is not None:
            self.on_decision(decision)
        if pod is None:
            log.warning("filter: %s", filtered.result.error)
        elif outcome == PLACED and decision is not None:
            self._failed.forget(pod.key)
            self.events.record(pod_ref(pod), FILTERING_SUCCEED, partial(fit_node, decision))
            if log.isEnabledFor(logging.DEBUG):
                self._line(logging.DEBUG, outcome, pod.key, seconds, **_place(decision))
        elif outcome == UNSCHEDULABLE:
            counts = reason_counts(filtered.result, decision)
            self._metrics.rejected(counts)
            message = no_node(counts, decision)
            self.events.record(pod_ref(pod), FILTERING_FAILED, message, ",".join(sorted(counts)))
            attempts = self._failed.add(pod.key, counts)
            level = logging.INFO if is_power_of_two(attempts) else logging.DEBUG
            self._line(level, outcome, pod.key, seconds, tries=attempts, reasons=counts, message=message)
        elif outcome == ERROR:
            if args.node_names is not None:
                self.events.record(pod_ref(pod), FILTERING_FAILED, filtered.result.error)
            self._line(logging.WARNING, outcome, pod.key, seconds, message=filtered.result.error)
        else:
            if outcome == FITS:
                self._failed.forget(pod.key)
            self._line(logging.DEBUG, outcome, pod.key, seconds, nodes=len(filtered.result.node_names or ()))

    @harmless
    def bound(self, args: BindArgs, decision: Decision, seconds: float) -> None:
        self._metrics.timings.answered(args.key)
        self._bind(BOUND, seconds)
        self.events.record(_bound_ref(args), BINDING_SUCCEED, partial(bound_to, args.key, args.node))
        self._line(logging.INFO, BOUND, args.key, seconds, **_place(decision))

    def gone(self, key: str) -> None:
        """A pod does not exist any more: forget what was recorded about it."""
        self._failed.forget(key)
        self.events.forget(key)

    @harmless
    def plugin_failed(self, pod: Pod) -> None:
        self._metrics.device_plugin_failures.inc()
        message = f"the device plugin on {pod.node} could not hand out the pod's devices; its place is free again"
        self.events.record(pod_ref(pod), BINDING_FAILED, message)
        self.line(logging.WARNING, DEVICE_PLUGIN_FAILED, pod.key, node=pod.node, message=message)

    @harmless
    def not_bound(self, args: BindArgs, why: str, seconds: float) -> None:
        self._bind(NOT_BOUND, seconds)
        self.events.record(_bound_ref(args), BINDING_FAILED, why)
        self._line(logging.WARNING, NOT_BOUND, args.key, seconds, node=args.node, message=why)

    @harmless
    def requeued(self, outcome: str) -> None:
        self._metrics.requeued(outcome)

    def _line(self, level: int, event: str, pod: str, seconds: float, **fields: object) -> None:
        self.line(level, event, pod, seconds=round(seconds, 6), **fields)

    def _bind(self, outcome: str, seconds: float) -> None:
        self._metrics.bind_seconds.observe(seconds)
        self._counts[BIND, outcome].inc()


def _outcome(args: FilterArgs, filtered: Filtered) -> str:
    result = filtered.result
    if result.error:
        return ERROR
    if filtered.decision is not None:
        return UNSCHEDULABLE if filtered.decision.node is None else PLACED
    if result.failed_nodes is None:
        return NOTHING_ASKED
    if args.node_names is None:
        # The cluster autoscaler asks about nodes that may not exist, and never binds.
        return SIMULATED
    return FITS if result.node_names else UNSCHEDULABLE


def _place(decision: Decision) -> dict[str, object]:
    """The pod's node and devices, and the number of rejected nodes per reason."""
    return {"node": decision.node, "devices": decision.devices, "reasons": rejections(decision)}


def _bound_ref(args: BindArgs) -> ObjectRef:
    return ObjectRef(args.namespace or "default", args.name, args.uid)


class FailedAttempts:
    """The number of consecutive attempts per pod that failed for the same reasons."""

    def __init__(self, most: int = MOST_PODS) -> None:
        self._most = most
        self._pods: OrderedDict[str, tuple[frozenset[str], int]] = OrderedDict()

    def add(self, pod: str, reasons: Iterable[str]) -> int:
        """Count a failed attempt; how many there were in a row for exactly these reasons, this one included."""
        now = frozenset(reasons)
        before, attempts = self._pods.get(pod, (now, 0))
        attempts = attempts + 1 if before == now else 1
        self._pods[pod] = now, attempts
        self._pods.move_to_end(pod)
        while len(self._pods) > self._most:
            self._pods.popitem(last=False)
        return attempts

    def forget(self, pod: str) -> None:
        """The pod found a node or is gone: its count starts anew."""
        self._pods.pop(pod, None)


def is_power_of_two(number: int) -> bool:
    """Whether the number is 1, 2, 4, 8 and so on."""
    return number & (number - 1) == 0

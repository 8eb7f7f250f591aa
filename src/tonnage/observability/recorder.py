"""PodRecorder: the core of both servers' recorders, which turn a pod's outcome into an Event, a log line and metrics.

Recording never changes a decision: a recorder that fails logs its failure and returns.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from tonnage.framework.decision import Decision
from tonnage.kube.supervision import failures
from tonnage.model.pod import Pod
from tonnage.observability.events import DEVICE_OVERLAP, EventRecorder, ObjectRef
from tonnage.observability.logs import FIELDS
from tonnage.observability.metrics import ServerMetrics

P = ParamSpec("P")
R = TypeVar("R", bound="PodRecorder")


def harmless(record: Callable[Concatenate[R, P], None]) -> Callable[Concatenate[R, P], None]:
    """Make a method of a recorder log its failures instead of raising them: the decision stands either way."""

    @wraps(record)
    def guarded(self: R, /, *args: P.args, **named: P.kwargs) -> None:
        try:
            record(self, *args, **named)
        except Exception:
            self.log.exception("a decision could not be told")
            failures["recorder"] += 1

    return guarded


class PodRecorder:
    """Records what happens to pods; each server adds its own outcomes."""

    def __init__(self, log: logging.Logger, metrics: ServerMetrics, events: EventRecorder) -> None:
        self.log = log
        self.events = events
        self._overlaps = metrics.overlaps
        self.on_decision: Callable[[Decision], None] = lambda decision: None
        """Called with every decision about a pod, for whoever looks on."""

    def line(self, level: int, event: str, pod: str, **fields: object) -> None:
        """Log one line about a pod."""
        if self.log.isEnabledFor(level):
            self.log.log(level, event, extra={FIELDS: {"pod": pod, **fields}})

    @harmless
    def overlapped(self, pod: Pod, why: str) -> None:
        """A pod was evicted because another pod had held one of its devices before it."""
        self._overlaps.inc()
        self.events.record(pod_ref(pod), DEVICE_OVERLAP, why)
        self.line(logging.WARNING, "overlap", pod.key, node=pod.node, message=why)


def pod_ref(pod: Pod) -> ObjectRef:
    """The pod as the object of an Event."""
    return ObjectRef(pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid or "")

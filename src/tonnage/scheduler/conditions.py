"""Conditions: PodScheduled=False on pending pods, with the reason in words, and True where a bound pod still has that.

A condition is written only when its message has changed, at a limited rate, and 0.1 seconds late: a gang whose pods
are created one after another is complete a moment later, and nobody needs to read that it was not.

If more conditions are queued than the rate allows, one pod of each namespace and message goes first, alternately the
pod that was queued first and the one that was queued last.

The API server sets PodScheduled=True with the Binding. A write that was begun before may come true after it, however
late; the watch shows that, and the condition is set right.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tonnage.binder.binding import pod_path
from tonnage.cluster.task import Task
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.fence import FencedError
from tonnage.kube.ratelimit import RateLimit
from tonnage.kube.supervision import failed
from tonnage.model.timestamp import rfc3339
from tonnage.observability.messages import shortened

log = logging.getLogger(__name__)

PER_SECOND, BURST = 50.0, 50
SETTLING = 0.1
"""Seconds between a decision and the write of its condition."""
AGAIN = 2.0
"""Seconds until a failed write is repeated."""
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""Kubernetes' own reasons: the pod fits nowhere; the scheduler failed at it."""
_MOST_REASONS = 10_000
"""Messages that are remembered while conditions are queued."""
_OVERLOADED = 429
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class _Condition(NamedTuple):
    """A condition of the type PodScheduled."""

    message: str
    reason: str
    is_scheduled: bool = False


_SCHEDULED = _Condition("", "", is_scheduled=True)


class Conditions:
    """Writes conditions while `run` runs."""

    def __init__(
        self, client: Client, now: Callable[[], float], per_second: float = PER_SECOND, burst: int = BURST
    ) -> None:
        self._client = client
        self._now = now
        self._allowance = RateLimit(per_second, burst)
        self._current: dict[str, tuple[str | None, _Condition]] = {}
        """The UID of each pod whose condition was written, and the condition."""
        self._first: OrderedDict[str, tuple[Task, _Condition]] = OrderedDict()
        """Pods whose message no other pod of their namespace has, as yet."""
        self._rest: OrderedDict[str, tuple[Task, _Condition]] = OrderedDict()
        self._reasons: set[tuple[str, str]] = set()
        """Namespaces and messages that were queued since the queue was last empty."""
        self._latest_next = False
        self._filled = asyncio.Event()
        self._failed: dict[str, tuple[Task, _Condition]] = {}
        """Conditions to write again after a pause."""
        self.written = 0

    @property
    def queued(self) -> int:
        """How many conditions wait to be written."""
        return len(self._first) + len(self._rest)

    def set_unschedulable(self, task: Task, message: str, reason: str = UNSCHEDULABLE) -> bool:
        """Queue the condition of a pending pod; whether it differs from the one that was written."""
        if task.pod.spec.schedulingGates:
            # The API server sets the condition of gated pods.
            return False
        self._failed.pop(task.key, None)
        condition = _Condition(message, reason)
        if self._current.get(task.key) == (task.uid, condition):
            self._unqueue(task.key)
            return False
        self._enqueue(task, condition)
        return True

    def set_scheduled(self, task: Task) -> None:
        """Queue the condition of a pod that has a node and says that it has none."""
        self._failed.pop(task.key, None)
        self._enqueue(task, _SCHEDULED)

    def _enqueue(self, task: Task, condition: _Condition) -> None:
        """A queued pod keeps its position, unless its message is new in its namespace."""
        self._filled.set()
        reason = task.namespace, condition.message
        if task.key in self._first or reason not in self._reasons:
            self._rest.pop(task.key, None)
            self._first[task.key] = task, condition
        else:
            self._rest[task.key] = task, condition
        if len(self._reasons) >= _MOST_REASONS:
            self._reasons.clear()
        self._reasons.add(reason)

    def _unqueue(self, key: str) -> None:
        self._first.pop(key, None)
        self._rest.pop(key, None)

    def _next(self) -> tuple[Task, _Condition]:
        _, condition = (self._first or self._rest).popitem(last=self._latest_next)
        self._latest_next = not self._latest_next
        if not self.queued:
            self._reasons.clear()
        return condition

    def forget(self, key: str) -> None:
        """A pod has a node or is gone: why it waited is not written any more."""
        self._current.pop(key, None)
        if not self._queues_scheduled(key):
            self._unqueue(key)
            self._failed.pop(key, None)

    def _queues_scheduled(self, key: str) -> bool:
        """Whether the condition of a bound pod is to be set right; the bind's own answer may come after that."""
        queued = self._first.get(key) or self._rest.get(key) or self._failed.get(key)
        return queued is not None and queued[1].is_scheduled

    def forget_all(self) -> None:
        """Forget every pod: another replica writes conditions from now on, or did until now."""
        self._first.clear()
        self._rest.clear()
        self._reasons.clear()
        self._current.clear()
        self._failed.clear()

    async def run(self) -> None:
        """Write conditions until cancelled."""
        while True:
            await self._filled.wait()
            await asyncio.sleep(SETTLING)
            while self.queued:
                await self._allowance.take()
                if self.queued:
                    await self._write_next()
            self._filled.clear()

    async def _write_next(self) -> None:
        task, condition = self._next()
        try:
            await self._write(task, condition)
        except Exception as error:
            # A bug that one pod meets must not keep the others from being told.
            failed("conditions", error)
            self._current.pop(task.key, None)

    async def _write(self, task: Task, condition: _Condition) -> None:
        path = pod_path(task.namespace, task.name, "status")
        body = {"metadata": {"uid": task.uid}, "status": {"conditions": [self._written(task, condition)]}}
        self._current[task.key] = task.uid, condition
        try:
            await self._client.request("PATCH", path, body=body, type_=_STRATEGIC_MERGE_PATCH, timeout=10)
            self.written += 1
        except KubeError as error:
            is_forgotten = self._current.pop(task.key, None) is None and not condition.is_scheduled
            if isinstance(error, StatusError) and error.is_definite and error.status != _OVERLOADED:
                return
            log.warning("%s: its condition could not be written: %s", task.key, error)
            # Not repeated: a write of a replica that no longer leads, of a pod that has a node by now, or of a message
            # that a newer one has replaced.
            is_replaced = task.key in self._first or task.key in self._rest
            if not is_forgotten and not isinstance(error, FencedError) and not is_replaced:
                self._failed[task.key] = task, condition
                asyncio.get_running_loop().call_later(AGAIN, self._write_again)

    def _written(self, task: Task, condition: _Condition) -> dict[str, str | None]:
        """The condition as it is written; the time of the transition only if it is one."""
        status = "True" if condition.is_scheduled else "False"
        reason, message = condition.reason or None, shortened(condition.message) or None
        written = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
        uid, current = self._current.get(task.key, (None, None))
        if current is None or uid != task.uid or current.is_scheduled != condition.is_scheduled:
            written["lastTransitionTime"] = rfc3339(self._now())
        return written

    def _write_again(self) -> None:
        again, self._failed = self._failed, {}
        for task, condition in again.values():
            self._enqueue(task, condition)

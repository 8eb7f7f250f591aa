"""Requeue: makes kube-scheduler ask about a pending pod again as soon as there is room for it.

kube-scheduler sets a pod that its extender turned down aside until it sees an event that may help. It does not see
cards, quotas on them or reservations, and it may ask again before our watch has shown what its own has; then the pod
stays unschedulable for up to five minutes. An update of the pod moves it back to kube-scheduler's active queue, so the
extender requeues a pod by writing an annotation. Nothing runs while no pod is pending.
"""

import asyncio
import logging
from collections.abc import Callable

from tonnage.binder.binding import pod_path
from tonnage.cluster.task import Task
from tonnage.extender.pending import PendingPods
from tonnage.extender.protocol import FilterArgs
from tonnage.extender.reservations import Filtered
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.resource import Change
from tonnage.kube.supervision import failed
from tonnage.model.annotations import REQUEUED
from tonnage.model.timestamp import rfc3339

log = logging.getLogger(__name__)


_AT_ONCE = 4
"""Concurrent writes."""
_GONE = (404, 409)
"""The pod does not exist, or another pod has its name."""

WRITTEN, GONE, FAILED, PLACED = "written", "gone", "failed", "placed"
"""Outcomes: three of the write, and PLACED if a requeued pod gets a place when kube-scheduler asks next."""


class Requeue:
    """Requeues pods while `run` runs."""

    def __init__(
        self,
        client: Client,
        pending: PendingPods,
        now: Callable[[], float],
        clock: Callable[[], float],
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self._client = client
        self.pending = pending
        self._now = now
        """Seconds since 1970, for what is written."""
        self._clock = clock
        """Seconds that never go back."""
        self._count = count
        """Called with each outcome."""
        self._has_pods = asyncio.Event()
        """Set while pods are pending."""
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def begin(self, scheduler: str) -> None:
        """Adopt the pods that are pending already: this process decides from now on."""
        self.pending.adopt(scheduler)
        self._update()

    def end(self) -> None:
        """Forget all pods: another process decides, and requeues, from now on."""
        self.pending.forget_all()
        self._update()

    def filtered(self, args: FilterArgs, filtered: Filtered) -> None:
        """Take note of an answer to `filter`."""
        if self.pending.filtered(args, filtered):
            self._count(PLACED)
        self._update()

    def seen(self, change: Change) -> None:
        """Take note of a change of a pod that the watch shows."""
        pod = change.object
        if self.pending and (change.is_gone or (pod is not None and pod.node is not None)):
            self.pending.forget(change.key)
            self._update()

    def _update(self) -> None:
        if self.pending:
            self._has_pods.set()
        else:
            self._has_pods.clear()

    async def run(self) -> None:
        """Requeue pods until cancelled."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._has_pods.wait()
                await asyncio.sleep(self.pending.pause)
                for task in self._to_requeue():
                    writes.create_task(self._requeue(task))

    def _to_requeue(self) -> list[Task]:
        try:
            return self.pending.to_requeue(self._clock())
        except Exception as error:
            # A bug in a trial must not end the extender.
            failed("requeue", error)
            return []

    async def _requeue(self, task: Task) -> None:
        body = {"metadata": {"uid": task.uid, "annotations": {REQUEUED: rfc3339(self._now())}}}
        path = pod_path(task.namespace, task.name)
        async with self._slots:
            try:
                await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=10)
            except KubeError as error:
                is_gone = isinstance(error, StatusError) and error.status in _GONE
                self._count(GONE if is_gone else FAILED)
                if not is_gone:
                    log.warning("%s would fit now and cannot be told so: %s", task.key, error)
                return
        self._count(WRITTEN)
        log.debug("%s would fit now and was called", task.key)

"""Pods that found no node are asked about again as soon as there is room for them.

kube-scheduler puts a pod that its extender turned down aside until something happens that it can see. It cannot see
cards, quotas on them or places that were kept for others, and it may ask again before the watch has shown here what it
has seen there; then it leaves the pod aside for up to five minutes. A pod that is changed is taken out again, so who
is to be called gets an annotation. Nothing is done while nobody waits.
"""

import asyncio
import logging
from collections.abc import Callable

from tonnage.cluster.task import Task
from tonnage.extender.pending import PendingPods
from tonnage.extender.protocol import FilterArgs
from tonnage.extender.reservations import Filtered
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.resource import Change
from tonnage.model.annotations import REQUEUED
from tonnage.model.timestamp import rfc3339

log = logging.getLogger(__name__)

"""The annotation of a pod that was called: when that was last."""
_AT_ONCE = 4
"""Writes that may be on their way together."""
_GONE = (404, 409)
"""There is no such pod, or it is another one of the same name."""

WRITTEN, GONE, FAILED, PLACED = "written", "gone", "failed", "placed"
"""What becomes of calls: of the write; and that a called pod gets a place when kube-scheduler asks next."""


class Requeue:
    """Calls pods while `run` runs."""

    def __init__(
        self,
        client: Client,
        waiting: PendingPods,
        now: Callable[[], float],
        clock: Callable[[], float],
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self._client = client
        self.waiting = waiting
        self._now = now
        """Seconds since 1970, for what is written."""
        self._clock = clock
        """Seconds that never go back."""
        self._count = count
        """Told what becomes of each call."""
        self._someone = asyncio.Event()
        """Set while pods wait."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def begin(self, scheduler: str) -> None:
        """Deciding is up to this process from now on: pods that wait already are its own."""
        self.waiting.adopt(scheduler)
        self._notice()

    def end(self) -> None:
        """Deciding, and so calling, is up to another process from now on."""
        self.waiting.forget_all()
        self._notice()

    def asked(self, args: FilterArgs, filtered: Filtered) -> None:
        """Take note of an answer to kube-scheduler."""
        if self.waiting.asked(args, filtered):
            self._count(PLACED)
        self._notice()

    def seen(self, change: Change) -> None:
        """Take note of what the API server shows of a pod."""
        pod = change.object
        if self.waiting and (change.is_gone or (pod is not None and pod.node is not None)):
            self.waiting.forget(change.key)
            self._notice()

    def _notice(self) -> None:
        if self.waiting:
            self._someone.set()
        else:
            self._someone.clear()

    async def run(self) -> None:
        """Call who is to be called, until cancelled."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await self._someone.wait()
                await asyncio.sleep(self.waiting.pause)
                for task in self._look():
                    writes.create_task(self._call(task))

    def _look(self) -> list[Task]:
        try:
            return self.waiting.look(self._clock())
        except Exception:
            # A mistake of ours about those who wait must not end all that is decided.
            log.exception("it cannot be found out who is to be called")
            return []

    async def _call(self, task: Task) -> None:
        body = {"metadata": {"uid": task.uid, "annotations": {REQUEUED: rfc3339(self._now())}}}
        path = f"/api/v1/namespaces/{task.namespace}/pods/{task.name}"
        async with self._turns:
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

"""The condition PodScheduled=False on pods that wait, with the reason in words.

It is written only when the words have changed, at a limited rate, and a little later than it became known: a gang whose
pods come one after another is complete a moment later, and nobody needs to read that it was not.

Where more is to be said than may be written, every reason is said of one pod first, alternately of those that have
waited longest and of those that came last.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from tonnage.binder.binding import pod_path
from tonnage.cluster.task import Task
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.leaderelection.fence import FencedError
from tonnage.kube.ratelimit import RateLimit
from tonnage.model.timestamp import rfc3339
from tonnage.observability.events import shortened

log = logging.getLogger(__name__)

PER_SECOND, BURST = 50.0, 50
SETTLING = 0.1
"""Seconds between the knowledge and its first writing."""
AGAIN = 2.0
"""Seconds until what the API server did not take is written again."""
UNSCHEDULABLE = "Unschedulable"
_MOST_REASONS = 10_000
"""Reasons that are remembered while there is something to write."""
_OVERLOADED = 429
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class Conditions:
    """Writes conditions while `run` runs."""

    def __init__(
        self, client: Client, now: Callable[[], float], per_second: float = PER_SECOND, burst: int = BURST
    ) -> None:
        self._client = client
        self._now = now
        self._allowance = RateLimit(per_second, burst)
        self._said: dict[str, tuple[str | None, str]] = {}
        """What each pod's condition says, with the pod's UID."""
        self._first: OrderedDict[str, tuple[Task, str]] = OrderedDict()
        """Pods whose reason no other pod of their namespace has told."""
        self._rest: OrderedDict[str, tuple[Task, str]] = OrderedDict()
        self._reasons: set[tuple[str, str]] = set()
        """Namespaces and what their pods have told, or are to tell, since everything was told."""
        self._latest_next = False
        self._filled = asyncio.Event()
        self._failed: dict[str, tuple[Task, str]] = {}
        """What is to be written again after a while."""
        self.written = 0

    @property
    def queued(self) -> int:
        """How many conditions wait to be written."""
        return len(self._first) + len(self._rest)

    def tell(self, task: Task, message: str) -> bool:
        """A pod waits, for that reason; whether it says otherwise so far."""
        if task.pod.spec.schedulingGates:
            # The API server says so itself.
            return False
        self._failed.pop(task.key, None)
        if self._said.get(task.key) == (task.uid, message):
            self._unqueue(task.key)
            return False
        self._enqueue(task, message)
        self._filled.set()
        return True

    def _enqueue(self, task: Task, message: str) -> None:
        """A pod that is queued keeps its place, unless what it tells now is new."""
        reason = task.namespace, message
        if task.key in self._first or reason not in self._reasons:
            self._rest.pop(task.key, None)
            self._first[task.key] = task, message
        else:
            self._rest[task.key] = task, message
        if len(self._reasons) >= _MOST_REASONS:
            self._reasons.clear()
        self._reasons.add(reason)

    def _unqueue(self, key: str) -> None:
        self._first.pop(key, None)
        self._rest.pop(key, None)

    def _next(self) -> tuple[Task, str]:
        _, told = (self._first or self._rest).popitem(last=self._latest_next)
        self._latest_next = not self._latest_next
        if not self.queued:
            self._reasons.clear()
        return told

    def forget(self, key: str) -> None:
        """A pod has a place, or is gone."""
        self._unqueue(key)
        self._said.pop(key, None)
        self._failed.pop(key, None)

    def forget_all(self) -> None:
        """Others say why pods wait, from now on or until now."""
        self._first.clear()
        self._rest.clear()
        self._reasons.clear()
        self._said.clear()
        self._failed.clear()

    async def run(self) -> None:
        """Write what is told, until cancelled."""
        while True:
            await self._filled.wait()
            await asyncio.sleep(SETTLING)
            while self.queued:
                await self._allowance.take()
                if self.queued:
                    await self._write(*self._next())
            self._filled.clear()

    async def _write(self, task: Task, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": shortened(message),
        }
        said = self._said.get(task.key)
        if said is None or said[0] != task.uid:
            condition["lastTransitionTime"] = rfc3339(self._now())
        body = {"metadata": {"uid": task.uid}, "status": {"conditions": [condition]}}
        path = f"{pod_path(task.namespace, task.name)}/status"
        self._said[task.key] = task.uid, message
        try:
            await self._client.request("PATCH", path, body=body, type_=_STRATEGIC_MERGE_PATCH, timeout=10)
            self.written += 1
        except KubeError as error:
            is_forgotten = self._said.pop(task.key, None) is None
            if isinstance(error, StatusError) and error.is_definite and error.status != _OVERLOADED:
                return
            log.warning("%s: its condition could not be written: %s", task.key, error)
            # One that leads no longer says nothing; nor is anything said of a pod that has got a place meanwhile.
            is_told_anew = task.key in self._first or task.key in self._rest
            if not is_forgotten and not isinstance(error, FencedError) and not is_told_anew:
                self._failed[task.key] = task, message
                asyncio.get_running_loop().call_later(AGAIN, self._write_again)

    def _write_again(self) -> None:
        failed, self._failed = self._failed, {}
        for task, message in failed.values():
            self._enqueue(task, message)
            self._filled.set()

"""PodGroupStatuses: keeps the status of PodGroups up to date.

A group that may have changed is queued; 0.1 seconds later its status is compared with the API server's, and fields that
differ are written. The same value is not written twice, so a controller that knows better has the last word.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import NEW, link_of
from tonnage.cluster.jobs.job import PodStatus
from tonnage.framework.decision import Decision, DecisionOutcome, Reason
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import POD_GROUPS, PODS, WatchedKind
from tonnage.kube.ratelimit import RateLimit
from tonnage.kube.resource import Change, Resource
from tonnage.kube.supervision import failed
from tonnage.model.group import PodGroup
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.observability.events import ObjectRef
from tonnage.scheduler.status.podgroupstatus import (
    UNSCHEDULABLE,
    Status,
    Why,
    latest_condition,
    seen_status,
    status_of,
    without_stamps,
)
from tonnage.scheduler.status.writer import StatusWriter

log = logging.getLogger(__name__)

PER_SECOND, BURST = 100.0, 100
AT_ONCE = 8
SETTLING = 0.1
"""Seconds between a change and its write."""
PAUSE = 1.0
"""Seconds between two writes to a group; after such a pause, two may follow each other at once."""
_NOT_READY = "JobNotReady"
NOTHING_REFUSED: Mapping[str, Reason] = {}
_GROUPS = {kind.resource.path: kind.resource for kind in POD_GROUPS}


class PodGroupStatuses:
    """Writes statuses while `run` runs."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        is_ours: Callable[[Pod], bool],
        now: Callable[[], float],
        led: asyncio.Event,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        tell: Callable[[ObjectRef, str, str, str], None] = lambda about, reason, message, alike: None,
    ) -> None:
        self._cluster = cluster
        self._is_ours = is_ours
        self._now = now
        self._led = led
        self._tell = tell
        """Records an Event: about what, its reason, its message, and what a repetition has in common with it."""
        self._allowance = RateLimit(per_second, burst)
        self._writer = StatusWriter(client)
        self._objects: dict[str, dict[str, PodGroup]] = {path: {} for path in _GROUPS}
        """PodGroups as the API server shows them, by the path of their kind and by name."""
        self._failed: dict[str, set[str]] = {}
        """Pods that failed, by their group."""
        self._why: dict[str, Why] = {}
        self._written: dict[str, tuple[str | None, Status]] = {}
        """The UID of each group and the fields that were written last."""
        self._changed: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._written_at: dict[str, float] = {}
        self._filled = asyncio.Event()
        self._process, self._cycles = uuid4(), 0

    @property
    def queued(self) -> int:
        """How many groups are queued."""
        return len(self._changed)

    # -- what changed

    def cycle(
        self,
        enqueued: Iterable[str],
        placed: Iterable[Decision],
        waiting: Iterable[tuple[Decision, str]],
        refused: Mapping[str, Reason] = NOTHING_REFUSED,
    ) -> None:
        """Take over what a cycle decided.

        Given admitted groups, placed pods, pending pods with their messages, and groups without pods that were refused.
        """
        self._cycles += 1
        for key in enqueued:
            self._why.pop(key, None)
            self._enqueue(key)
        for key, reason in refused.items():
            self._why[key] = Why(reason.name, reason.message or reason.name, self._cycle)
            self._enqueue(key)
        for decision in placed:
            self._why.pop(decision.job.key, None)
            self._enqueue(decision.job.key)
        self.waits(waiting)

    def waits(self, waiting: Iterable[tuple[Decision, str]]) -> None:
        """Take over why pods are pending."""
        found: dict[str, Why] = {}
        for decision, message in waiting:
            group, key = decision.job.group, decision.job.key
            if group is not None and group.is_object:
                reason = decision.rejected[0].reason if decision.rejected else ""
                # A reason of the group as a whole says more than the reason of one of its pods.
                if key not in found or reason == _NOT_READY != found[key].reason:
                    found[key] = Why(reason, _about_group(decision, message), self._cycle)
        for key, why in found.items():
            self._why[key] = why
            self._enqueue(key)

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of pods and PodGroups."""
        informer.add_listener((PODS, *POD_GROUPS), self.seen)

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Take over what the API server shows."""
        if kind.resource.path in _GROUPS:
            for change in changes:
                self._see_group(self._objects[kind.resource.path], change)
        else:
            for change in changes:
                self._see_pod(change)

    def forget_written(self) -> None:
        """Forget what was written last: another replica writes from now on, or did until now."""
        self._written.clear()

    def _see_group(self, things: dict[str, PodGroup], change: Change) -> None:
        if change.is_gone:
            things.pop(change.key, None)
            for known in (self._why, self._written, self._not_before, self._written_at, self._changed, self._failed):
                known.pop(change.key, None)
        elif change.object is not None:
            things[change.key] = change.object
            self._enqueue(change.key)

    def _see_pod(self, change: Change) -> None:
        job = self._cluster.groups.of_pod.get(change.key)
        link = link_of(change.object) if job is None and change.object is not None else None
        key = job.key if job is not None else link.key if link is not None else None
        if key is None:
            return
        has_failed = change.object is not None and change.object.status.phase == "Failed" and not change.is_gone
        if has_failed and self._is_ours(change.object):
            self._failed.setdefault(key, set()).add(change.key)
        elif key in self._failed:
            self._failed[key].discard(change.key)
            if not self._failed[key]:
                del self._failed[key]
        self._enqueue(key)

    def _enqueue(self, key: str) -> None:
        self._changed[key] = None
        self._filled.set()

    @property
    def _cycle(self) -> str:
        return f"{self._process}-{self._cycles}"

    # -- writing

    async def run(self) -> None:
        """Write fields that differ while this process leads, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._led.wait()
            try:
                async with asyncio.timeout(self._until_due(clock())):
                    await self._filled.wait()
            except TimeoutError:
                pass
            self._filled.clear()
            await asyncio.sleep(SETTLING)
            now = clock()
            due = [key for key in self._changed if self._not_before.get(key, now) <= now]
            for start in range(0, len(due), AT_ONCE):
                await asyncio.gather(*(self._sync(key) for key in due[start : start + AT_ONCE]))
                # Most groups need no write, so nothing above has yielded to other tasks.
                await asyncio.sleep(0)

    def _until_due(self, now: float) -> float | None:
        """Seconds until the pause of the next queued group ends; None if no group is queued."""
        return min([max(self._not_before.get(key, now) - now, 0.0) for key in self._changed], default=None)

    async def _sync(self, key: str) -> None:
        self._changed.pop(key, None)
        try:
            await self._bring_up_to_date(key)
        except Exception as error:
            # A bug that one group meets must not stop the writes to all others.
            failed("podgroup status", error)

    async def _bring_up_to_date(self, key: str) -> None:
        found = self._object(key)
        if found is None:
            return
        resource, thing = found
        fields = self._fields(key, thing)
        if not fields:
            return
        await self._allowance.take()
        self._remember(key, thing.metadata.uid, fields)
        self._record(key, fields)
        again = await self._writer.status(resource, key, thing.metadata.uid, fields)
        now = asyncio.get_running_loop().time()
        usual = PAUSE if now - self._written_at.get(key, -PAUSE) < PAUSE else 0.0
        self._not_before[key] = now + max(usual, again or 0.0)
        self._written_at[key] = now
        if again is not None:
            self._written.pop(key, None)
            self._changed[key] = None

    def _record(self, key: str, fields: Status) -> None:
        """Tell of a new condition by an Event on the group, as its own scheduler does."""
        about, told = self.ref(key), latest_condition(fields)
        if about is None or told is None:
            return
        kind, message = told
        if kind == UNSCHEDULABLE:
            job = self._cluster.groups.jobs.get(key)
            waiting, pods = (0, 0) if job is None else (job.count(PodStatus.WAITING), len(job.tasks))
            message = f"{waiting}/{pods} tasks in gang unschedulable: {message}"
        self._tell(about, kind, message, kind)

    def ref(self, key: str) -> ObjectRef | None:
        """The PodGroup that is in use under that name, as the object of an Event."""
        for path, resource in _GROUPS.items():
            thing = self._objects[path].get(key)
            if thing is not None:
                namespace, _, name = key.partition("/")
                return ObjectRef(namespace, name, thing.metadata.uid or "", resource.kind, resource.api_version)
        return None

    def _object(self, key: str) -> tuple[Resource, PodGroup] | None:
        """The PodGroup that is in use under that name, if its pods are ours."""
        for path, resource in _GROUPS.items():
            thing = self._objects[path].get(key)
            if thing is not None:
                return (resource, thing) if self._concerns_us(key, thing) else None
        return None

    def _concerns_us(self, key: str, thing: PodGroup) -> bool:
        job = self._cluster.groups.jobs.get(key)
        if job is not None and any(map(self._is_ours, job.pods())):
            return True
        return (
            key in self._why
            or key in self._written
            or key in self._failed
            or self._phase(key) != (seen_status(thing).get("phase") or "")
        )

    def _phase(self, key: str) -> str:
        """The phase that was decided, which the API server may not show yet."""
        group = self._cluster.groups.groups.get(key)
        return "" if group is None else group.phase

    def _fields(self, key: str, thing: PodGroup) -> Status:
        """The fields of a group's status to write."""
        job = self._cluster.groups.jobs.get(key)
        if not (job.count(PodStatus.WAITING) if job is not None else self._phase(key) in NEW):
            self._why.pop(key, None)
        wanted = status_of(
            thing,
            self._phase(key),
            job,
            len(self._failed.get(key, ())),
            self._why.get(key),
            self._cycle,
            rfc3339(self._now()),
        )
        seen, (uid, written) = seen_status(thing), self._written.get(key, (None, {}))
        written = written if uid == thing.metadata.uid else {}
        return {
            name: value
            for name, value in wanted.items()
            if value != seen.get(name) and (name not in written or written[name] != without_stamps(value))
        }

    def _remember(self, key: str, uid: str | None, fields: Status) -> None:
        before = self._written.get(key)
        written: dict[str, Any] = dict(before[1]) if before is not None and before[0] == uid else {}
        self._written[key] = uid, written | {name: without_stamps(value) for name, value in fields.items()}


def _about_group(decision: Decision, message: str) -> str:
    """The message of a pod as one about its group, unless it is about the whole group already."""
    job = decision.job
    if decision.outcome != DecisionOutcome.UNSCHEDULABLE or not job.lacking():
        return message
    pods = len(job.tasks) + len(job.finished)
    placed = f"{job.key} needs {job.minimum} of {pods} pods placed, {job.started()} are"
    return f"{placed}; {decision.task.key}: {message}"

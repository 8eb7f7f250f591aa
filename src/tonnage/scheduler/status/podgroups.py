"""Keeps the status of PodGroups as it should be.

What may have changed is noted as it is told; a little later it is compared with what the API server shows, and what
differs is written. The same value is not written twice, so that a controller that knows better has the last word.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import link_of
from tonnage.cluster.jobs.job import WAITING
from tonnage.framework.decision import UNSCHEDULABLE, Decision
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import POD_GROUPS, PODS, WatchedKind
from tonnage.kube.ratelimit import RateLimit
from tonnage.kube.resource import Change, Resource
from tonnage.model.group import PodGroup
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.scheduler.status.podgroupstatus import Status, Why, seen_status, status_of, without_stamps
from tonnage.scheduler.status.writer import StatusWriter

log = logging.getLogger(__name__)

PER_SECOND, BURST = 100.0, 100
AT_ONCE = 8
SETTLING = 0.1
"""Seconds between the knowledge and its first writing."""
PAUSE = 1.0
"""Seconds between two writes about a group; after as long a rest, two may follow each other at once."""
_NOT_READY = "JobNotReady"
_GROUPS = {kind.resource.path: kind.resource for kind in POD_GROUPS}


class PodGroupStatuses:
    """Writes while `run` runs."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        is_ours: Callable[[Pod], bool],
        now: Callable[[], float],
        led: asyncio.Event,
        per_second: float = PER_SECOND,
        burst: int = BURST,
    ) -> None:
        self._cluster = cluster
        self._is_ours = is_ours
        self._now = now
        self._led = led
        self._allowance = RateLimit(per_second, burst)
        self._writer = StatusWriter(client)
        self._things: dict[str, dict[str, PodGroup]] = {path: {} for path in _GROUPS}
        """PodGroups as the API server shows them, by the path of their kind and by name."""
        self._failed: dict[str, set[str]] = {}
        """Pods that failed, by their group."""
        self._why: dict[str, Why] = {}
        self._said: dict[str, tuple[str | None, Status]] = {}
        """What was written last, by group, with its UID."""
        self._changed: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._written_at: dict[str, float] = {}
        self._filled = asyncio.Event()
        self._process, self._cycles = uuid4(), 0

    @property
    def queued(self) -> int:
        """How many groups are to be looked at."""
        return len(self._changed)

    # -- what is told

    def cycle(self, let_in: Iterable[str], placed: Iterable[Decision], waiting: Iterable[tuple[Decision, str]]) -> None:
        """What a cycle decided: groups that were let in, pods with a place, and pods without and why."""
        self._cycles += 1
        for key in let_in:
            self._note(key)
        for decision in placed:
            self._why.pop(decision.job.key, None)
            self._note(decision.job.key)
        found: dict[str, Why] = {}
        for decision, message in waiting:
            group, key = decision.job.group, decision.job.key
            if group is not None and group.is_object:
                reason = decision.rejected[0].reason if decision.rejected else ""
                # What is said of the group as a whole says more than what is said of one of its pods.
                if key not in found or reason == _NOT_READY != found[key].reason:
                    found[key] = Why(reason, _about_group(decision, message), self._cycle)
        for key, why in found.items():
            self._why[key] = why
            self._note(key)

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of pods and PodGroups."""
        informer.add_listener((PODS, *POD_GROUPS), self.seen)

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Take over what the API server shows."""
        if kind.resource.path in _GROUPS:
            for change in changes:
                self._see_group(self._things[kind.resource.path], change)
        else:
            for change in changes:
                self._see_pod(change)

    def forget_said(self) -> None:
        """Another one writes from now on or until now, so that nobody knows what was written last."""
        self._said.clear()

    def _see_group(self, things: dict[str, PodGroup], change: Change) -> None:
        if change.is_gone:
            things.pop(change.key, None)
            for known in (self._why, self._said, self._not_before, self._written_at, self._changed, self._failed):
                known.pop(change.key, None)
        elif change.object is not None:
            things[change.key] = change.object
            self._note(change.key)

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
        self._note(key)

    def _note(self, key: str) -> None:
        self._changed[key] = None
        self._filled.set()

    @property
    def _cycle(self) -> str:
        return f"{self._process}-{self._cycles}"

    # -- writing

    async def run(self) -> None:
        """Write what differs whenever this process leads, until cancelled."""
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
                await asyncio.gather(*(self._look_after(key) for key in due[start : start + AT_ONCE]))
                # Most groups are as they should be, and then nothing has waited.
                await asyncio.sleep(0)

    def _until_due(self, now: float) -> float | None:
        """How long to wait for the next group whose pause is over; nothing if there is none."""
        return min([max(self._not_before.get(key, now) - now, 0.0) for key in self._changed], default=None)

    async def _look_after(self, key: str) -> None:
        self._changed.pop(key, None)
        try:
            await self._bring_up_to_date(key)
        except Exception:
            # A mistake of ours about one group must not end what is written about all others.
            log.exception("the status of %s could not be written", key)

    async def _bring_up_to_date(self, key: str) -> None:
        found = self._thing(key)
        if found is None:
            return
        resource, thing = found
        fields = self._fields(key, thing)
        if not fields:
            return
        await self._allowance.take()
        self._say(key, thing.metadata.uid, fields)
        again = await self._writer.status(resource, key, thing.metadata.uid, fields)
        now = asyncio.get_running_loop().time()
        usual = PAUSE if now - self._written_at.get(key, -PAUSE) < PAUSE else 0.0
        self._not_before[key] = now + max(usual, again or 0.0)
        self._written_at[key] = now
        if again is not None:
            self._said.pop(key, None)
            self._changed[key] = None

    def _thing(self, key: str) -> tuple[Resource, PodGroup] | None:
        """The object that counts under that name, if its pods are ours."""
        for path, resource in _GROUPS.items():
            thing = self._things[path].get(key)
            if thing is not None:
                return (resource, thing) if self._concerns_us(key, thing) else None
        return None

    def _concerns_us(self, key: str, thing: PodGroup) -> bool:
        job = self._cluster.groups.jobs.get(key)
        if job is not None:
            pods = chain((task.pod for task in job.tasks.values()), job.finished.values())
            if any(map(self._is_ours, pods)):
                return True
        return key in self._said or key in self._failed or self._phase(key) != (seen_status(thing).get("phase") or "")

    def _phase(self, key: str) -> str:
        """The phase as it was decided, which the API server may not show yet."""
        group = self._cluster.groups.groups.get(key)
        return "" if group is None else group.phase

    def _fields(self, key: str, thing: PodGroup) -> Status:
        """What of a group's status is to be written."""
        job = self._cluster.groups.jobs.get(key)
        if job is None or not job.count(WAITING):
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
        seen, (uid, said) = seen_status(thing), self._said.get(key, (None, {}))
        said = said if uid == thing.metadata.uid else {}
        return {
            name: value
            for name, value in wanted.items()
            if value != seen.get(name) and (name not in said or said[name] != without_stamps(value))
        }

    def _say(self, key: str, uid: str | None, fields: Status) -> None:
        before = self._said.get(key)
        said: dict[str, Any] = dict(before[1]) if before is not None and before[0] == uid else {}
        self._said[key] = uid, said | {name: without_stamps(value) for name, value in fields.items()}


def _about_group(decision: Decision, message: str) -> str:
    """What is said of a pod, as something about its group; what keeps the whole group waiting is that already."""
    job = decision.job
    if decision.outcome != UNSCHEDULABLE or not job.lacking():
        return message
    pods = len(job.tasks) + len(job.finished)
    placed = f"{job.key} needs {job.minimum} of {pods} pods placed, {job.started()} are"
    return f"{placed}; {decision.task.key}: {message}"

"""GroupTimestamps: annotations on PodGroups with times that must outlast a restart.

They say since when a gang has lacked pods, and, on KAI's groups, when a pod was last evicted.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import LAST_EVICTION, STALE_SINCE
from tonnage.framework.decision import StaleGang
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError
from tonnage.kube.kinds import POD_GROUPS
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.kube.supervision import failed
from tonnage.model.timestamp import known_timestamp, past, rfc3339

log = logging.getLogger(__name__)


class GroupTimestamps:
    """Writes annotations while `run` runs, and calls `wake` when a gang's grace period ends."""

    def __init__(self, client: Client, cluster: Cluster, wake: Callable[[], None], fence: Fence = always) -> None:
        self._client = client
        self._cluster = cluster
        self._wake = wake
        self._fence = fence
        self._wanted: dict[tuple[str, str], str | None] = {}
        """Annotations to write, by group and name: the time, or None to remove the annotation."""
        self._filled = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def update(self, stale: Sequence[StaleGang] | None, now: float) -> None:
        """Take over which gangs lack pods; None if no plugin looks for stale gangs."""
        if stale is None:
            return
        groups = self._cluster.groups.groups
        lacking = {gang.job: gang for gang in stale}
        for job, gang in lacking.items():
            if past(groups[job].times.stale_since, now) is None:
                self._wanted.setdefault((job, STALE_SINCE), gang.since)
        for job, group in groups.items():
            name = job, STALE_SINCE
            if job not in lacking and (group.times.stale_since is not None or self._wanted.get(name)):
                self._wanted[name] = None
        if self._wanted:
            self._filled.set()
        waits = [_since(gang) + gang.grace - now for gang in stale if gang.grace is not None]
        self._set_alarm([wait for wait in waits if wait > 0])

    def evicted(self, job: str, now: float) -> None:
        """A pod of a job was evicted: KAI's `preemptionDelay` counts from then on."""
        group = self._cluster.groups.groups.get(job)
        if group is not None and group.by_kai:
            self._wanted[job, LAST_EVICTION] = rfc3339(now)
            self._filled.set()

    def _set_alarm(self, waits: Sequence[float]) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if waits:
            self._alarm = asyncio.get_running_loop().call_later(min(waits) + 0.01, self._wake)

    async def run(self) -> None:
        """Write annotations until cancelled."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            for (job, name), when in list(self._wanted.items()):
                left, least = self._fence()
                try:
                    if left >= least:
                        await self._write(job, name, when, min(left, 10.0))
                except Exception as error:
                    # A bug that one group meets must not stop the writes to all others.
                    failed("group times", error)
                # The next cycle queues again since when a gang lacks pods, if that was not written.
                if self._wanted.get((job, name)) == when:
                    del self._wanted[job, name]

    async def _write(self, job: str, name: str, when: str | None, seconds: float) -> None:
        groups = self._cluster.groups
        kind = next((kind for kind in POD_GROUPS if job in groups.given(kind.resource.type)), None)
        if kind is None:
            return
        body = {"metadata": {"annotations": {name: when}}}
        try:
            await self._client.request(
                "PATCH", kind.resource.path_of(job), body=body, type_=MERGE_PATCH, timeout=seconds
            )
        except KubeError as error:
            log.warning("PodGroup %s: %s could not be written: %s", job, name, error)


def _since(gang: StaleGang) -> float:
    return known_timestamp(gang.since) or 0.0

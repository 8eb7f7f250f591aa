"""StaleGangs: the annotation on each PodGroup since when its gang lacks pods, so that a restart does not reset it."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import STALE_SINCE
from tonnage.framework.decision import StaleGang
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError
from tonnage.kube.kinds import POD_GROUPS
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.kube.supervision import failed
from tonnage.model.timestamp import known_timestamp, past

log = logging.getLogger(__name__)


class StaleGangs:
    """Writes annotations while `run` runs, and calls `wake` when a gang's grace period ends."""

    def __init__(self, client: Client, cluster: Cluster, wake: Callable[[], None], fence: Fence = always) -> None:
        self._client = client
        self._cluster = cluster
        self._wake = wake
        self._fence = fence
        self._wanted: dict[str, str | None] = {}
        """Annotations to write, by group: since when it lacks pods, or None to remove the annotation."""
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
                self._wanted.setdefault(job, gang.since)
        for job, group in groups.items():
            if job not in lacking and (group.times.stale_since is not None or self._wanted.get(job)):
                self._wanted[job] = None
        if self._wanted:
            self._filled.set()
        waits = [_since(gang) + gang.grace - now for gang in stale if gang.grace is not None]
        self._set_alarm([wait for wait in waits if wait > 0])

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
            for job, since in list(self._wanted.items()):
                left, least = self._fence()
                try:
                    if left >= least:
                        await self._write(job, since, min(left, 10.0))
                except Exception as error:
                    # A bug that one group meets must not stop the writes to all others.
                    failed("stale gangs", error)
                # The next cycle queues again what was not written.
                if self._wanted.get(job) == since:
                    del self._wanted[job]

    async def _write(self, job: str, since: str | None, seconds: float) -> None:
        groups = self._cluster.groups
        kind = next((kind for kind in POD_GROUPS if job in groups.given(kind.resource.type)), None)
        if kind is None:
            return
        body = {"metadata": {"annotations": {STALE_SINCE: since}}}
        try:
            await self._client.request(
                "PATCH", kind.resource.path_of(job), body=body, type_=MERGE_PATCH, timeout=seconds
            )
        except KubeError as error:
            log.warning("PodGroup %s: since when it lacks pods could not be written: %s", job, error)


def _since(gang: StaleGang) -> float:
    return known_timestamp(gang.since) or 0.0

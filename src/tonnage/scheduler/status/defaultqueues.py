"""DefaultQueues: creates Volcano's queues `root` and `default` where they are missing.

Volcano's admission and controllers expect both, and its scheduler creates them when it starts. Where its definitions
are not installed nothing is created; once both queues were there they are nobody's to create again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.queue import DEFAULT_QUEUE, ROOT
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.kinds import VOLCANO_QUEUES
from tonnage.kube.paths import api_path
from tonnage.model.group import VolcanoQueue
from tonnage.scheduler.status.writer import CONFLICT

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds until the definitions are looked for again, and until a failed write is repeated."""
RECLAIMABLE = {ROOT: False, DEFAULT_QUEUE: True}
"""The queues, and whether others may reclaim what they hold beyond their share."""
_VERSION = "scheduling.volcano.sh/v1beta1"


class DefaultQueues:
    """Creates the queues while `run` runs."""

    def __init__(
        self, client: Client, cluster: Cluster, is_installed: Callable[[type[Any]], bool], led: asyncio.Event
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._is_installed = is_installed
        self._led = led
        self._logged = False

    async def run(self) -> None:
        """Return once both queues are there; only a process that leads creates them."""
        while True:
            await self._led.wait()
            if self._is_installed(VolcanoQueue):
                known = self._cluster.groups.given(VolcanoQueue)
                if all([name in known or await self._create(name) for name in RECLAIMABLE]):
                    return
            await asyncio.sleep(PAUSE)

    async def _create(self, name: str) -> bool:
        """Create a queue; whether it is there now."""
        body = {
            "apiVersion": _VERSION,
            "kind": VOLCANO_QUEUES.resource.kind,
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": RECLAIMABLE[name]},
        }
        try:
            await self._client.request("POST", api_path(_VERSION, "queues"), body=body, timeout=10)
        except KubeError as error:
            if isinstance(error, StatusError) and error.status == CONFLICT:
                return True
            if not self._logged:
                self._logged = True
                log.warning("queue %s cannot be created, which is said once: %s", name, error)
            return False
        log.info("queue %s is created", name)
        return True

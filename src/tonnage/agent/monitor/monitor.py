"""Monitor: what HAMi's monitor does on a node, beside the part that serves devices.

Files of containers are read, written and removed in a thread of their own, one after another, so that the kubelet is
answered meanwhile. What fails there is logged and counted and tried again at the next pass.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.cards import CardLoad
from tonnage.agent.foldertree import remove_folder
from tonnage.agent.heap import give_back
from tonnage.agent.monitor.agentmetrics import HEALTHY, UNHEALTHY, AgentCounts, metrics_text
from tonnage.agent.monitor.feedback import PASS
from tonnage.agent.monitor.folders import FolderCleaner, pods_with_folders
from tonnage.agent.monitor.hamimetrics import NodeCards, hami_text
from tonnage.agent.monitor.usage import RegionFault, give_feedback, monitored, node_usage
from tonnage.kube.supervision import failed
from tonnage.server.flagvalues import Address
from tonnage.server.lightserver import LightPage, LightServer, text_page

log = logging.getLogger(__name__)

T = TypeVar("T")

CLEAN = 30.0
"""Seconds between two looks at the folders of containers."""
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HOST_PIDS = "pid:[4026531836]"
"""The name of the first PID namespace of every Linux machine."""


class MonitorSettings(msgspec.Struct, frozen=True):
    """Where metrics and probes are answered, and under which names."""

    address: Address | None = None
    legacy: bool = False


NO_PAGES = MonitorSettings()
"""For an agent that nobody scrapes."""


class Monitor:
    """Watches the containers of a node."""

    def __init__(
        self,
        core: AgentCore,
        containers: Path,
        counts: AgentCounts,
        *,
        node: str,
        unready: Callable[[], str],
        settings: MonitorSettings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._containers = containers
        self._counts = counts
        self._node = node
        self._unready = unready
        """Why the agent does not serve; empty if it does."""
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._cleaner = FolderCleaner()
        self._files = ThreadPoolExecutor(1, "files")
        self._is_alive = _process_lives if _sees_host_pids() else _assumed_alive
        self._told: dict[str, str] = {}
        """Faults of regions that the log has, by folder."""
        self._scrape: asyncio.Task[LightPage] | None = None
        self.loads: Mapping[str, CardLoad] = {}
        """What the cards do, by UUID."""
        self.server = LightServer(
            {"/metrics": self._metrics_page, "/healthz": self._livez, "/livez": self._livez, "/readyz": self._readyz}
        )

    # -- life

    async def run(self, synced: asyncio.Event) -> None:
        """Serve, give feedback and clean up until cancelled; nothing is removed before the pods are known."""
        try:
            async with asyncio.TaskGroup() as group:
                if self._settings.address is not None:
                    group.create_task(self.server.run(*self._settings.address))
                await synced.wait()
                group.create_task(self._again(self.give_feedback, PASS))
                group.create_task(self._again(self.clean_up, CLEAN))
        finally:
            self._files.shutdown(wait=False, cancel_futures=True)

    async def _again(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                failed("monitor", error)
            await asyncio.sleep(pause)

    def _in_thread(self, work: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._files, work, *arguments)

    # -- passes

    async def give_feedback(self) -> None:
        """Hold containers up or let them go, once."""
        pods = monitored(self._core.pods.values())
        said, faults = await self._in_thread(give_feedback, self._containers, pods, self._clock())
        self._counts.limited, self._counts.blocked = len(said.limited), len(said.blocked)
        self._tell(faults)

    def _tell(self, faults: Iterable[RegionFault]) -> None:
        """Log what is new about regions that were left out."""
        now = {fault.container.folder: fault.why for fault in faults}
        for fault in faults:
            one = fault.container
            if self._told.get(one.folder) != fault.why:
                self._counts.notes["region_left_out"] += 1
                log.warning("the region of %s/%s (%s) is left out: %s", one.namespace, one.pod, one.name, fault.why)
        self._told = now

    async def clean_up(self) -> None:
        """Remove the folders of pods that have ended long enough ago, once, and give memory back."""
        names = await self._in_thread(_folders, self._containers)
        due = self._cleaner.due(names, pods_with_folders(self._core.pods.values()), self._steady())
        for name in due:
            try:
                is_gone = await self._in_thread(remove_folder, self._containers / name)
            except OSError as error:
                self._counts.notes["folder_stays"] += 1
                log.warning("the folder %s of a pod that has ended cannot be removed: %s", name, error)
                continue
            if is_gone:
                self._counts.removed += 1
                log.info("removed the folder %s of a pod that has ended", name)
        # Here, not in the thread: what is freed may be a transport of the event loop.
        give_back()

    # -- pages

    async def _livez(self) -> LightPage:
        return text_page("ok")

    async def _readyz(self) -> LightPage:
        why = self._unready()
        return text_page(why, 503) if why else text_page("ok")

    async def _metrics_page(self) -> LightPage:
        """The page; those who ask at the same time get the same."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.get_running_loop().create_task(self.scrape())
        return await asyncio.shield(self._scrape)

    async def scrape(self) -> LightPage:
        """The text of a scrape."""
        core, counts = self._core, self._counts
        containers = monitored(core.pods.values())
        cards = NodeCards(self._node, sorted(core.cards.values(), key=lambda card: card.device.index), self.loads)
        well = sum(core.health.is_well(card.uuid) for card in cards.cards)
        counts.health[HEALTHY], counts.health[UNHEALTHY] = well, len(cards.cards) - well
        counts.uncontrolled = sum(one.is_uncontrolled for one in containers)

        def made() -> str:
            usage = node_usage(self._containers, containers, self._is_alive)
            counts.regions = usage.states
            return "".join(hami_text(cards, usage.found, containers, self._clock(), self._settings.legacy))

        text = await self._in_thread(made)
        return LightPage((metrics_text(counts) + text).encode(), type=_CONTENT_TYPE)


def _folders(containers: Path) -> list[str]:
    """The names of the folders of containers; links are none."""
    try:
        with os.scandir(containers) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _sees_host_pids() -> bool:
    """Whether processes have the numbers here that they have on the node."""
    try:
        return os.readlink("/proc/self/ns/pid") == _HOST_PIDS
    except OSError:
        return False


def _process_lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _assumed_alive(_: int) -> bool:
    return True

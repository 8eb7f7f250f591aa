"""AgentService: everything around the core, on one event loop.

It brings events in (the kubelet's calls, pods and node from the API server, cards from their thread, time) and carries
instructions out. The order at start: pods and node are listed, the cards found, the host files restored; then the
socket is served and the agent registers.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.answers import HostFiles, container_response, folder_name
from tonnage.agent.core.cards import Card, CardLoad
from tonnage.agent.core.instructions import (
    FetchPods,
    GiveDevices,
    Instruction,
    LogNote,
    LookAtKubelet,
    LookUpPod,
    OfferDevices,
    PatchNode,
    PatchPod,
    PostEvent,
    PostNodeEvent,
    Prefer,
    Refuse,
    ReleaseLock,
)
from tonnage.agent.core.nodesettings import AnswerSettings, CardSettings
from tonnage.agent.core.registrar import Registrar
from tonnage.agent.core.watchedpod import WatchedPod
from tonnage.agent.followed import Follower, fetch, node_called, pods_of
from tonnage.agent.hostfiles import HostFilesError, NodeFiles
from tonnage.agent.kubelet.checkpoint import read_checkpoint
from tonnage.agent.kubelet.grpc import KubeletError, PluginServer, PodLister, RefusedError, register
from tonnage.agent.kubelet.messages import (
    HEALTHY,
    UNHEALTHY,
    ContainerResponse,
    DeviceList,
    NumaNode,
    OfferedDevice,
    PreferenceQuestion,
    TopologyInfo,
)
from tonnage.agent.kubelet.sockets import own_socket, remove_abandoned
from tonnage.agent.monitor.agentmetrics import GIVEN, REFUSED, AgentCounts
from tonnage.agent.monitor.monitor import NO_PAGES, Monitor, MonitorSettings
from tonnage.agent.nvml.found import FoundCard, LeftOut, cards_of
from tonnage.agent.nvml.source import CardSource, CardThread
from tonnage.agent.writer import AgentWriter, Write
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.model.node import Node

log = logging.getLogger(__name__)

_TICK = 0.5
_SHORTEST = 0.1
"""Seconds between two passes at least, however often something asks for one."""
_KUBELET = "kubelet.sock"


class AgentPaths(msgspec.Struct, frozen=True):
    """Where the kubelet and the node's files are."""

    device_plugins: Path = Path("/var/lib/kubelet/device-plugins")
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    root: Path = Path("/")
    """Stands before the paths of host files."""
    library: Path | None = None
    """HAMi-core's library, which is installed on the node; None if it is there."""


class AgentService:
    """The running agent."""

    def __init__(
        self,
        core: AgentCore,
        client: Client,
        source: CardSource,
        *,
        node: str,
        resource: str,
        paths: AgentPaths,
        settings: tuple[AnswerSettings, CardSettings],
        monitoring: MonitorSettings = NO_PAGES,
    ) -> None:
        self._core = core
        self._client = client
        self._node = node
        self._resource = resource
        self._paths = paths
        self._settings = settings
        self._files = NodeFiles(settings[0], paths.root, paths.library, is_trial=source.is_invented)
        self._host: HostFiles | None = None
        self._cards = CardThread(source, self, time.monotonic)
        self._writer = AgentWriter(client, node, self._given_up, core.pods.__contains__)
        self._registrar = Registrar()
        self._socket = own_socket(paths.device_plugins, resource)
        self._server: PluginServer | None = None
        self._lister = PodLister(paths.pod_resources)
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[ContainerResponse | tuple[str, ...]]] = {}
        self._offers: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._synced = asyncio.Event()
        self._is_due = asyncio.Event()
        """Set when there is something to register, so that nobody waits for the next tick."""
        self._loop = asyncio.get_running_loop()
        self.counts = AgentCounts()
        self.counts.is_invented = source.is_invented
        self._monitor = Monitor(
            core, self._files.containers, self.counts, node=node, unready=self._unready, settings=monitoring
        )

    # -- life

    async def run(self, until: Awaitable[object]) -> None:
        """Serve until told to stop."""
        pods: Follower[WatchedPod] = Follower(
            self._client, pods_of(self._node), self._pod_seen, self._pod_gone, self._synced.set
        )
        node: Follower[Node] = Follower(
            self._client, node_called(self._node), self._node_seen, lambda _: None, lambda: None
        )
        loops: list[Callable[[], Awaitable[None]]] = [pods.run, node.run, self._writer.run, self._serve]
        loops.append(lambda: self._monitor.run(self._synced))
        running = [asyncio.ensure_future(one()) for one in loops]
        self._cards.start()
        stop = asyncio.ensure_future(until)
        try:
            await asyncio.wait([*running, stop], return_when=asyncio.FIRST_COMPLETED)
            for ended in running:
                if ended.done():
                    ended.result()
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._writer.drained(), 2)
            for task in (*running, *self._tasks, stop):
                task.cancel()
            await asyncio.gather(*running, *self._tasks, stop, return_exceptions=True)
            await self._loop.run_in_executor(None, self._cards.stop)
            if self._server is not None:
                await self._server.stop()
            self._lister.close()

    async def _serve(self) -> None:
        """Serve and register as soon as everything is there, and again whenever the kubelet has forgotten it."""
        await self._synced.wait()
        self._do(self._core.started(self._checkpoint()))
        while True:
            now = time.monotonic()
            is_new = self._registrar.socket_seen(_identity(self._paths.device_plugins / _KUBELET))
            is_removed = self._server is not None and not self._socket.exists()
            # A question that is open is answered first: hung up on, the kubelet would fail its pod.
            if self._server and (is_new or self._registrar.is_replaced or (is_removed and not self._open)):
                if is_removed and not is_new:
                    self._note(LogNote("socket_removed", f"{self._socket} was removed; it is made anew", is_error=True))
                await self._server.stop()
                self._server = None
            if self._registrar.is_due(now) and self._core.cards and self._restored():
                await self._register(now)
            self._do(self._core.tick(now))
            await self._next_pass()

    async def _next_pass(self) -> None:
        """Wait for the next tick, or for something to register."""
        await asyncio.sleep(_SHORTEST)
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK - _SHORTEST):
                await self._is_due.wait()
        self._is_due.clear()

    def _unready(self) -> str:
        """Why containers are not served; empty if they are."""
        if not self._synced.is_set():
            return "the pods of the node have not been listed yet"
        if not self._core.cards:
            return "no cards have been found"
        return "" if self._registrar.is_connected else "the kubelet does not read the list of devices"

    def _restored(self) -> bool:
        """Whether the host files are there; they are restored before the first container is served."""
        names = [
            folder_name(pod, container)
            for pod in self._core.pods.values()
            for container in pod.containers
            if container.count and not pod.is_over and (pod.uid, container.name) in self._core.done
        ]
        try:
            self._host = self._files.restore(names)
        except (HostFilesError, OSError) as error:
            self._note(LogNote("host_files_missing", str(error), is_error=True))
            return False
        return True

    async def _register(self, now: float) -> None:
        self._registrar.trying(now)
        try:
            if self._server is None:
                remove_abandoned(self._paths.device_plugins, self._resource)
                self._server = PluginServer(self)
                await self._server.start(self._socket)
            await register(self._paths.device_plugins / _KUBELET, self._socket.name, self._resource)
            log.info("registered %s with the kubelet", self._resource)
        except (KubeletError, OSError) as error:
            self._note(
                LogNote("registration_failed", f"the kubelet does not register the agent: {error}", is_error=True)
            )

    # -- the kubelet's calls

    async def devices(self, send: Callable[[DeviceList], Awaitable[None]]) -> None:
        changed = asyncio.Event()
        changed.set()
        self._offers.add(changed)
        self._registrar.stream_opened()
        self.counts.is_registered = True
        try:
            while True:
                await changed.wait()
                changed.clear()
                await send(self._offer())
        finally:
            self._offers.discard(changed)
            if not self._offers:
                self.counts.is_registered = False
                warning = self._registrar.stream_ended(time.monotonic())
                self._is_due.set()
                self._note(LogNote("stream_ended", warning or "the kubelet hung up", is_error=bool(warning)))

    def _offer(self) -> DeviceList:
        cards = sorted(self._core.cards.values(), key=lambda card: card.device.index)
        return DeviceList(tuple(device for card in cards for device in self._replicas(card)))

    def _replicas(self, card: Card) -> list[OfferedDevice]:
        health = HEALTHY if self._core.health.is_well(card.uuid) else UNHEALTHY
        topology = None if card.numa is None else TopologyInfo((NumaNode(card.numa),))
        return [OfferedDevice(name, health, topology) for name in card.replicas()]

    async def preference(self, question: PreferenceQuestion) -> tuple[str, ...]:
        available, must = question.available, question.must_include

        def ask(number: int) -> list[Instruction]:
            return self._core.preference_asked(number, available, must, question.size, time.monotonic())

        answer = await self._answered(ask)
        assert isinstance(answer, tuple)
        return answer

    async def allocate(self, ids: tuple[str, ...]) -> ContainerResponse:
        answer = await self._answered(lambda number: self._core.asked(number, ids, time.monotonic()))
        assert isinstance(answer, ContainerResponse)
        return answer

    async def _answered(self, ask: Callable[[int], list[Instruction]]) -> ContainerResponse | tuple[str, ...]:
        number = next(self._numbers)
        answer: asyncio.Future[ContainerResponse | tuple[str, ...]] = self._loop.create_future()
        self._open[number] = answer
        try:
            self._do(ask(number))
            return await answer
        finally:
            del self._open[number]
            self._core.hung_up(number)

    # -- what the core wants

    def _do(self, instructions: Sequence[Instruction]) -> None:
        for one in instructions:
            if isinstance(one, LookAtKubelet):
                self._begin(self._look(one.number))
            elif isinstance(one, GiveDevices):
                self._answer(one)
            elif isinstance(one, Prefer):
                self._settle(one.number, one.ids)
            elif isinstance(one, Refuse):
                self._fail(one.number, one.message)
            elif isinstance(one, OfferDevices):
                self._registrar.offer_changed()
                for changed in self._offers:
                    changed.set()
            elif isinstance(one, FetchPods):
                self._begin(self._fetch(one))
            elif isinstance(one, LookUpPod):
                self._begin(self._look_up(one.key))
            elif isinstance(one, PatchPod | PatchNode | ReleaseLock | PostEvent | PostNodeEvent):
                self._writer.add(one)
            elif isinstance(one, LogNote):
                self._note(one)

    def _answer(self, answer: GiveDevices) -> None:
        """Make the container's folder and tell the kubelet; without its folder a container gets nothing."""
        assert self._host is not None, "nothing is served before the host files are restored"
        try:
            self._files.prepare(folder_name(answer.pod, answer.container), keep=answer.is_repeated)
        except (HostFilesError, OSError) as error:
            self._core.served.pop((answer.pod.uid, answer.container.name), None)
            self._fail(answer.number, f"{answer.pod.key}: its folder cannot be made: {error}")
            return
        response = container_response(answer.pod, answer.container, self._core.cards, self._settings, self._host)
        self.counts.answers[GIVEN] += 1
        self._settle(answer.number, response)

    def _settle(self, number: int, answer: ContainerResponse | tuple[str, ...]) -> None:
        waiting = self._open.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail(self, number: int, message: str) -> None:
        self.counts.answers[REFUSED] += 1
        waiting = self._open.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_exception(RefusedError(message))

    def _note(self, note: LogNote) -> None:
        self.counts.notes[note.event] += 1
        log.log(logging.ERROR if note.is_error else logging.INFO, "%s", note.message)

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, number: int) -> None:
        try:
            pods = await self._lister.pods()
        except KubeletError as error:
            self._do(self._core.kubelet_silent(number, str(error)))
            return
        listed = [f"{pod.namespace}/{pod.name}" for pod in pods.pods]
        self._do(self._core.kubelet_seen(number, listed, self._checkpoint()))

    def _checkpoint(self) -> dict[tuple[str, str], frozenset[str]]:
        entries = read_checkpoint(self._paths.device_plugins, self._resource)
        return {(entry.uid, entry.container): entry.ids for entry in entries}

    async def _fetch(self, wanted: FetchPods) -> None:
        found, missing = [], []
        for key in wanted.keys:
            try:
                pod = await fetch(self._client, key)
            except KubeError:
                pod = None
            if pod is None or pod.spec.nodeName != self._node:
                missing.append(key)
            else:
                found.append(pod)
        self._do(self._core.pods_fetched(wanted.number, found, missing))

    async def _look_up(self, key: str) -> None:
        with suppress(KubeError):
            if await fetch(self._client, key) is None:
                self._do(self._core.pod_absent(key))

    def _given_up(self, write: Write) -> None:
        if isinstance(write, PatchNode):
            self._do(self._core.node_patch_failed())

    # -- what the API server shows

    def _pod_seen(self, pod: WatchedPod) -> None:
        self._do(self._core.pod_seen(pod))

    def _pod_gone(self, pod: WatchedPod) -> None:
        self._do(self._core.pod_gone(pod.metadata.uid or ""))

    def _node_seen(self, node: Node) -> None:
        self._do(self._core.node_seen(node.annotations, time.monotonic(), node.labels))
        amount = str((node.status.allocatable or {}).get(self._resource, 0))
        ours = sum(card.device.count for card in self._core.cards.values() if self._core.health.is_well(card.uuid))
        if ours and amount.isdecimal():
            warning = self._registrar.amount_seen(int(amount), ours)
            if warning:
                self._note(LogNote("replaced", warning, is_error=True))
                self._is_due.set()

    # -- what the cards' thread sees

    def found(self, cards: list[FoundCard], left: list[LeftOut]) -> None:
        self._loop.call_soon_threadsafe(self._found, cards, left)

    def loaded(self, loads: dict[str, CardLoad]) -> None:
        self._monitor.loads = loads

    def struck(self, uuid: str | None, xid: int) -> None:
        self._loop.call_soon_threadsafe(self._struck, uuid, xid)

    def _struck(self, uuid: str | None, xid: int) -> None:
        self.counts.xids[uuid or "", str(xid)] += 1
        self._do(self._core.xid_seen(uuid, xid, time.monotonic()))

    def failed(self, why: str) -> None:
        self._loop.call_soon_threadsafe(self._note, LogNote("cards_unavailable", why, is_error=True))

    def _found(self, found: list[FoundCard], left: list[LeftOut]) -> None:
        cards, hidden = cards_of(found, self._settings[1])
        now_left = {one.index: one.why for one in (*left, *hidden)}
        for index, why in now_left.items():
            if self.counts.left_out.get(index) != why:
                self._note(LogNote("card_left_out", f"card {index} is left out: {why}", is_error=True))
        self.counts.left_out = now_left
        self._do(self._core.cards_seen(cards))
        self._is_due.set()


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns

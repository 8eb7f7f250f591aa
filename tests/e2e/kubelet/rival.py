"""Another plugin for the same resource, as NVIDIA's or HAMi's own beside the agent would be."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import PATIENCE
from tonnage.agent.kubelet.grpc import PluginServer, RefusedError, register
from tonnage.agent.kubelet.messages import HEALTHY, ContainerResponse, DeviceList, OfferedDevice, PreferenceQuestion


class Rival:
    """Offers some devices and gives none."""

    def __init__(self, plugins: Path, resource: str, count: int) -> None:
        self._plugins = plugins
        self._resource = resource
        self._devices = DeviceList(tuple(OfferedDevice(f"rival-{number}", HEALTHY) for number in range(count)))

    async def devices(self, send: Callable[[DeviceList], Awaitable[None]]) -> None:
        await send(self._devices)
        await asyncio.Event().wait()

    async def preference(self, question: PreferenceQuestion) -> tuple[str, ...]:
        return question.available[: question.size]

    async def allocate(self, ids: tuple[str, ...]) -> ContainerResponse:
        raise RefusedError("this is the rival")

    async def serve(self, registered: threading.Event, over: asyncio.Event) -> None:
        server = PluginServer(self)
        await server.start(self._plugins / "rival.sock")
        await register(self._plugins / "kubelet.sock", "rival.sock", self._resource)
        registered.set()
        await over.wait()
        with suppress(asyncio.CancelledError):
            await server.stop()


@contextmanager
def rival(plugins: Path, resource: str, count: int) -> Iterator[None]:
    """The other plugin while it runs."""
    registered = threading.Event()
    loop, over = asyncio.new_event_loop(), asyncio.Event()
    serving = threading.Thread(
        target=loop.run_until_complete, args=(Rival(plugins, resource, count).serve(registered, over),), daemon=True
    )
    serving.start()
    assert registered.wait(PATIENCE)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        serving.join(PATIENCE)
        loop.close()

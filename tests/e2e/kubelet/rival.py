"""Another plugin for the same resource, as NVIDIA's or HAMi's own beside the agent would be, as a process."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import ROOT
from tonnage.agent.kubelet.grpc import PluginServer, RefusedError, register
from tonnage.agent.kubelet.messages import HEALTHY, ContainerResponse, DeviceList, OfferedDevice, PreferenceQuestion

_SOCKET = "rival.sock"


class Rival:
    """Offers some devices and gives none."""

    def __init__(self, count: int) -> None:
        self._devices = DeviceList(tuple(OfferedDevice(f"rival-{number}", HEALTHY) for number in range(count)))

    async def devices(self, send: Callable[[DeviceList], Awaitable[None]]) -> None:
        await send(self._devices)
        await asyncio.Event().wait()

    async def preference(self, question: PreferenceQuestion) -> tuple[str, ...]:
        return question.available[: question.size]

    async def allocate(self, ids: tuple[str, ...]) -> ContainerResponse:
        raise RefusedError("this is the rival")


async def serve(plugins: Path, resource: str, count: int) -> None:
    await PluginServer(Rival(count)).start(plugins / _SOCKET)
    await register(plugins / "kubelet.sock", _SOCKET, resource)
    await asyncio.Event().wait()


@contextmanager
def rival(plugins: Path, resource: str, count: int) -> Iterator[None]:
    """The other plugin while it runs; it is killed in the end."""
    words = [sys.executable, "-m", "tests.e2e.kubelet.rival", str(plugins), resource, str(count)]
    with subprocess.Popen(words, cwd=ROOT) as process:
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

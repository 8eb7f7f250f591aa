"""Calls to a kubelet that goes away meanwhile."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from grpclib.client import Channel

from tests.transports import abort_all
from tonnage.agent.kubelet.grpc import KubeletError, register


def test_a_kubelet_that_hangs_up_between_connecting_and_asking_is_an_error_that_is_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = Channel.__connect__

    async def hung_up_on(self: Channel) -> Any:
        protocol = await connect(self)
        protocol.connection.close()
        return protocol

    async def scene(folder: Path) -> None:
        accepted = asyncio.Event()

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()
            accepted.set()

        async with await asyncio.start_unix_server(hang_up, folder / "kubelet.sock"):
            with pytest.raises(KubeletError, match="Register"):
                await register(folder / "kubelet.sock", "own.sock", "nvidia.com/gpu")
            await accepted.wait()
            await abort_all()

    monkeypatch.setattr(Channel, "__connect__", hung_up_on)
    with TemporaryDirectory(prefix="agent-") as folder:
        asyncio.run(scene(Path(folder)))

"""A fake API server with some nodes and pods, and a client of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.kube.fake_server import FakeServer, fake_server
from tests.scenario import node, pod, running
from tonnage.kube.client import Client, connect
from tonnage.kube.kinds import BATCH_KINDS

BUILT_IN = {kind.resource.path for kind in BATCH_KINDS if not kind.resource.is_custom}
VOLCANO_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class Observed(NamedTuple):
    server: FakeServer
    client: Client


def some_cluster(server: FakeServer) -> None:
    """Two nodes, a pod that runs and one that waits, and all kinds that every API server has."""
    server.served |= BUILT_IN
    for thing in (node("a", gpus=2), node("b"), running("x", on="a", gpu=1, memory=100), pod("y", 1)):
        server.put(thing)


@asynccontextmanager
async def observed(
    folder: Path, prepare: Callable[[FakeServer], None] = lambda server: None
) -> AsyncIterator[Observed]:
    """A fake server of `some_cluster`, prepared further by `prepare`, and a client of it."""
    async with fake_server() as server:
        some_cluster(server)
        prepare(server)
        client = await connect(server.kubeconfig(folder))
        try:
            yield Observed(server, client)
        finally:
            await client.close()


@asynccontextmanager
async def away(folder: Path) -> AsyncIterator[Client]:
    """A client of a server that is not there."""
    async with fake_server() as server:
        kubeconfig = server.kubeconfig(folder)
    client = await connect(kubeconfig)
    try:
        yield client
    finally:
        await client.close()

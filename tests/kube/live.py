"""An informer on a fake server, and waiting until its cluster shows something."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.fake_server import FakeServer, fake_server
from tests.transports import abort_all
from tests.waiting import PATIENCE, until_true
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.kube.client import Client, connect
from tonnage.kube.compare import compare, fresh_cluster
from tonnage.kube.errors import ConnectionLostError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import EXTENDER_KINDS, WatchedKind
from tonnage.kube.watch import Backoff

QUICK = Backoff(draw=random.Random(0).random, first=0.01, most=0.05, steady=0.5, missing=0.05)


@dataclass
class Live:
    server: FakeServer
    client: Client
    informer: ClusterInformer
    kinds: Sequence[WatchedKind] = EXTENDER_KINDS

    @property
    def cluster(self) -> Cluster:
        return self.informer.cluster

    async def until(self, true: Callable[[], bool]) -> None:
        await until_true(true)

    async def until_same(self) -> None:
        await until_same(self.client, self.cluster, self.kinds)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a scenario to its end."""

    async def limited() -> None:
        try:
            async with asyncio.timeout(2 * PATIENCE):
                await main
        finally:
            # Connections that were being made when a scenario ended may outlive it.
            await abort_all()

    asyncio.run(limited())


async def until_same(client: Client, cluster: Cluster, kinds: Sequence[WatchedKind] = EXTENDER_KINDS) -> None:
    """Wait until the cluster state is what a fresh list shows; fails with the differences that stay."""
    differences: Sequence[object] = ["nothing could be listed in time"]
    try:
        async with asyncio.timeout(PATIENCE):
            while differences := await _differences(client, cluster, kinds):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError("\n".join(map(str, differences))) from None


async def _differences(client: Client, cluster: Cluster, kinds: Sequence[WatchedKind]) -> Sequence[object]:
    try:
        return compare(cluster, await fresh_cluster(client, cluster.vendors, kinds))
    except ConnectionLostError as error:
        # A connection from the client's pool may have been cut and not be noticed yet.
        return [error]


@asynccontextmanager
async def following(
    client: Client, backoff: Backoff = QUICK, silence: float = 5.0, kinds: Sequence[WatchedKind] = EXTENDER_KINDS
) -> AsyncIterator[ClusterInformer]:
    """An informer that runs meanwhile."""
    informer = ClusterInformer(client, Cluster(default_vendors()), backoff, kinds, silence)
    task = asyncio.create_task(informer.run())
    try:
        await until_true(informer.synced.is_set)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def live(
    folder: Path,
    prepare: Callable[[FakeServer], None] = id,  # type: ignore[assignment]
    kinds: Sequence[WatchedKind] = EXTENDER_KINDS,
    **options: Any,
) -> AsyncIterator[Live]:
    """A fake server, prepared by `prepare`, and an informer on it."""
    async with fake_server() as server:
        prepare(server)
        client = await connect(server.kubeconfig(folder))
        try:
            async with following(client, kinds=kinds, **options) as informer:
                yield Live(server, client, informer, kinds)
        finally:
            await client.close()

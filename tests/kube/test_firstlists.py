"""The first lists: asked for ahead of whoever reads them, once, and after the look at the Lease."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kube.fake_server import NODES, PODS, QUOTAS, FakeServer, fake_server, status
from tests.kube.live import QUICK, run
from tests.scenario import node, pod
from tests.waiting import until_true
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.kube.client import connect
from tonnage.kube.errors import ConnectionLostError
from tonnage.kube.firstlists import FirstLists
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import EXTENDER_KINDS

PATHS = (NODES, PODS, QUOTAS)


@asynccontextmanager
async def lists(
    folder: Path, look: Callable[[], Awaitable[None]] | None = None, prepare: Callable[[FakeServer], None] = id
) -> AsyncIterator[tuple[FakeServer, FirstLists, ClusterInformer]]:
    """Lists that were asked for, and an informer that does not run yet."""
    async with fake_server() as server:
        server.put(node("a", gpus=1))
        server.put(pod("x", 1))
        prepare(server)
        client = await connect(server.kubeconfig(folder))
        first = FirstLists(client, PATHS, look)
        informer = ClusterInformer(client, Cluster(default_vendors()), QUICK, EXTENDER_KINDS, first_lists=first)
        try:
            yield server, first, informer
        finally:
            await first.close()
            await client.close()


@asynccontextmanager
async def running(informer: ClusterInformer) -> AsyncIterator[None]:
    work = asyncio.create_task(informer.run())
    try:
        await until_true(informer.synced.is_set)
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def test_what_was_listed_ahead_is_not_listed_again_and_what_came_since_is_watched(tmp_path: Path) -> None:
    async def main() -> None:
        async with lists(tmp_path) as (server, first, informer):
            await until_true(lambda: all(server.lists(path) for path in PATHS))
            listed = server.version
            server.put(pod("later", 1))
            async with running(informer):
                assert informer.cluster.waiting.keys() == {"default/x"}
                assert not server.watches(PODS), "the first cycle comes before the watches"
                first.begin_watches()
                await until_true(lambda: "default/later" in informer.cluster.waiting)
                assert server.watches(PODS) == [listed]
                assert [len(server.lists(path)) for path in PATHS] == [1, 1, 1]

    run(main())


def test_watches_begin_after_a_second_whoever_forgets_to_begin_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with lists(tmp_path) as (server, _, informer), running(informer):
            await until_true(lambda: bool(server.watches(PODS)))

    run(main())


def test_a_list_that_failed_ahead_is_asked_for_again(tmp_path: Path) -> None:
    def fail_once(server: FakeServer) -> None:
        answer, failed = server._answer, []

        def unavailable(path: str, query: dict[str, str]) -> tuple[int, dict[str, object]]:
            if path == PODS and not failed:
                failed.append(path)
                return 500, status(500, "InternalError")
            return answer(path, query)

        server._answer = unavailable  # type: ignore[method-assign]

    async def main() -> None:
        async with lists(tmp_path, prepare=fail_once) as (server, _, informer), running(informer):
            assert informer.cluster.waiting.keys() == {"default/x"}
            assert len(server.lists(PODS)) == 2

    run(main())


def test_the_lists_come_after_the_look_at_the_lease_even_if_that_fails(tmp_path: Path) -> None:
    looked: list[float] = []
    go_on = asyncio.Event()

    async def look() -> None:
        await go_on.wait()
        looked.append(time.monotonic())
        raise ConnectionLostError("reset")

    async def main() -> None:
        async with lists(tmp_path, look) as (server, first, informer):
            await asyncio.sleep(0.05)
            assert not server.asked
            go_on.set()
            async with running(informer):
                assert looked[0] <= first.began == informer.began <= time.monotonic()

    run(main())


def test_what_nobody_reads_ends_without_a_word(tmp_path: Path) -> None:
    async def main() -> None:
        never = asyncio.Event()
        async with lists(tmp_path, lambda: never.wait()):  # type: ignore[arg-type, return-value]
            await asyncio.sleep(0)

    run(main())

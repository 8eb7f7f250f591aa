"""Lists of very large objects: somebody's pods of a megabyte each must not fill the memory of who lists them."""

from pathlib import Path

import pytest

from tests.kube.fake_server import PODS, FakeServer
from tests.kube.live import live, run
from tests.scenario import node, pod
from tonnage.kube import client

COUNT = 120


def crowd(server: FakeServer) -> None:
    server.put(node("a", gpus=1))
    for number in range(COUNT):
        server.put(pod(f"p{number:03}", annotations={"large": "x" * (10_000 if number % 2 else 10)}))


def test_a_list_that_is_too_large_is_read_in_smaller_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER", 200_000)

    async def main() -> None:
        async with live(tmp_path, crowd) as now:
            assert len(now.cluster.waiting) == COUNT
            limits = [int(query["limit"]) for query in now.server.lists(PODS)]
            assert limits[:2] == [500, 62]
            assert limits[-1] == 7
            assert "continue" not in now.server.lists(PODS)[1], "what was too large is asked for again"
            await now.until_same()

    run(main())


def test_one_object_that_is_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live(tmp_path, crowd) as now:
            monkeypatch.setattr(client, "LARGEST_ANSWER", 5_000)
            now.server.stop_connections()
            now.server.version += 10
            now.server.forget_history()
            await now.until(lambda: "larger than" in now.informer.reflectors["Pod"].trouble)
            assert len(now.cluster.waiting) == COUNT, "what was known stays"

    run(main())

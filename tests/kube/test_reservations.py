"""Reservations and the watch: what a server learned first must not be lost to news that come late."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.kube.fake_server import PODS, FakeServer, Stream
from tests.kube.live import Live, live, run
from tests.scenario import node, pod, running
from tonnage.cluster.task import make_task
from tonnage.model.pod import Pod


def nodes(server: FakeServer) -> None:
    server.put(node("a", gpus=2))


def reserve(now: Live, thing: Pod, uid: str, created: str = "2026-01-01T00:00:00Z") -> None:
    """What a server does: it knows the pod from a request, and decides at once."""

    meta = msgspec.structs.replace(thing.metadata, uid=uid, creationTimestamp=created)
    task = make_task(msgspec.structs.replace(thing, metadata=meta), now.cluster.vendors)
    now.cluster.reserve(task, "a", ())


async def expire(now: Live) -> None:
    """Make the picture list everything anew."""
    before = now.informer.reflectors["Pod"].lists
    now.server.stop_connections()
    now.server.version += 10
    now.server.forget_history()
    await now.until(lambda: now.informer.reflectors["Pod"].lists > before)


def test_a_reserved_pod_that_is_seen_bound_holds_what_its_annotations_say(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, nodes) as now:
            now.server.put(pod("p", 1))
            await now.until(lambda: "default/p" in now.cluster.waiting)
            reserve(now, pod("p", 1), uid="uid-p")
            now.server.put(pod("p", 1, annotations={"old": "news"}))
            await now.until(lambda: now.cluster.reserved["default/p"].annotations == {"old": "news"})
            assert now.cluster.holders == {"default/p": "a"}, "an event about the unbound pod takes nothing away"
            now.server.put(running("p", on="a", gpu=1, memory=500))
            await now.until(lambda: not now.cluster.reserved)
            await now.until_same()

    run(main())


def test_a_reservation_for_a_pod_that_the_watch_does_not_show_yet_survives_a_new_list(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, nodes) as now:
            reserve(now, pod("p", 1), uid="uid-p")
            listed_without: list[int] = []
            answer = now.server._answer

            def behind(path: str, query: dict[str, str]) -> tuple[int, dict[str, object]]:
                result = answer(path, query)
                if path == PODS and "default/p" in now.cluster.reserved and (PODS, "p") not in now.server.objects:
                    listed_without.append(1)
                    now.server.put(pod("p", 1))
                return result

            now.server._answer = behind  # type: ignore[method-assign]
            await expire(now)
            assert listed_without
            assert now.cluster.reserved.keys() == {"default/p"}

    run(main())


@pytest.mark.parametrize("failures", [0, 1])
def test_a_reservation_for_a_pod_that_was_deleted_meanwhile_is_given_up_by_a_new_list(
    tmp_path: Path, failures: int
) -> None:
    async def main() -> None:
        async with live(tmp_path, nodes) as now:
            answer, left = now.server._answer, [500] * failures

            def failing(path: str, query: dict[str, str]) -> tuple[int, dict[str, object]]:
                return (left.pop(), {}) if left and path.endswith("/pods/p") else answer(path, query)

            now.server._answer = failing  # type: ignore[method-assign]
            now.server.put(pod("p", 1))
            await now.until(lambda: "default/p" in now.cluster.waiting)
            reserve(now, pod("p", 1), uid="uid-p")
            now.server.stop_connections()
            now.server.delete(PODS, "p")
            await expire(now)
            await now.until(lambda: not now.cluster.reserved)
            assert "/api/v1/namespaces/default/pods/p" in [path for path, _ in now.server.asked]
            await now.until_same()

    run(main())


@pytest.mark.parametrize("second", ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"])
def test_old_news_of_an_earlier_pod_of_the_same_name_do_not_touch_a_reservation(tmp_path: Path, second: str) -> None:
    go_on = asyncio.Event()

    async def hold_back(stream: Stream) -> None:
        await go_on.wait()
        await stream.honest()

    def prepare(server: FakeServer) -> None:
        nodes(server)
        server.put(running("p", on="a", gpu=0), uid="first", creationTimestamp="2026-01-01T00:00:00Z")
        server.plans.append(hold_back)

    async def main() -> None:
        async with live(tmp_path, prepare) as now:
            now.server.put(running("p", on="a", gpu=1), uid="first", creationTimestamp="2026-01-01T00:00:00Z")
            now.server.delete(PODS, "p")
            reserve(now, pod("p", 1), uid="second", created=second)
            go_on.set()
            now.server.put(pod("other"))
            await now.until(lambda: "default/other" in now.cluster.waiting)
            assert now.cluster.reserved["default/p"].pod.metadata.uid == "second"
            assert now.cluster.holders == {"default/p": "a"}

    run(main())


def test_a_newer_pod_of_the_same_name_does_not_inherit_a_reservation(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, nodes) as now:
            reserve(now, pod("p", 1), uid="first", created="2026-01-01T00:00:00Z")
            now.server.put(pod("p", 1), uid="second", creationTimestamp="2026-01-01T00:01:00Z")
            await now.until(lambda: "default/p" in now.cluster.waiting)
            assert not now.cluster.reserved
            await now.until_same()

    run(main())

"""The informer against a server that misbehaves: it misses nothing, and nothing stops it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.kube.fake_server import NODES, PODS, QUOTAS, FakeServer, Plan, Stream, error_line, status
from tests.kube.live import Live, live, run
from tests.scenario import node, pod, running
from tonnage.cluster.cluster import Cluster, PodReading
from tonnage.devices.catalog import default_vendors
from tonnage.kube.informer import ChangeHook, ClusterInformer
from tonnage.kube.kinds import NODES as NODE_KIND
from tonnage.kube.kinds import PODS as POD_KIND
from tonnage.kube.kinds import WatchedKind
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff, Reflector, listing
from tonnage.model.pod import Pod


def some_objects(server: FakeServer) -> None:
    for thing in (node("a", gpus=2), node("b"), running("x", on="a", gpu=1, memory=100), pod("y", 1)):
        server.put(thing)


def test_what_is_there_at_the_start_is_listed(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            assert now.cluster.nodes.keys() == {"a", "b"}
            assert now.cluster.holders == {"default/x": "a"}
            assert now.cluster.waiting.keys() == {"default/y"}
            await now.until_same()

    run(main())


def test_objects_come_change_and_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            now.server.put(node("c", gpus=1))
            now.server.put(node("a", gpus=1))
            now.server.put(pod("y", 1, on="b"))
            now.server.put(pod("z", 1))
            now.server.delete(PODS, "x")
            now.server.delete(NODES, "b")
            await now.until(lambda: now.informer.applied == 10)
            assert now.cluster.nodes.keys() == {"a", "c"}
            assert len(now.cluster.nodes["a"].devices) == 1
            assert now.cluster.holders == {"default/y": "b"}
            assert now.cluster.waiting.keys() == {"default/z"}
            assert now.server.watches(PODS)
            assert all(query["allowWatchBookmarks"] == "true" for _, query in now.server.asked if "watch" in query)
            await now.until_same()

    run(main())


def test_listeners_are_told_after_the_picture_changed(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path) as now:
            told: list[tuple[str, str, bool]] = []

            def listen(kind: WatchedKind, changes: Sequence[Change]) -> None:
                told.extend((kind.resource.kind, change.key, change.key in now.cluster.nodes) for change in changes)

            now.informer.add_listener(now.kinds, listen)
            now.server.put(node("new"))
            await now.until(lambda: bool(told))
            assert told == [("Node", "new", True)]

    run(main())


def test_hooks_see_the_cluster_before_and_after_each_change_in_their_order() -> None:
    cluster = Cluster(default_vendors())
    informer = ClusterInformer(Mock(), cluster, Backoff(draw=lambda: 0.5))
    told: list[tuple[str, bool]] = []

    def hook(name: str) -> ChangeHook:
        def before(cluster: Cluster, change: Change) -> str:
            told.append((f"before {name}", change.key in cluster.nodes))
            return name

        def after(cluster: Cluster, change: Change, state: str) -> None:
            told.append((f"after {state}", change.key in cluster.nodes))

        return ChangeHook(before, after)

    informer.add_hook(NODE_KIND, hook("one"))
    informer.add_hook(NODE_KIND, hook("two"))
    informer.take(NODE_KIND, Change("a", node("a")))
    assert told == [("before one", False), ("before two", False), ("after one", True), ("after two", True)]
    told.clear()
    informer.take(NODE_KIND, Change("a", is_gone=True))
    assert told == [("before one", True), ("before two", True), ("after one", False), ("after two", False)]


# -- breaks


async def cut_in_a_line(stream: Stream) -> None:
    lines = await stream.lines()
    await stream.send(b"".join(lines[:-1]) + lines[-1][:40])
    stream.hang_up()


async def end_without_a_word(stream: Stream) -> None:
    stream.hang_up()


async def end_as_agreed(stream: Stream) -> None:
    for line in await stream.lines():
        await stream.send(line)


async def fall_silent(stream: Stream) -> None:
    await asyncio.sleep(60)


async def say_everything_twice(stream: Stream) -> None:
    for line in await stream.lines():
        await stream.send(line + line)
    await stream.honest()


async def one_byte_at_a_time(stream: Stream) -> None:
    for line in await stream.lines():
        for byte in line:
            await stream.send(bytes([byte]))
    await stream.honest()


@pytest.mark.parametrize(
    "plan", [cut_in_a_line, end_without_a_word, end_as_agreed, fall_silent, say_everything_twice, one_byte_at_a_time]
)
def test_a_watch_that_breaks_is_continued_without_a_new_list(tmp_path: Path, plan: Plan) -> None:
    def prepare(server: FakeServer) -> None:
        some_objects(server)
        server.plans.append(plan)

    async def main() -> None:
        async with live(tmp_path, prepare, silence=0.3) as now:
            now.server.put(pod("p", 1, on="a"))
            now.server.put(pod("q", 1))
            now.server.delete(PODS, "x")
            await now.until(lambda: now.cluster.pods() == {"default/y", "default/p", "default/q"})
            await now.until_same()
            assert now.informer.reflectors["Pod"].lists == 1
            assert not now.informer.problems

    run(main())


def test_after_a_bookmark_the_watch_is_continued_from_there(tmp_path: Path) -> None:
    async def bookmark(stream: Stream) -> None:
        marked = {"kind": "Pod", "metadata": {"resourceVersion": "170", "creationTimestamp": None}, "spec": {}}
        await stream.send(json.dumps({"type": "BOOKMARK", "object": marked}).encode() + b"\n")
        stream.server.version = 200

    async def main() -> None:
        async with live(tmp_path, lambda server: server.plans.append(bookmark)) as now:
            await now.until(lambda: len(now.server.watches(PODS)) == 2)
            assert now.server.watches(PODS) == [100, 170]

    run(main())


def test_a_server_that_is_away_is_found_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            now.server.token = "another"
            now.server.stop_connections()
            await now.until(lambda: "Unauthorized" in now.informer.trouble.get("Pod", ""))
            now.server.put(pod("late"))
            # The file with the credentials is read again when they are refused.
            now.server.kubeconfig(tmp_path)
            await now.until(lambda: "default/late" in now.cluster.waiting)
            await now.until(lambda: not now.informer.trouble)

    run(main())


# -- only a new list helps


async def gone_as_an_event(stream: Stream) -> None:
    await stream.send(error_line(410, "Expired"))
    await asyncio.sleep(60)


async def garbage(stream: Stream) -> None:
    await stream.send(b'{"type": "ADDED", "object": {"meta\n')
    await asyncio.sleep(60)


async def not_an_event(stream: Stream) -> None:
    await stream.send(b'["surprise"]\n')
    await asyncio.sleep(60)


@pytest.mark.parametrize("plan", [None, gone_as_an_event, garbage, not_an_event])
def test_what_was_deleted_meanwhile_is_noticed_by_a_new_list(tmp_path: Path, plan: Plan | None) -> None:
    """Without a plan the server answers 410 when the watch is asked for."""

    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            now.server.stop_connections()
            now.server.delete(PODS, "x")
            now.server.put(pod("p", 1, on="a"))
            now.server.forget_history()
            if plan:
                now.server.plans.append(plan)
            await now.until(lambda: now.cluster.pods() == {"default/y", "default/p"})
            assert now.informer.reflectors["Pod"].lists == 2
            await now.until_same()

    run(main())


def test_a_server_that_was_restored_to_an_older_state_is_listed_anew(tmp_path: Path) -> None:
    """It has never heard of the version to continue from, and may say so in any words."""

    async def never_heard_of_it(stream: Stream) -> None:
        if stream.version > 300:
            await stream.send(error_line(504, "Timeout"))
        else:
            await stream.honest()

    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            now.server.version = 400
            now.server.put(pod("lost", 1))
            await now.until(lambda: "default/lost" in now.cluster.waiting)
            del now.server.objects[PODS, "lost"]
            now.server.version = 200
            now.server.history.clear()
            now.server.plans.extend([never_heard_of_it] * 20)
            now.server.stop_connections()
            await now.until(lambda: "default/lost" not in now.cluster.waiting)
            await now.until_same()

    run(main())


def test_a_list_comes_in_pages_and_in_one_piece_if_it_goes_out_of_date_between_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            for number in range(5):
                now.server.put(pod(f"p{number}"))
            pages = [batch async for batch, _ in listing(now.client, POD_KIND.resource, 2)]
            assert [len(page.changes) for page in pages] == [2, 2, 2, 1, 0]
            assert pages[-1].listed == {change.key for page in pages for change in page.changes}
            now.server.asked.clear()
            before = now.server._answer

            def expire(path: str, query: dict[str, str]) -> tuple[int, dict[str, object]]:
                return (410, status(410, "Expired")) if "continue" in query else before(path, query)

            now.server._answer = expire  # type: ignore[method-assign]
            reflector = Reflector(now.client, POD_KIND.resource, Backoff(draw=lambda: 0.0), page=2)
            async with aclosing(reflector.batches()) as batches:
                async for batch in batches:
                    if batch.listed is not None:
                        break
            assert len(batch.listed or ()) == 7
            assert [query.get("limit") for query in now.server.lists(PODS)] == ["2", "2", None]

    run(main())


# -- objects that cannot be read


def test_an_object_that_cannot_be_read_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            broken = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"containers": "none"}}
            now.server.put_plain(PODS, broken)
            now.server.put_plain(PODS, {"metadata": {"name": 7}})
            now.server.put(pod("z", 1))
            await now.until(lambda: "default/z" in now.cluster.waiting)
            assert now.cluster.holders == {"default/x": "a"}, "what was known before stays"
            problem = now.informer.problems["Pod/default/x"]
            assert (problem.object, problem.field) == ("Pod/default/x", "spec.containers")
            assert "Expected `array`, got `str`" in problem.message
            assert now.informer.reflectors["Pod"].lists == 1
            now.server.put(running("x", on="a", gpu=0))
            await now.until(lambda: "Pod/default/x" not in now.informer.problems)

    run(main())


def test_an_object_that_cannot_be_read_is_not_taken_for_deleted_by_a_list_and_can_be_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            broken = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"containers": "none"}}
            now.server.put_plain(PODS, broken)
            now.server.plans.append(gone_as_an_event)
            now.server.stop_connections()
            await now.until(lambda: now.informer.reflectors["Pod"].lists == 2)
            assert now.cluster.holders == {"default/x": "a"}
            now.server.delete(PODS, "x")
            await now.until(lambda: not now.cluster.holders)
            assert not now.informer.problems

    run(main())


def test_a_null_stands_for_an_absent_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path) as now:
            spec = {"containers": [{"name": "main", "resources": None}], "nodeName": None}
            now.server.put_plain(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
            await now.until(lambda: "default/p" in now.cluster.waiting)
            assert not now.informer.problems

    run(main())


def test_a_very_long_line_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path) as now:
            now.server.put(pod("long", annotations={"essay": "x" * 8_000_000}))
            await now.until(lambda: "default/long" in now.cluster.waiting)
            assert now.informer.reflectors["Pod"].breaks == 0

    run(main())


def test_a_mistake_of_ours_about_one_object_is_a_problem_of_that_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            real = now.cluster.read_pod

            def stumble(thing: Pod) -> PodReading:
                if thing.metadata.name.startswith("odd"):
                    raise ZeroDivisionError
                return real(thing)

            monkeypatch.setattr(now.cluster, "read_pod", stumble)
            now.server.put(pod("odd"))
            now.server.put(pod("odd-and-runs", 1, on="a"))
            now.server.put(pod("even"))
            await now.until(lambda: "default/even" in now.cluster.waiting)
            assert "the log says why" in now.informer.problems["Pod/default/odd"].message
            assert "ZeroDivisionError" in now.cluster.waiting["default/odd"].fault
            assert now.cluster.holders["default/odd-and-runs"] == "a"
            assert now.informer.failures == {("Pod", "take"): 2}

    run(main())


def test_a_hook_or_listener_that_raises_misses_one_change_and_the_others_miss_none(tmp_path: Path) -> None:
    def stumble(change: Change) -> None:
        if change.key == "default/odd":
            raise ZeroDivisionError

    def listen(_kind: WatchedKind, changes: Sequence[Change]) -> None:
        for change in changes:
            stumble(change)
            told.add(change.key)

    told: set[str] = set()
    told_too: set[str] = set()
    compared: list[str] = []

    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            now.informer.add_hook(POD_KIND, ChangeHook(lambda _, change: stumble(change), lambda *_: None))
            now.informer.add_hook(POD_KIND, ChangeHook(lambda *_: None, lambda _, change, __: stumble(change)))
            now.informer.add_hook(
                POD_KIND, ChangeHook(lambda *_: None, lambda _, change, __: compared.append(change.key))
            )
            now.informer.add_listener([POD_KIND], listen)
            now.informer.add_listener([POD_KIND], lambda _, changes: told_too.update(change.key for change in changes))
            for name in ("even", "odd", "last"):
                now.server.put(pod(name))
            await now.until(lambda: "default/last" in told_too)
            assert {"default/even", "default/odd", "default/last"} <= now.cluster.waiting.keys()
            assert told == {"default/even", "default/last"}
            assert {"default/even", "default/odd"} <= told_too
            assert compared == ["default/even", "default/odd", "default/last"]
            assert now.informer.failures == {("Pod", "hook"): 2, ("Pod", "listener"): 1}
            assert "ZeroDivisionError" in now.informer.problems["Pod/default/odd"].message

    run(main())


def test_quotas_come_change_and_go(tmp_path: Path) -> None:
    def quota(limit: str) -> dict[str, Any]:
        hard = {"limits.nvidia.com/gpumem": limit, "pods": "5"}
        return {"metadata": {"name": "gpus", "namespace": "default"}, "spec": {"hard": hard}, "status": {"used": {}}}

    def limit(now: Live) -> int | None:
        found = now.cluster.quotas.quota("default", "nvidia.com/gpumem")
        return None if found is None else found.limit

    async def main() -> None:
        async with live(tmp_path, some_objects) as now:
            assert limit(now) is None
            now.server.put_plain(QUOTAS, quota("1000"))
            await now.until(lambda: limit(now) == 1000)
            now.server.put_plain(QUOTAS, quota("2000"))
            await now.until(lambda: limit(now) == 2000)
            await now.until_same()
            broken = quota("3000")
            broken["spec"]["hard"] = 7
            now.server.put_plain(QUOTAS, broken)
            await now.until(lambda: list(now.informer.problems) == ["ResourceQuota/default/gpus"])
            assert limit(now) == 2000
            now.server.delete(QUOTAS, "gpus")
            await now.until(lambda: limit(now) is None)
            assert now.informer.problems == {}

    run(main())


def test_a_quota_that_went_unseen_is_noticed_by_the_next_list(tmp_path: Path) -> None:
    plain = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1"}}}

    async def main() -> None:
        async with live(tmp_path, lambda server: server.put_plain(QUOTAS, plain)) as now:
            assert list(now.cluster.quotas.limits) == ["team"]
            del now.server.objects[QUOTAS, "q"]
            now.server.version += 1
            now.server.forget_history()
            await now.until(lambda: not now.cluster.quotas.limits)

    run(main())


def test_everything_is_listed_anew_when_that_is_asked_for(tmp_path: Path) -> None:
    async def silent(stream: Stream) -> None:
        await asyncio.Event().wait()

    def prepare(server: FakeServer) -> None:
        some_objects(server)
        server.plans.append(silent)

    async def main() -> None:
        async with live(tmp_path, prepare, silence=60.0) as now:
            now.server.put(pod("z", 1))
            now.server.delete(PODS, "x")
            await asyncio.sleep(0.05)
            assert now.cluster.waiting.keys() == {"default/y"}
            await now.informer.refresh()
            assert now.cluster.waiting.keys() == {"default/y", "default/z"}
            assert now.cluster.holders == {}
            assert [len(now.server.lists(path)) for path in (NODES, PODS, QUOTAS)] == [2, 2, 2]
            now.server.put(node("c"))
            now.server.put(pod("w", 1))
            await now.until_same()

    run(main())

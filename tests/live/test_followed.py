"""A cluster that is followed: it changes with the API server, says since when it is stale, and recovers."""

import time
from pathlib import Path

import pytest

from tests.kube.fake_server import NODES, PODS, QUOTAS, FakeServer
from tests.kube.live import QUICK, run
from tests.live.observing import BUILT_IN, VOLCANO_QUEUES, away, observed
from tests.scenario import node
from tests.waiting import until_true
from tonnage.devices.catalog import default_vendors
from tonnage.kube.errors import KubeError
from tonnage.live.followed import following
from tonnage.live.kinds import LIVE_KINDS, kinds_in


def test_it_changes_with_the_api_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as now, following(now.client, default_vendors(), backoff=QUICK) as live:
            assert live.cluster.nodes.keys() == {"a", "b"}
            assert (live.problems(), live.stale_since, live.trouble) == ([], None, "")
            before = live.changes
            now.server.put(node("c"))
            await until_true(lambda: "c" in live.cluster.nodes)
            assert live.changes > before

    run(main())


def test_it_says_since_when_it_is_stale_and_recovers(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as now, following(now.client, default_vendors(), backoff=QUICK) as live:
            await until_true(lambda: bool(now.server.watches(PODS)))
            began = time.time()
            token, now.server.token = now.server.token, "another"
            now.server.stop_connections()
            await until_true(lambda: live.stale_since is not None)
            first = live.stale_since
            assert first is not None
            assert began - 1 <= first <= time.time()
            await until_true(lambda: "401" in live.trouble)
            assert live.cluster.nodes.keys() == {"a", "b"}
            now.server.put(node("c"))
            now.server.token = token
            await until_true(lambda: live.stale_since is None and "c" in live.cluster.nodes)
            assert live.trouble == ""

    run(main())


def test_a_watch_that_was_silent_to_its_end_makes_it_stale_since_it_was_heard(tmp_path: Path) -> None:
    async def main() -> None:
        silence, kinds = 0.5, [kind for kind in LIVE_KINDS if not kind.resource.is_custom]
        async with (
            observed(tmp_path) as now,
            following(now.client, default_vendors(), kinds, QUICK, silence) as live,
        ):
            await until_true(lambda: all(map(now.server.watches, BUILT_IN)))
            # The watches stay open and silent, and no new one is let in.
            now.server.token = "another"
            await until_true(lambda: live.stale_since is not None)
            since = live.stale_since
            assert since is not None
            assert since <= time.time() - 0.9 * silence

    run(main())


@pytest.mark.parametrize(("path", "what"), [(NODES, "nodes"), (PODS, "pods")])
def test_without_the_right_to_list_nodes_or_pods_it_does_not_begin(tmp_path: Path, path: str, what: str) -> None:
    async def main() -> None:
        async with (
            observed(tmp_path, lambda server: server.forbidden.add(path)) as now,
            following(now.client, default_vendors(), backoff=QUICK),
        ):
            raise AssertionError("it began")

    with pytest.raises(KubeError, match=f"may not list {what}"):
        run(main())


def test_other_kinds_that_may_not_be_read_are_problems_and_not_stale(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        server.forbidden |= {QUOTAS, VOLCANO_QUEUES}

    async def main() -> None:
        async with observed(tmp_path, prepare) as now, following(now.client, default_vendors(), backoff=QUICK) as live:
            # Queues are not installed.
            assert [problem.object for problem in live.problems()] == ["ResourceQuota"]
            assert (live.stale_since, live.trouble) == (None, "")
            now.server.forbidden.clear()
            await until_true(lambda: not live.problems())

    run(main())


def test_an_api_server_that_is_away_at_the_start_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with away(tmp_path) as client, following(client, default_vendors(), backoff=QUICK):
            raise AssertionError("it began")

    with pytest.raises(KubeError, match=r"Cannot connect to 127\.0\.0\.1"):
        run(main())


def test_who_may_read_one_namespace_only_follows_that(tmp_path: Path) -> None:
    within = "/api/v1/namespaces/default/pods"

    def closed(server: FakeServer) -> None:
        server.forbidden |= {NODES, PODS}
        server.served |= {kind.resource.path for kind in kinds_in("default") if not kind.resource.is_custom}
        for (_, name), plain in list(server.objects.items()):
            if plain["kind"] == "Pod":
                server.objects[within, name] = plain

    async def main() -> None:
        async with (
            observed(tmp_path, closed) as now,
            following(now.client, default_vendors(), backoff=QUICK, namespace="default") as live,
        ):
            assert (live.is_whole, live.cluster.nodes.keys()) == (False, set())
            assert live.cluster.pods() == {"default/x", "default/y"}
            assert any("may not list nodes" in problem.message for problem in live.problems())
        async with (
            observed(tmp_path) as now,
            following(now.client, default_vendors(), backoff=QUICK, namespace="default") as live,
        ):
            assert (live.is_whole, live.cluster.nodes.keys()) == (True, {"a", "b"})

    run(main())

"""The sources of the dashboard: a cluster behind an API server, a simulation, and a server of this process."""

from pathlib import Path

from tests.dashboard.asking import Asked
from tests.kube.live import QUICK, run
from tests.live.observing import observed
from tests.scenario import node, pod, running
from tests.waiting import until_true
from tonnage.cli.up.options import _invent
from tonnage.cluster.cluster import Cluster
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.dashboard.sources.serversource import ServerSource
from tonnage.dashboard.sources.simulationsource import SimulationSource
from tonnage.dashboard.sources.viewedsource import ViewedSource
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.kube.informer import ClusterInformer
from tonnage.live.followed import following
from tonnage.live.view import ClusterView
from tonnage.plugins.defaults import default_plugins


def test_a_live_cluster_is_followed_and_decided_about_without_changing_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as now, following(now.client, default_vendors(), backoff=QUICK) as live:
            view = ClusterView(live, "https://somewhere", default_plugins(), DEFAULT_ACTIONS, "binpack/spread")
            source = ViewedSource(view, clock=lambda: 0.0)
            asked = Asked(source)
            assert 'id="n-a"' in (await asked.ask("/")).text
            assert 'id="g-Fits"' in (await asked.ask("/waiting")).text
            assert live.cluster.waiting.keys() == {"default/y"}
            now.server.put(node("c", gpus=1))
            now.server.put(pod("big", 8))
            await until_true(lambda: "default/big" in live.cluster.waiting and "c" in live.cluster.nodes)
            asked.board.look()
            assert 'id="n-c"' in (await asked.ask("/")).text
            assert 'href="/pods/default/big"' in (await asked.ask("/waiting")).text
            assert (source.trouble, source.can_change, source.reads_nodes) == ("", True, True)
            now.server.token = "another"
            now.server.stop_connections()
            await until_true(lambda: "401" in source.trouble)
            assert source.seen <= source.now()
            assert "401" in (await asked.ask("/")).text

    run(main())


def test_a_simulation_has_decisions_with_scores_and_reasons_of_those_who_wait() -> None:
    plugins = default_plugins()
    replay = _invent(4, 8, 1, plugins, DEFAULT_ACTIONS)
    asked = Asked(SimulationSource("invented", replay, plugins, DEFAULT_ACTIONS, "binpack/spread"))
    replay.advance(4 * 3600.0)
    asked.board.look()
    placed = [one for one in asked.board.decisions if not one.reason]
    assert placed
    assert placed[0].record.scores
    assert replay.waiting
    assert asked.board.current.totals.waiting == len(replay.waiting)
    assert all(group.reason for group in asked.board.current.waiting)


class Recorder:
    """A recorder that tells whoever looks on."""

    on_decision = staticmethod(lambda decision: None)


def test_a_server_tells_its_own_decisions() -> None:
    cluster = Cluster(default_vendors())
    for thing in (node("a", gpus=1), node("b", gpus=1)):
        cluster.upsert_node(thing)
    cluster.upsert_pod(pod("waits", 1, memory=9000))
    recorder, plugins = Recorder(), default_plugins()

    async def main() -> None:
        informer = ClusterInformer(None, cluster, QUICK)  # type: ignore[arg-type]
        source = ServerSource("a server", informer, recorder, lambda: plugins, lambda: DEFAULT_ACTIONS)  # type: ignore[arg-type]
        asked = Asked(source)
        assert "the first lists have not come yet" in (await asked.ask("/")).text
        informer.synced.set()
        with Session(cluster, plugins) as session:
            recorder.on_decision(session.decide(cluster.waiting["default/waits"]))
            cluster.upsert_pod(pod("goes", 1, memory=100))
            decision = session.place(cluster.waiting["default/goes"])
            recorder.on_decision(decision)
            cluster.confirm("default/goes")
        asked.board.look()
        assert 'id="g-CardInsufficientMemory"' in (await asked.ask("/waiting")).text
        page = (await asked.ask("/pods/default/goes")).text
        assert "chosen" in page
        cluster.upsert_pod(running("other", on="a", memory=10))
        asked.board.look()
        assert "default/other" in (await asked.ask("/decisions")).text

    run(main())

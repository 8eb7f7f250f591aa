"""A cycle that is only looked at: it says what would be decided, and leaves the cluster as it was."""

from collections.abc import Sequence

from tests.paths import ROOT
from tests.recounting import differences
from tests.scenario import node, pod, running, scenario, usage
from tonnage.cluster.cluster import Cluster
from tonnage.config.load import load_file
from tonnage.devices.catalog import default_vendors
from tonnage.framework.plugin import Plugin
from tonnage.live.cycle import dry_cycle
from tonnage.live.listed import ListedCluster
from tonnage.live.view import ClusterView
from tonnage.manifests.read import read_files
from tonnage.plugins.defaults import default_plugins


def view(
    cluster: Cluster, plugins: Sequence[Plugin] | None = None, actions: Sequence[str] = ("allocate",)
) -> ClusterView:
    return ClusterView(ListedCluster(cluster), "here", plugins or default_plugins(), actions, "binpack/spread")


def test_pods_that_would_be_placed_and_pods_that_would_wait_are_told_apart() -> None:
    cluster = scenario(
        node("a", gpus=1), running("x", on="a", gpu=0, memory=100), pod("fits", 1, memory=100), pod("big", 4)
    )
    before = usage(cluster, "a")
    told = dry_cycle(view(cluster))
    assert (set(told.placed), set(told.waiting), told.fault) == ({"default/fits"}, {"default/big"}, "")
    assert told.placed["default/fits"].node == "a"
    assert told.waiting["default/big"].why_not().startswith("0 of 1 nodes fit: ")
    # Nothing of it has happened.
    assert set(cluster.waiting) == {"default/fits", "default/big"}
    assert not cluster.reserved
    assert usage(cluster, "a") == before
    assert differences(cluster) == []


def test_evictions_are_undone_and_queues_have_their_figures() -> None:
    cluster = Cluster(default_vendors())
    read_files([str(ROOT / "examples/reclaim.yaml")]).put_into(cluster)
    settings = load_file(str(ROOT / "examples/reclaim-config.yaml"))
    before = set(cluster.running), set(cluster.waiting)
    told = dry_cycle(view(cluster, settings.plugins, settings.actions))
    assert told.queues
    assert any(decision.waits_for for decision in told.waiting.values())
    assert (set(cluster.running), set(cluster.waiting)) == before
    assert not cluster.leaving
    assert not cluster.reserved
    again = dry_cycle(view(cluster, settings.plugins, settings.actions))
    assert again.queues == told.queues
    assert {key: one.why_not() for key, one in again.waiting.items()} == {
        key: one.why_not() for key, one in told.waiting.items()
    }


class Broken(Plugin):
    name = "broken"

    def on_session_open(self, session: object) -> None:
        raise RuntimeError("it is broken")


def test_a_plugin_that_cannot_be_opened_is_a_fault_and_not_the_end() -> None:
    told = dry_cycle(view(scenario(node("a", gpus=1), pod("p", 1)), [Broken()]))
    assert (told.waiting, told.placed) == ({}, {})
    assert "it is broken" in told.fault

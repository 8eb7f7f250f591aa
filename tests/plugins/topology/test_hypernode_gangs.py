"""Gangs within one HyperNode, as Volcano's network-topology-aware has them."""

import pytest

from tests.groups import add, cycle, group, members
from tests.plugins.topology.hypernodes import hypernode
from tests.scenario import node, pod, scenario
from tonnage.model.hypernode import HyperNode, HyperNodeSpec
from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Container, ResourceRequirements
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.topology.networktopologyaware import NetworkTopologyAware

RACKS = {"r1": ("n1", "n4"), "r2": ("n2", "n5"), "r3": ("n3", "n6")}


def three_racks(*pods, rows: bool = False, said: dict | None = None, minimum: int = 4, **annotations: str):
    """Three racks of two nodes with 4 CPUs and 8 GiB each, the names of which go across."""
    cluster = scenario(*(node(f"n{i}", cpu="4", memory="8Gi") for i in range(1, 7)), *pods)
    for name, nodes in RACKS.items():
        cluster.upsert_hypernode(hypernode(name, 1, *nodes))
    if rows:
        cluster.upsert_hypernode(hypernode("row1", 2, "r1", "r2"))
        cluster.upsert_hypernode(hypernode("row2", 2, "r3"))
    else:
        cluster.upsert_hypernode(hypernode("all", 2, *RACKS))
    return add(cluster, group("g", minimum, networkTopology=said or {}, annotations=annotations))


def racks_of(done) -> list[str]:
    """How many pods each rack got."""
    around = {name: rack for rack, names in RACKS.items() for name in names}
    return sorted(around[name] for name in done.placed.values())


def aware(**given) -> NetworkTopologyAware:
    return NetworkTopologyAware(NetworkTopologyAware.Arguments(**given))


HARD1, HARD2 = {"mode": "hard", "highestTierAllowed": 1}, {"mode": "hard", "highestTierAllowed": 2}


def test_volcano_10_two_racks_with_two_pods_each():
    """TestHyperNodeBinpack: 3 racks of 2 nodes, a gang of 4 pods that take a node each, tier 2 at most."""
    whole = Container("main", ResourceRequirements(requests={"cpu": "4", "memory": "8Gi"}))
    done = cycle(three_racks(*members("g", 4, containers=[whole]), said=HARD2), aware())
    assert len(done.placed) == 4
    racks = racks_of(done)
    assert len(set(racks)) == 2
    assert all(racks.count(rack) == 2 for rack in racks)


def test_the_lowest_tier_that_holds_the_gang_is_used():
    done = cycle(three_racks(*members("g", 2, cpu=3), said=HARD2, minimum=2), aware())
    assert racks_of(done) == ["r1", "r1"]


def test_of_a_tier_the_fullest_that_holds_the_gang_is_used():
    done = cycle(three_racks(pod("x", cpu=2, on="n6"), *members("g", 2, cpu=2), said=HARD1, minimum=2), aware())
    assert racks_of(done) == ["r3", "r3"]


def test_above_the_highest_tier_the_gang_waits_with_numbers():
    done = cycle(three_racks(*members("g", 4, cpu=4), said=HARD1), aware())
    assert done.placed == {}
    assert done.why("g-0") == (
        "TopologyNotMet: default/g needs 4 pods in one HyperNode of tier 1 or lower; the best one, r1, holds 2"
    )


def test_what_is_soft_takes_any_nodes_in_the_end():
    soft = {"mode": "soft", "highestTierAllowed": 1}
    done = cycle(three_racks(*members("g", 6, cpu=4), said=soft, minimum=6, rows=True), aware())
    assert len(done.placed) == 6
    done = cycle(three_racks(*members("g", 2, cpu=4), said=soft, minimum=2, rows=True), aware())
    assert len(set(racks_of(done))) == 1


def test_hard_is_what_counts_if_nothing_is_said():
    done = cycle(three_racks(*members("g", 4, cpu=4), said={"highestTierAllowed": 1}), aware())
    assert done.placed == {}


def test_a_tier_may_be_given_by_its_name():
    def named(said):
        cluster = three_racks(*members("g", 4, cpu=4), said=said)
        for one in [cluster.hypernodes[name] for name in RACKS]:
            cluster.upsert_hypernode(
                HyperNode(ObjectMeta(name=one.name), HyperNodeSpec(1, "rack", members=one.spec.members))
            )
        return cycle(cluster, aware())

    assert "tier 1 or lower" in named({"highestTierName": "rack"}).why("g-0")
    assert named({"highestTierName": "row"}).why("g-0") == (
        "InvalidTopology: default/g: no HyperNode is of a tier called row"
    )
    done = named({"mode": "soft", "highestTierName": "row"})
    assert len(done.placed) == 4
    told = [p.message for p in done.document.problems if p.object == "PodGroup/default/g"]
    assert told == ["no HyperNode is of a tier called row; nothing is preferred"]


def test_running_pods_pin_the_hypernodes_around_them():
    there = [*members("g", 3, cpu=2), *members("g", 1, cpu=4, on="n5")]
    there[3] = members("g", 4, cpu=4, on="n5")[3]
    done = cycle(three_racks(*there, said=HARD1, minimum=1), aware())
    assert racks_of(done) == ["r2", "r2"]
    assert done.why("g-2").endswith("the best one, r2, holds 0")
    done = cycle(three_racks(*there, said=HARD2, minimum=1, rows=True), aware())
    assert racks_of(done) == ["r1", "r2", "r2"]


def test_running_pods_that_are_together_nowhere_keep_the_gang_waiting():
    there = [*members("g", 1, cpu=1), members("g", 2, cpu=1, on="n1")[1], members("g", 3, cpu=1, on="n2")[2]]
    done = cycle(three_racks(*there, said=HARD1, minimum=1), aware())
    assert done.why("g-0").endswith("and has pods that are together in none")


def test_without_hypernodes_a_hard_gang_waits_and_others_are_served():
    cluster = scenario(node("n1", cpu="4"), *members("g", 1, cpu=1), pod("p", cpu=1))
    done = cycle(add(cluster, group("g", 1, networkTopology=HARD1)), aware())
    assert list(done.placed) == ["p"]
    assert done.why("g-0") == "InvalidTopology: default/g: there are no HyperNodes"


def test_circles_of_hypernodes_are_said_and_the_rest_is_used():
    cluster = three_racks(*members("g", 2, cpu=4), said=HARD1, minimum=2)
    cluster.upsert_hypernode(hypernode("c1", 3, "c2"))
    cluster.upsert_hypernode(hypernode("c2", 3, "c1"))
    done = cycle(cluster, aware())
    assert len(set(racks_of(done))) == 1
    assert any("itself" in problem.message for problem in done.document.problems)


@pytest.mark.parametrize("normal_pods", [True, False])
def test_pods_of_such_gangs_are_not_scored_as_normal_pods(normal_pods):
    plugins = [plugin for plugin in default_plugins() if plugin.name != "nodepolicy"]
    done = cycle(
        three_racks(*members("g", 1, cpu=1), pod("p", cpu=1), said=HARD1, minimum=1),
        aware(normal_pods=normal_pods),
        plugins=plugins,
    )
    chosen = done.decisions["g-0"]
    assert chosen.scores[chosen.node].get("network-topology-aware", 0.0) == 0.0
    assert bool(done.decisions["p"].scores[done.decisions["p"].node].get("network-topology-aware")) is normal_pods

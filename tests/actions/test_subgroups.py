"""Subgroups of gangs: each is placed whole or not at all, within one domain of its own."""

from typing import Any

import pytest

from tests.groups import Outcome, add, cycle, group, kai_group, member
from tests.plugins.topology.hypernodes import hypernode
from tests.plugins.topology.test_topology import RACK, ZONE, four_racks, topology
from tests.scenario import node, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Pod
from tonnage.plugins.topology.networktopologyaware import NetworkTopologyAware

TIER1, TIER2 = {"mode": "hard", "highestTierAllowed": 1}, {"mode": "hard", "highestTierAllowed": 2}
SOFT = {"mode": "soft"}


def eight_nodes(*pods: Pod) -> Cluster:
    """Volcano's scene: nodes of 8 CPUs, two in each of s0 to s3, two of those in each of s4 and s5, all in s6."""
    cluster = scenario(*(node(f"n{number}", cpu="8", memory="64Gi") for number in range(8)), *pods)
    for number in range(4):
        cluster.upsert_hypernode(hypernode(f"s{number}", 1, f"n{2 * number}", f"n{2 * number + 1}"))
    cluster.upsert_hypernode(hypernode("s4", 2, "s0", "s1"))
    cluster.upsert_hypernode(hypernode("s5", 2, "s2", "s3"))
    cluster.upsert_hypernode(hypernode("s6", 3, "s4", "s5"))
    return cluster


def taken(**cpu: int) -> list[Pod]:
    return [pod(f"on-{name}", cpu=amount, on=name) for name, amount in cpu.items()]


def parts(count: int, size: int, cpu: int, **more: Any) -> list[Pod]:
    """Pods `g-0`, `g-1` and so on in parts of that size."""
    return [
        member(f"g-{number}", "g", cpu=cpu, labels={"part": str(number // size)}, **more) for number in range(count)
    ]


def policy(size: int, least: int = 0, network: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": "workers",
        "subGroupSize": size,
        "minSubGroups": least,
        "networkTopology": network,
        "matchLabelKeys": ["part"],
    }


def run(cluster: Cluster, minimum: int, said: dict[str, Any], network: dict[str, Any] | None = None) -> Outcome:
    add(cluster, group("g", minimum, networkTopology=network, subGroupPolicy=[said]))
    return cycle(cluster, NetworkTopologyAware())


def domains(done: Outcome) -> dict[str, set[str]]:
    """The HyperNodes of tier 1 that each part is in."""
    found: dict[str, set[str]] = {}
    for name, on in done.placed.items():
        part = done.decisions[name].task.pod.labels["part"]
        found.setdefault(part, set()).add(f"s{int((on or '')[1:]) // 2}")
    return found


# -- Volcano's policies


def test_each_subgroup_is_in_one_hypernode_and_all_are_in_one_of_the_groups_tier():
    """Case 5.2 of its suite: s0 and s1 hold three pods each, so that parts of two need both."""
    cluster = eight_nodes(*taken(n0=3, n2=3, n4=6, n5=6, n6=6, n7=6), *parts(4, 2, 3))
    found = domains(run(cluster, 4, policy(2, network=TIER1), TIER2))
    assert sorted(map(sorted, found.values())) == [["s0"], ["s1"]]


def test_the_fullest_hypernode_that_holds_all_subgroups_is_taken():
    """Case 5.1."""
    cluster = eight_nodes(*taken(n2=1, n3=1), *parts(4, 2, 2))
    assert domains(run(cluster, 4, policy(2, network=TIER1), TIER2)) == {"0": {"s1"}, "1": {"s1"}}


def test_without_a_topology_of_the_group_subgroups_go_to_hypernodes_far_apart():
    """Case 8.1: only s0 and s2 hold two pods."""
    cluster = eight_nodes(*taken(n0=4, n4=4, n2=6, n3=6, n6=6, n7=6), *parts(4, 2, 3))
    found = domains(run(cluster, 4, policy(2, network=TIER1)))
    assert sorted(map(sorted, found.values())) == [["s0"], ["s2"]]


def test_what_the_group_prefers_does_not_keep_its_subgroups_from_starting():
    """Case 7.1: the same with a group that only prefers one HyperNode."""
    cluster = eight_nodes(*taken(n0=4, n4=4, n2=6, n3=6, n6=6, n7=6), *parts(4, 2, 3))
    found = domains(run(cluster, 4, policy(2, network=TIER1), SOFT))
    assert sorted(map(sorted, found.values())) == [["s0"], ["s2"]]


def test_a_subgroup_that_only_prefers_one_hypernode_may_be_in_two():
    """Case 6.2: in s5 each node has room for one pod, or two."""
    cluster = eight_nodes(*taken(n0=3, n1=3, n2=3, n3=5, n4=2, n6=2), *parts(4, 2, 4))
    done = run(cluster, 4, policy(2, network=SOFT), TIER2)
    assert set(done.placed.values()) <= {"n4", "n5", "n6", "n7"}
    assert len(done.placed) == 4


def test_a_group_whose_subgroups_do_not_all_fit_waits_whole_and_says_why():
    cluster = eight_nodes(*taken(**{f"n{number}": 6 for number in range(2, 8)}), *parts(4, 2, 6))
    done = run(cluster, 4, policy(2, network=TIER1))
    assert done.placed == {}
    assert not cluster.reserved
    assert done.why("g-2") == (
        "TopologyNotMet: subgroup workers/1 of default/g needs 2 pods in one HyperNode of tier 1 or lower; "
        "the best one, s0, holds 0"
    )
    assert done.why("g-0").startswith("JobNotReady: default/g needs 4 of 4 pods placed, 2 fit")


def test_as_many_subgroups_start_as_the_policy_requires_and_others_follow_whole():
    """Three parts of two on nodes that hold five pods: the third part waits whole."""
    cluster = scenario(node("a", cpu="3"), node("b", cpu="2"), *parts(6, 2, 1))
    done = run(cluster, 2, policy(2, 2))
    assert sorted(done.placed) == ["g-0", "g-1", "g-2", "g-3"]
    assert done.why("g-4").startswith(
        "JobNotReady: subgroup workers/2 of default/g needs places for 2 more pods at once, 1 fit"
    )
    cluster.upsert_node(node("b", cpu="3"))
    assert sorted(cycle(cluster).placed) == ["g-4", "g-5"]


def test_too_few_complete_subgroups_keep_a_group_waiting_although_it_has_its_minimum():
    """Case 9.4: room for the group's minimum of three pods, but not for two parts of two."""
    cluster = scenario(node("a", cpu="3"), *parts(4, 2, 1))
    done = run(cluster, 3, policy(2, 2))
    assert done.placed == {}
    assert not cluster.reserved


def test_pods_of_no_subgroup_count_for_the_groups_minimum():
    alone = member("leader", "g", cpu=1)
    cluster = scenario(node("a", cpu="3"), *parts(4, 2, 1), alone)
    assert sorted(run(cluster, 3, policy(2, 1)).placed) == ["g-0", "g-1", "leader"]


def test_a_subgroup_with_too_few_pods_says_so():
    pods = parts(3, 2, 1)
    done = run(scenario(node("a", cpu="8"), *pods), 2, policy(2, 1))
    assert sorted(done.placed) == ["g-0", "g-1"]
    assert done.why("g-2") == (
        "NotEnoughPodsOfSubGroup: subgroup workers/1 of default/g needs 2 more pods at once, and 1 are waiting"
    )
    done = run(scenario(node("a", cpu="8"), *pods), 2, policy(2, 2))
    assert done.placed == {}
    assert done.why("g-0") == (
        "NotEnoughPodsOfSubGroup: subgroup workers of default/g lacks 1 subgroups with enough pods to start"
    )


def test_a_pod_that_is_made_again_goes_to_the_hypernode_of_its_subgroup():
    """Case 9.5: the rest of the part runs in s2, although s0 is fuller."""
    pods = parts(2, 2, 2)
    pods[0] = member("g-0", "g", cpu=2, labels={"part": "0"}, on="n4")
    cluster = eight_nodes(*taken(n0=4, n1=4), *pods)
    assert domains(run(cluster, 2, policy(2, 1, TIER1))) == {"0": {"s2"}}


def test_of_a_subgroup_nothing_starts_while_a_part_of_it_waits_for_others_to_leave():
    """The group runs with a part of two; of the next part one pod fits now, the other once a pod has left."""
    runs = [member(f"g-{number}", "g", cpu=1, labels={"part": "0"}, on="a") for number in range(2)]
    more = [member(f"g-{number}", "g", cpu=1, labels={"part": "1"}) for number in (2, 3)]
    cluster = scenario(node("a", cpu="4"), *runs, pod("goes", cpu=1, on="a", terminating=True), *more)
    done = run(cluster, 2, policy(2, 1))
    assert done.placed == {}
    assert done.why("g-2") == done.why("g-3") == "goes to a once default/goes left"


def test_more_pods_than_a_group_may_have_are_not_placed_for_the_sake_of_a_whole_subgroup():
    cluster = scenario(node("a", cpu="8"), *parts(6, 2, 1))
    most = {"tonnage.io/max-members": "5"}
    add(cluster, group("g", 2, annotations=most, subGroupPolicy=[policy(2, 1)]))
    assert sorted(cycle(cluster).placed) == ["g-0", "g-1", "g-2", "g-3"]


def test_a_network_topology_of_subgroups_that_no_plugin_reads_is_a_problem():
    cluster = eight_nodes(*parts(2, 2, 1))
    add(cluster, group("g", 2, subGroupPolicy=[policy(2, 1, TIER1)]))
    told = [str(problem) for problem in cycle(cluster).session.problems()]
    assert any("spec.subGroupPolicy[workers].networkTopology" in text and "has no effect" in text for text in told)


# -- KAI's tree


def within(level: str, **more: str) -> dict[str, Any]:
    return {"topologyConstraint": {"topology": "network", "requiredTopologyLevel": level, **more}}


def of(name: str, count: int, cpu: int) -> list[Pod]:
    """Pods of a subgroup."""
    labels = {"kai.scheduler/subgroup-name": name}
    return [member(f"{name}-{number}", "g", cpu=cpu, labels=labels) for number in range(count)]


def racks(*pods: Pod) -> Cluster:
    """Zone a has racks r1 (two nodes) and r2 (three), zone b racks r3 (one) and r4 (two); 4 CPUs each."""
    cluster = scenario(*four_racks(), *pods)
    cluster.upsert_topology(topology("network", ZONE, RACK))
    return cluster


def where(cluster: Cluster, done: Outcome, label: str, of: str) -> set[str | None]:
    nodes = [on for name, on in done.placed.items() if name.startswith(of)]
    return {cluster.nodes[on or ""].node.labels.get(label) for on in nodes}


def test_each_subgroup_is_in_a_rack_and_the_group_in_a_zone():
    cluster = racks(*of("decode", 4, 2), *of("prefill", 5, 2))
    parts = [{"name": "decode", "minMember": 4, **within(RACK)}, {"name": "prefill", "minMember": 5, **within(RACK)}]
    add(cluster, kai_group("g", subGroups=parts, **within(ZONE)))
    done = cycle(cluster)
    assert len(done.placed) == 9
    assert where(cluster, done, RACK, "decode") == {"r1"}
    assert where(cluster, done, RACK, "prefill") == {"r2"}


def test_subgroups_nest_and_each_keeps_to_the_domain_of_the_one_around_it():
    """The left half needs a zone with two racks of two nodes each, which only a is; the right half gets the rest."""
    cluster = racks(*of("l1", 2, 4), *of("l2", 2, 4), *of("right", 2, 4))
    parts = [
        {"name": "left", **within(ZONE)},
        {"name": "l1", "parent": "left", "minMember": 2, **within(RACK)},
        {"name": "l2", "parent": "left", "minMember": 2, **within(RACK)},
        {"name": "right", "minMember": 2, **within(RACK)},
    ]
    add(cluster, kai_group("g", subGroups=parts))
    done = cycle(cluster)
    assert len(done.placed) == 6
    assert where(cluster, done, ZONE, "l") == {"a"}
    assert where(cluster, done, RACK, "right") == {"r4"}


def test_a_domain_that_holds_only_one_of_the_nested_subgroups_is_left_for_the_next():
    cluster = racks(pod("x", cpu=4, on="n2"), *of("l1", 1, 4), *of("l2", 2, 4))
    parts = [
        {"name": "left", **within(RACK)},
        {"name": "l1", "parent": "left"},
        {"name": "l2", "parent": "left", "minMember": 2},
    ]
    add(cluster, kai_group("g", subGroups=parts))
    done = cycle(cluster)
    assert where(cluster, done, RACK, "l") == {"r2"}


def test_so_many_subgroups_start_as_minsubgroup_says():
    cluster = scenario(node("n", cpu="5"), *of("a", 2, 1), *of("b", 2, 2), *of("c", 2, 1))
    parts = [{"name": name, "minMember": 2} for name in "abc"]
    add(cluster, kai_group("g", subGroups=parts, minSubGroup=2))
    done = cycle(cluster)
    assert sorted(done.placed) == ["a-0", "a-1", "c-0", "c-1"]


@pytest.mark.parametrize("level", ["no-such-level", "topology/unknown"])
def test_a_required_level_that_does_not_exist_keeps_the_group_waiting(level):
    cluster = racks(*of("a", 2, 1))
    add(cluster, kai_group("g", subGroups=[{"name": "a", "minMember": 2, **within(level)}]))
    done = cycle(cluster)
    assert done.placed == {}
    assert done.why("a-0").startswith("InvalidTopology: default/g: Topology network has no level")
    assert any("spec.subGroups[a].topologyConstraint" in str(problem) for problem in done.session.problems())


def test_a_pod_beyond_a_subgroup_that_waits_for_its_places_waits_with_it():
    """The pod that requests nothing is placed by backfill, after the two that complete its subgroup got promises."""
    first, others = of("first", 1, 0), [*of("b", 2, 2), member("b-2", "g", labels={"kai.scheduler/subgroup-name": "b"})]
    cluster = scenario(node("n", cpu="4"), pod("goes", cpu=1, on="n", terminating=True), *first, *others)
    parts = [{"name": "first", "minMember": 1}, {"name": "b", "minMember": 2}]
    add(cluster, kai_group("g", subGroups=parts, minSubGroup=1))
    done = cycle(cluster, actions=("allocate", "backfill"))
    assert list(done.placed) == ["first-0"]
    assert {done.why(f"b-{number}") for number in range(3)} == {"goes to n once default/goes left"}

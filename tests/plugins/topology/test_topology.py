"""Gangs in one rack or zone: required, preferred, and what is said when there is none."""

import pytest
from msgspec.structs import replace

from tests.groups import add, cycle, group, kai_group, members
from tests.scenario import node, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.meta import OwnerReference
from tonnage.model.node import Node
from tonnage.model.selection import Affinity
from tonnage.model.topology import Topology
from tonnage.model.wire import convert
from tonnage.plugins.topology.networktopologyaware import NetworkTopologyAware

ZONE, RACK = "topology/zone", "topology/rack"
REQUIRED, PREFERRED = "tonnage.io/topology-required", "tonnage.io/topology-preferred"


def host(name: str, rack: str | None = None, zone: str | None = None, cpu: int = 4, **more) -> Node:
    labels = {key: value for key, value in ((RACK, rack), (ZONE, zone)) if value is not None}
    return node(name, labels=labels, cpu=str(cpu), **more)


def topology(name: str = "network", *labels: str) -> Topology:
    levels = [{"nodeLabel": label} for label in labels or (ZONE, RACK)]
    return convert({"metadata": {"name": name}, "spec": {"levels": levels}}, Topology)


def asking(count: int, *, cpu: int = 1, required: str | None = None, preferred: str | None = None, **more):
    """A gang by annotations alone."""
    said = {REQUIRED: required, PREFERRED: preferred, "tonnage.io/min-members": str(more.pop("minimum", count))}
    annotations = {key: value for key, value in said.items() if value is not None}
    pods = []
    for number in range(count):
        one = pod(f"g-{number}", annotations=annotations, cpu=cpu, **more)
        pods.append(owned(one))
    return pods


def owned(one):
    """The pod of a controller called g, so that all of them are one job."""
    plain = {"name": "g", "controller": True}
    return replace(one, metadata=replace(one.metadata, ownerReferences=[convert(plain, OwnerReference)]))


def four_racks() -> list[Node]:
    """Zone a has racks r1 (8 CPUs) and r2 (12), zone b racks r3 (4) and r4 (8); names go across."""
    return [
        host("n1", "r2", "a"),
        host("n2", "r1", "a"),
        host("n3", "r4", "b"),
        host("n4", "r2", "a"),
        host("n5", "r3", "b"),
        host("n6", "r1", "a"),
        host("n7", "r4", "b"),
        host("n8", "r2", "a"),
    ]


def said(done) -> dict[str, str]:
    return {f"{problem.object} {problem.field}": problem.message for problem in done.document.problems}


# -- by annotations alone


def test_a_gang_goes_to_the_tightest_rack_that_holds_it():
    done = cycle(scenario(*four_racks(), *asking(6, required=RACK)))
    assert set(done.placed.values()) == {"n2", "n6"}
    assert len(done.placed) == 6


def test_the_next_rack_is_taken_when_the_tightest_is_full():
    done = cycle(scenario(*four_racks(), pod("x", cpu=3, on="n2"), pod("y", cpu=3, on="n3"), *asking(6, required=RACK)))
    assert set(done.placed.values()) <= {"n1", "n4", "n8"}
    assert len(done.placed) == 6


def test_a_gang_that_no_rack_holds_waits_with_numbers():
    done = cycle(scenario(*four_racks(), pod("x", cpu=2, on="n1"), *asking(11, required=RACK), pod("p", cpu=1)))
    assert list(done.placed) == ["p"]
    assert done.why("g-0") == (
        f"TopologyNotMet: default/g needs 11 pods in one domain of {RACK}; the best one, r2, holds 10"
    )
    assert done.waiting == {f"g-{number}" for number in range(11)}


def test_a_preferred_rack_is_used_if_there_is_one_and_else_few_racks():
    done = cycle(scenario(*four_racks(), *asking(6, preferred=RACK)))
    assert set(done.placed.values()) == {"n2", "n6"}
    done = cycle(scenario(*four_racks(), *asking(16, preferred=RACK)))
    # The roomiest rack has 12; of those that hold the other 4, r3 is the tightest.
    assert sorted(set(done.placed.values())) == ["n1", "n4", "n5", "n8"]


def test_a_preference_takes_nodes_without_the_label_in_the_end():
    done = cycle(scenario(host("n1", "r1"), host("n2"), *asking(8, preferred=RACK)))
    assert sorted(done.placed.values()) == ["n1"] * 4 + ["n2"] * 4


def test_a_preferred_rack_within_a_required_zone():
    done = cycle(scenario(*four_racks(), *asking(10, required=ZONE, preferred=RACK)))
    assert set(done.placed.values()) == {"n1", "n4", "n8"}
    done = cycle(scenario(*four_racks(), *asking(14, required=ZONE, preferred=RACK)))
    assert len(done.placed) == 14
    assert set(done.placed.values()) <= {"n1", "n2", "n4", "n6", "n8"}
    done = cycle(scenario(*four_racks(), *asking(21, required=ZONE, preferred=RACK)))
    assert done.placed == {}
    assert done.why("g-3").endswith(f"needs 21 pods in one domain of {ZONE}; the best one, a, holds 20")


def test_of_a_zone_that_has_to_be_used_as_a_whole_few_racks_are_filled():
    hosts = [host("n1", "r2", "a"), host("n2", "r1", "a"), host("n3", "r2", "a"), host("n4", "r1", "a")]
    hosts += [host("n5", "r3", "a"), host("n6", "r3", "a", cpu=2)]
    done = cycle(scenario(*hosts, *asking(5, required=ZONE, preferred=RACK, cpu=2)))
    # Racks r1 and r2 have room for four each, r3 for three; the one that is left is for the tightest.
    assert sorted(done.placed.values()) == ["n2", "n2", "n4", "n4", "n5"]


def test_a_plain_pod_may_require_a_label_too():
    done = cycle(scenario(host("n1"), host("n2", "r1"), pod("p", cpu=1, annotations={REQUIRED: RACK})))
    assert done.placed == {"p": "n2"}


def test_cards_count():
    hosts = [host(name, rack, gpus=2, slots=1) for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r2"))]
    pods = [owned(pod(f"g-{i}", 1, annotations={REQUIRED: RACK, "tonnage.io/min-members": "3"})) for i in range(3)]
    assert set(cycle(scenario(*hosts, *pods)).placed.values()) == {"n2", "n3"}
    done = cycle(scenario(*hosts[:2], *pods))
    assert (
        done.why("g-0") == f"TopologyNotMet: default/g needs 3 pods in one domain of {RACK}; the best one, r1, holds 2"
    )


def test_shared_cards_count_by_their_slots_memory_and_compute():
    def hosts(**cards):
        return [host("n1", "r1", gpus=1, **cards), host("n2", "r2", gpus=2, **cards)]

    said = {REQUIRED: RACK, "tonnage.io/min-members": "4"}
    by_memory = [owned(pod(f"g-{i}", 1, memory=3000, annotations=said)) for i in range(4)]
    assert set(cycle(scenario(*hosts(gpu_memory=8000), *by_memory)).placed.values()) == {"n2"}
    by_compute = [owned(pod(f"g-{i}", 1, memory=100, cores=40, annotations=said)) for i in range(4)]
    assert set(cycle(scenario(*hosts(), *by_compute)).placed.values()) == {"n2"}
    only = scenario(*hosts()[:1], *by_compute)
    assert cycle(only).why("g-0").endswith("the best one, r1, holds 2")
    by_slots = [owned(pod(f"g-{i}", 1, memory=100, annotations=said)) for i in range(4)]
    assert set(cycle(scenario(*hosts(slots=2), *by_slots)).placed.values()) == {"n2"}
    done = cycle(scenario(*hosts(slots=3)[:1], *by_slots))
    assert done.why("g-0").endswith("the best one, r1, holds 3")


def test_cards_that_pods_hold_without_saying_which_do_not_count():
    said = {REQUIRED: RACK, "tonnage.io/min-members": "2"}
    pods = [owned(pod(f"g-{i}", 1, memory=100, annotations=said)) for i in range(2)]
    done = cycle(scenario(host("n1", "r1", gpus=2, slots=1), pod("x", 1, on="n1"), *pods))
    assert done.why("g-0").endswith("the best one, r1, holds 1")


def test_pods_that_must_be_near_one_of_their_own_job_are_not_kept_waiting():
    term = {"labelSelector": {"matchLabels": {"app": "lead"}}, "topologyKey": RACK}
    near = convert({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, Affinity)
    said = {REQUIRED: RACK, "tonnage.io/min-members": "3"}
    pods = [owned(pod(f"g-{i}", annotations=said, cpu=1, affinity=near)) for i in range(2)]
    pods.append(owned(pod("lead", annotations=said, cpu=1, labels={"app": "lead"})))
    assert len(cycle(scenario(host("n1", "r1"), *pods)).placed) == 3


def test_nodes_that_the_pods_may_not_use_do_not_count():
    hosts = [host("n1", "r1"), host("n2", "r1", unschedulable=True), host("n3", "r2")]
    done = cycle(scenario(*hosts, *asking(5, required=RACK)))
    assert done.why("g-0").endswith("the best one, r1, holds 4")


# -- pods of different sizes


def mixed(*sizes: int, minimum: int | None = None, **said: str):
    annotations = {"tonnage.io/min-members": str(minimum or len(sizes)), **said}
    return [owned(pod(f"g-{i}", annotations=annotations, cpu=cpu)) for i, cpu in enumerate(sizes)]


def test_pods_of_different_sizes_are_compared_by_what_they_want_together():
    done = cycle(scenario(*four_racks(), *mixed(3, 3, 1, 1, **{REQUIRED: RACK})))
    assert set(done.placed.values()) == {"n2", "n6"}
    done = cycle(scenario(host("n1", "r1"), host("n2", "r1"), *mixed(3, 3, 1, 1, 1, **{REQUIRED: RACK})))
    assert done.placed == {}
    assert done.why("g-0").endswith("the best one, r1, lacks cpu: 8 of 9 are free")


def test_what_only_trying_shows_is_said_too():
    """Both racks have 8 CPUs free, and three pods of 3 want a node each."""
    hosts = [host("n1", "r1"), host("n2", "r1"), host("n3", "r2"), host("n4", "r2")]
    done = cycle(scenario(*hosts, *mixed(3, 3, 2, **{REQUIRED: RACK})))
    assert done.placed == {}
    assert done.why("g-0") == (
        f"TopologyNotMet: default/g needs 3 pods in one domain of {RACK}; "
        "r1: default/g needs 3 of 3 pods placed, 2 fit; default/g-2: 0 of 2 nodes fit: 2 InsufficientCpu"
    )


def test_when_trying_fails_the_next_rack_is_tried():
    hosts = [host("n1", "r1"), host("n2", "r1"), host("n3", "r2", cpu=9)]
    done = cycle(scenario(*hosts, *mixed(3, 3, 2, **{REQUIRED: RACK})))
    assert set(done.placed.values()) == {"n3"}


def test_a_job_that_can_start_with_some_of_its_pods_does():
    done = cycle(scenario(host("n1", "r1", cpu=3), *mixed(3, 2, minimum=1, **{REQUIRED: RACK})))
    assert done.placed == {"g-0": "n1"}


# -- pods that have places


def test_a_job_that_prefers_a_rack_grows_where_it_is():
    there = owned(pod("g-9", cpu=1, on="n4", annotations={"tonnage.io/min-members": "1", PREFERRED: RACK}))
    done = cycle(scenario(*four_racks(), there, *asking(8, preferred=RACK, minimum=1)))
    assert set(done.placed.values()) <= {"n1", "n4", "n8"}
    assert len(done.placed) == 8


def test_running_pods_pin_the_rack():
    pods = asking(3, required=RACK, minimum=1)
    there = owned(pod("g-9", cpu=1, on="n1", annotations={"tonnage.io/min-members": "1", REQUIRED: RACK}))
    done = cycle(scenario(host("n1", "r2", cpu=3), host("n2", "r1", cpu=9), there, *pods))
    assert sorted(done.placed.items()) == [("g-0", "n1"), ("g-1", "n1")]
    assert done.why("g-2") == (
        f"TopologyNotMet: default/g needs 1 pods in one domain of {RACK}, beside those that it has in r2; "
        "the best one, r2, holds 0"
    )


def test_a_gang_that_grows_stays_in_its_rack():
    done = cycle(scenario(*four_racks(), *asking(14, required=RACK, minimum=2, cpu=2)))
    racks = {"n1": "r2", "n4": "r2", "n8": "r2", "n2": "r1", "n6": "r1", "n5": "r3", "n3": "r4", "n7": "r4"}
    assert len({racks[name] for name in done.placed.values()}) == 1
    assert len(done.placed) == 2


def test_running_pods_on_nodes_without_the_label_keep_a_gang_waiting():
    there = owned(pod("g-9", cpu=1, on="n1", annotations={"tonnage.io/min-members": "1", REQUIRED: RACK}))
    done = cycle(scenario(host("n1"), host("n2", "r1"), there, *asking(1, required=RACK)))
    assert done.why("g-0").endswith("and has pods on nodes that are in none")


def test_pods_that_leave_make_room_and_racks_with_room_now_come_first():
    leaving = pod("x", cpu=4, on="n1", terminating=True)
    done = cycle(scenario(host("n1", "r1"), host("n2", "r2", cpu=8), leaving, *asking(4, required=RACK)))
    assert set(done.placed.values()) == {"n2"}
    done = cycle(scenario(host("n1", "r1"), host("n2", "r2", cpu=2), leaving, *asking(4, required=RACK)))
    assert done.placed == {}
    assert done.why("g-0") == "goes to n1 once default/x left"


# -- KAI's objects


@pytest.mark.parametrize("by", ["spec", "group", "pods"])
def test_kais_constraint_is_read_from_group_and_annotations(by):
    notes = {
        "kai.scheduler/topology": "network",
        "kai.scheduler/topology-required-placement": ZONE,
        "kai.scheduler/topology-preferred-placement": RACK,
    }
    constraint = {"topology": "network", "requiredTopologyLevel": ZONE, "preferredTopologyLevel": RACK}
    pods = members("g", 10, cpu=1, annotations=notes if by == "pods" else {})
    given = kai_group("g", 10, **({"topologyConstraint": constraint} if by == "spec" else {}))
    if by == "group":
        given = group("g", 10, annotations=notes)
    cluster = add(scenario(*four_racks(), *pods), given)
    cluster.upsert_topology(topology())
    done = cycle(cluster)
    assert set(done.placed.values()) == {"n1", "n4", "n8"}
    assert said(done) == {}


def test_a_topology_may_come_and_go():
    cluster = constrained({"topology": "network", "requiredTopologyLevel": RACK}, topology())
    cluster.remove_topology("network")
    assert list(cycle(cluster).placed) == ["p"]
    cluster.upsert_topology(topology("network", RACK))
    assert sorted(cycle(cluster).placed) == ["g-0", "g-1"]


def test_a_rack_follows_the_labels_of_its_nodes():
    cluster = scenario(host("n1", "r1"), host("n2", "r2"), *asking(8, required=RACK))
    assert cycle(cluster).placed == {}
    cluster.upsert_node(host("n2", "r1"))
    assert set(cycle(cluster).placed.values()) == {"n1", "n2"}


def test_between_preferred_and_everything_come_the_wider_levels():
    hosts = [host("n1", "r1", "a"), host("n2", "r1", "b"), host("n3", "r2", "b"), host("n4", "r1", "c")]
    given = kai_group("g", 8, topologyConstraint={"topology": "network", "preferredTopologyLevel": RACK})
    cluster = add(scenario(*hosts, *members("g", 8, cpu=1)), given)
    cluster.upsert_topology(topology())
    assert set(cycle(cluster).placed.values()) == {"n2", "n3"}


def test_a_job_that_no_zone_holds_fills_one_zone_before_the_next():
    sizes = {"n1": ("r3", "b", 6), "n2": ("r1", "a", 4), "n3": ("r4", "b", 1), "n4": ("r2", "a", 4)}
    given = kai_group("g", 10, topologyConstraint={"topology": "network", "preferredTopologyLevel": RACK})
    cluster = add(scenario(*(host(name, *about) for name, about in sizes.items()), *members("g", 10, cpu=1)), given)
    cluster.upsert_topology(topology())
    placed = sorted(cycle(cluster).placed.values())
    assert placed == ["n1"] * 2 + ["n2"] * 4 + ["n4"] * 4


def test_racks_of_the_same_name_in_two_zones_are_two_racks():
    hosts = [host("n1", "r1", "a"), host("n2", "r1", "b")]
    constraint = {"topology": "network", "requiredTopologyLevel": RACK}
    cluster = add(scenario(*hosts, *members("g", 8, cpu=1)), kai_group("g", 8, topologyConstraint=constraint))
    cluster.upsert_topology(topology())
    assert cycle(cluster).why("g-0").endswith("the best one, a/r1, holds 4")


# -- what is wrong


def constrained(constraint, *topologies) -> Cluster:
    cluster = scenario(*four_racks(), *members("g", 2, cpu=1), pod("p", cpu=1))
    for one in topologies:
        cluster.upsert_topology(one)
    return add(cluster, kai_group("g", 2, topologyConstraint=constraint))


@pytest.mark.parametrize(
    ("constraint", "fault"),
    [
        ({"topology": "no", "requiredTopologyLevel": RACK}, "there is no Topology no"),
        ({"requiredTopologyLevel": RACK}, "it names a level, but no Topology"),
        (
            {"topology": "network", "requiredTopologyLevel": "row"},
            f"Topology network has no level row; its levels are {ZONE}, {RACK}, row-of-none",
        ),
        (
            {"topology": "network", "requiredTopologyLevel": "row-of-none"},
            "no node has the label row-of-none and of all wider levels",
        ),
    ],
)
def test_a_requirement_without_meaning_is_a_problem_and_the_others_are_served(constraint, fault):
    done = cycle(constrained(constraint, topology("network", ZONE, RACK, "row-of-none")))
    assert list(done.placed) == ["p"]
    assert done.why("g-0") == f"InvalidTopology: default/g: {fault}"
    assert said(done) == {"PodGroup/default/g spec.topologyConstraint": f"{fault}; the pods wait"}


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"topology": "no", "preferredTopologyLevel": RACK}, "there is no Topology no; nothing is preferred"),
        (
            {"topology": "network", "preferredTopologyLevel": "row"},
            f"Topology network has no level row; its levels are {ZONE}, {RACK}; it is not preferred",
        ),
        (
            {"topology": "network", "requiredTopologyLevel": RACK, "preferredTopologyLevel": ZONE},
            f"the preferred level {ZONE} is wider than the required {RACK}; left out",
        ),
    ],
)
def test_a_preference_without_meaning_is_a_problem_and_keeps_nobody_waiting(constraint, message):
    done = cycle(constrained(constraint, topology()))
    assert sorted(done.placed) == ["g-0", "g-1", "p"]
    assert said(done) == {"PodGroup/default/g spec.topologyConstraint": message}


def test_a_label_that_no_node_has_is_said_of_the_pod_that_names_it():
    done = cycle(scenario(host("n1"), *asking(1, required="no/label")))
    assert done.why("g-0") == "InvalidTopology: default/g: no node has the label no/label"
    assert said(done) == {
        f"Pod/default/g-0 metadata.annotations[{REQUIRED}]": "no node has the label no/label; the pods wait"
    }


def test_odd_topologies_are_problems():
    cluster = scenario(host("n1", "r1"))
    cluster.upsert_topology(topology("twice", RACK, RACK))
    cluster.upsert_topology(convert({"metadata": {"name": "empty"}}, Topology))
    assert said(cycle(cluster)) == {
        "Topology/empty spec.levels": "there are no levels, so that no job can use it",
        "Topology/twice spec.levels[1].nodeLabel": f"the label {RACK} is a level already; this one is left out",
    }


def test_what_has_no_effect_is_said():
    part = {"name": "a", "minMember": 1, "topologyConstraint": {"topology": "network", "requiredTopologyLevel": RACK}}
    cluster = add(scenario(host("n1")), kai_group("g", subGroups=[part]), group("h", 1, subGroupPolicy=[{"name": "a"}]))
    message = "names no label, so that no pod is in a subgroup"
    assert said(cycle(cluster)) == {"PodGroup/default/h spec.subGroupPolicy[0].matchLabelKeys": message}


def test_a_network_topology_that_nobody_looks_at_is_said():
    def told(*plugins, **annotations):
        given = group("g", 1, networkTopology={"mode": "hard", "highestTierAllowed": 1}, annotations=annotations)
        return said(cycle(add(scenario(host("n1", "r1"), *members("g", 1, cpu=1)), given), *plugins))

    key = "PodGroup/default/g spec.networkTopology"
    assert "does not name the plugin network-topology-aware" in told()[key]
    assert told(**{PREFERRED: RACK})[key] == f"has no effect beside metadata.annotations[{PREFERRED}]"
    assert "does not name" not in str(told(NetworkTopologyAware()))

"""Random clusters and gangs: with a required level all places of a gang are in one domain."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import add, cycle, group, member
from tests.plugins.topology.hypernodes import hypernode
from tests.properties.gangs import Never, picture
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.plugins.topology.networktopologyaware import NetworkTopologyAware

LABELS = ("zone", "rack")
REQUIRED, PREFERRED = "tonnage.io/topology-required", "tonnage.io/topology-preferred"

hosts = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "1", "2", "3"]), st.integers(0, 4))
gangs = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(0, 3), min_size=1, max_size=5),
        "minimum": st.integers(1, 5),
        "required": st.sampled_from([None, *LABELS]),
        "preferred": st.sampled_from([None, *LABELS]),
        "tier": st.sampled_from([None, 1, 2]),
        "running": st.one_of(st.none(), st.tuples(st.integers(0, 5), st.booleans())),
    }
)
worlds = st.fixed_dictionaries(
    {
        "hosts": st.lists(hosts, min_size=1, max_size=6),
        "gangs": st.lists(gangs, min_size=1, max_size=3),
        "cards": st.booleans(),
    }
)


def build(world: dict[str, Any]) -> Cluster:
    names = [f"n{i}" for i in range(len(world["hosts"]))]
    things = []
    for name, (zone, rack, size) in zip(names, world["hosts"], strict=True):
        labels = {key: value for key, value in zip(LABELS, (zone, rack), strict=True) if value is not None}
        size_of = {"gpus": size, "slots": 1} if world["cards"] else {"cpu": str(size)}
        things.append(node(name, labels=labels, **size_of))
    cluster = scenario(*things)
    for place, rack in enumerate(("h1", "h2")):
        cluster.upsert_hypernode(hypernode(rack, 1, *names[place::2]))
    cluster.upsert_hypernode(hypernode("top", 2, "h1", "h2"))
    for number, gang in enumerate(world["gangs"]):
        said = {REQUIRED: gang["required"], PREFERRED: gang["preferred"]}
        annotations = {key: value for key, value in said.items() if value is not None}
        spec = {} if gang["tier"] is None else {"networkTopology": {"highestTierAllowed": gang["tier"]}}
        add(cluster, group(f"g{number}", gang["minimum"], annotations=annotations, **spec))
        for i, size in enumerate(gang["sizes"]):
            wants = {"gpus": size or None} if world["cards"] else {"cpu": size}
            cluster.upsert_pod(member(f"g{number}-{i}", f"g{number}", selector=gang.get("selector"), **wants))
        if gang["running"] is not None:
            where, leaves = gang["running"]
            on = names[where % len(names)]
            cluster.upsert_pod(member(f"g{number}-r", f"g{number}", on=on, terminating=leaves))
    cluster.upsert_pod(pod("plain", 1))
    return cluster


def domains_of(cluster: Cluster, label: str, nodes: set[str]) -> set[str | None]:
    return {cluster.nodes[name].node.labels.get(label) for name in nodes}


@settings(max_examples=examples(200))
@given(worlds)
def test_with_a_required_level_all_places_of_a_gang_are_in_one_domain(world):
    cluster = build(world)
    done = cycle(cluster, NetworkTopologyAware(), actions=("allocate", "backfill"))
    around = cluster.topology.membership().nodes
    for number, gang in enumerate(world["gangs"]):
        job = cluster.groups.jobs[f"default/g{number}"]
        mine = [task.key for task in job.tasks.values() if task.key in cluster.reserved]
        if not mine:
            continue
        assert not job.lacking()
        staying = [
            task.key for task in job.tasks.values() if task.key in cluster.holders and task.key not in cluster.leaving
        ]
        nodes = {cluster.holders[key] for key in staying}
        if gang["required"] is not None:
            assert len(domains_of(cluster, gang["required"], nodes)) == 1
            assert None not in domains_of(cluster, gang["required"], nodes)
        elif gang["preferred"] is None and gang["tier"] is not None:
            tiers = {name: cluster.hypernodes[name].spec.tier for name in around}
            assert any(nodes <= around[name] for name in around if tiers[name] <= gang["tier"])
    assert (cluster.columns.free >= 0).all()
    assert (cluster.columns.card_free >= 0).all()
    assert set(done.decisions) == {key.partition("/")[2] for key in {*cluster.waiting, *cluster.reserved}}


@settings(max_examples=examples(60))
@given(worlds)
def test_sets_that_come_to_nothing_leave_everything_as_it_was(world):
    cluster = build(world)
    before = picture(cluster)
    done = cycle(cluster, NetworkTopologyAware(), Never(), actions=("allocate", "backfill"))
    assert done.placed == {}
    assert picture(cluster) == before


@settings(max_examples=examples(100))
@given(worlds)
def test_a_preference_never_keeps_a_gang_of_equal_pods_waiting(world):
    """What fits without a preference fits with one; pods that differ may come in another way and then not fit."""
    gang = world["gangs"][0]
    world["gangs"] = [gang]
    gang["required"], gang["tier"], gang["running"] = None, None, None
    gang["sizes"] = [gang["sizes"][0]] * len(gang["sizes"])
    counts = []
    for preferred in (None, gang["preferred"] or "rack"):
        gang["preferred"] = preferred
        cluster = build(world)
        cluster.remove_pod("default/plain")
        counts.append(len(cycle(cluster, actions=("allocate", "backfill")).placed))
    assert counts[0] == counts[1]


@settings(max_examples=examples(150))
@given(worlds, st.sampled_from(LABELS))
def test_what_fits_into_a_domain_by_selector_fits_by_topology(world, label):
    """Whether a domain may hold a gang is estimated; an estimate that is too low would keep gangs waiting."""
    gang = world["gangs"][0]
    world["gangs"] = [gang]
    gang["preferred"] = gang["tier"] = gang["running"] = None
    placed = []
    for value in ("a", "b", "1", "2", "3"):
        gang["required"], gang["selector"] = None, {label: value}
        placed.append(starts(build(world)))
    gang["required"], gang["selector"] = label, None
    assert starts(build(world)) is any(placed)


def starts(cluster: Cluster) -> bool:
    """Whether a pod of a gang gets a place."""
    return bool(cycle(cluster).placed.keys() - {"plain"})

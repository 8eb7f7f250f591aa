"""Random clusters and gangs with subgroups: each subgroup has places whole or none, and all of them in its domain."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import add, cycle, group, kai_group, member, priority_class, queue
from tests.plugins.topology.hypernodes import hypernode
from tests.properties.gangs import Never, picture
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import HAVE_PLACES, Job
from tonnage.cluster.jobs.subgroups import Path
from tonnage.model.topology import Topology
from tonnage.model.wire import convert
from tonnage.plugins.jobs.gang import Gang
from tonnage.plugins.jobs.priority import Priority
from tonnage.plugins.topology.networktopologyaware import NetworkTopologyAware

LEVELS = ("zone", "rack")
levels = st.sampled_from([None, *LEVELS])
policies = st.fixed_dictionaries(
    {
        "size": st.integers(1, 3),
        "least": st.integers(0, 3),
        "tier": st.sampled_from([None, 1, 2]),
        "soft": st.booleans(),
    }
)
gangs = st.fixed_dictionaries(
    {
        "pods": st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8),
        "minimum": st.integers(0, 5),
        "tier": st.sampled_from([None, 1, 2]),
        "by_kai": st.booleans(),
        "policy": policies,
        "outer": levels,
        "parts": st.lists(st.tuples(st.integers(1, 2), levels), min_size=4, max_size=4),
        "needed": st.one_of(st.none(), st.integers(1, 2)),
        "high": st.booleans(),
    }
)
worlds = st.fixed_dictionaries(
    {
        "hosts": st.lists(
            st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "1", "2"]), st.integers(0, 4)),
            min_size=1,
            max_size=6,
        ),
        "gangs": st.lists(gangs, min_size=1, max_size=3),
        "leaving": st.booleans(),
    }
)


def volcano(name: str, gang: dict[str, Any]) -> Any:
    said, spec = gang["policy"], dict[str, Any]()
    if gang["tier"] is not None:
        spec["networkTopology"] = {"highestTierAllowed": gang["tier"]}
    policy = {
        "name": "p",
        "subGroupSize": said["size"],
        "minSubGroups": said["least"],
        "labelSelector": {"matchExpressions": [{"key": "part", "operator": "NotIn", "values": ["3"]}]},
        "matchLabelKeys": ["part"],
    }
    if said["tier"] is not None:
        policy["networkTopology"] = {"highestTierAllowed": said["tier"], "mode": "soft" if said["soft"] else "hard"}
    return group(name, gang["minimum"], subGroupPolicy=[policy], priorityClassName=importance(gang), **spec)


def kai(name: str, gang: dict[str, Any]) -> Any:
    """Subgroups 0 and 1 side by side, 2 and 3 inside of another one."""
    named = []
    for number, (size, level) in enumerate(gang["parts"]):
        part: dict[str, Any] = {"name": str(number), "minMember": size, **within(level)}
        named.append(part | ({"parent": "both"} if number > 1 else {}))
    both = {"name": "both", **within(gang["outer"])}
    if gang["needed"] is not None:
        both["minSubGroup"] = gang["needed"]
    return kai_group(name, subGroups=[*named, both], minSubGroup=gang["needed"], priorityClassName=importance(gang))


def within(level: str | None) -> dict[str, Any]:
    return {} if level is None else {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": level}}


def importance(gang: dict[str, Any]) -> str:
    return "high" if gang["high"] else "low"


def build(world: dict[str, Any]) -> Cluster:
    names = [f"n{number}" for number in range(len(world["hosts"]))]
    cluster = scenario()
    for name, (zone, rack, size) in zip(names, world["hosts"], strict=True):
        labels = {key: value for key, value in zip(LEVELS, (zone, rack), strict=True) if value is not None}
        cluster.upsert_node(node(name, labels=labels, cpu=str(size)))
    for place, rack in enumerate(("h1", "h2")):
        cluster.upsert_hypernode(hypernode(rack, 1, *names[place::2]))
    cluster.upsert_hypernode(hypernode("top", 2, "h1", "h2"))
    plain = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": level} for level in LEVELS]}}
    cluster.upsert_topology(convert(plain, Topology))
    add(cluster, queue("default"), priority_class("low", 1), priority_class("high", 9))
    for number, gang in enumerate(world["gangs"]):
        name = f"g{number}"
        add(cluster, kai(name, gang) if gang["by_kai"] else volcano(name, gang))
        for place, (part, cpu) in enumerate(gang["pods"]):
            key = "kai.scheduler/subgroup-name" if gang["by_kai"] else "part"
            cluster.upsert_pod(member(f"{name}-{place}", name, cpu=cpu, labels={key: str(part)}))
    if world["leaving"] and world["hosts"][0][2]:
        cluster.upsert_pod(pod("goes", cpu=1, on=names[0], terminating=True))
    return cluster


def check(cluster: Cluster, job: Job) -> None:
    """Subgroups of a job that got all of its places by cycles."""
    placed = job.tasks_that(*HAVE_PLACES)
    assert not placed or not job.lacking()
    if job.subgroups is None:
        return
    inside: dict[Path, set[str]] = {}
    for task in placed:
        path = job.subgroup_of(task)
        for depth in range(1, len(path) + 1):
            inside.setdefault(path[:depth], set()).add(cluster.holders[task.key])
    around = cluster.topology.membership().nodes
    for path, nodes in inside.items():
        rule = job.subgroups.rule(path)
        if job.tree.children(path) is None:
            assert job.with_place(path) >= rule.size, f"{path} is started in part"
            started = job.started(path)
            assert started == 0 or started >= rule.size, f"of {path} some wait for others to leave"
        if rule.near is not None:
            values = {cluster.nodes[name].node.labels.get(rule.near.required) for name in nodes}
            assert len(values) == 1
            assert None not in values
        if rule.network is not None and rule.network.hard and rule.network.tier is not None:
            tiers = {name: cluster.hypernodes[name].spec.tier for name in around}
            assert any(nodes <= around[name] for name in around if tiers[name] <= rule.network.tier)


@settings(max_examples=examples(150))
@given(worlds)
def test_subgroups_have_places_whole_and_in_their_domains(world):
    cluster = build(world)
    for _ in range(2):
        done = cycle(cluster, NetworkTopologyAware(), actions=("allocate", "backfill"))
        for job in cluster.groups.jobs.values():
            check(cluster, job)
        cluster.look_ahead(True)
        assert (cluster.columns.free >= 0).all()
        cluster.look_ahead(False)
    keys = {key.partition("/")[2] for key in {*cluster.waiting, *cluster.reserved}}
    assert set(done.decisions) <= keys


@settings(max_examples=examples(80))
@given(worlds)
def test_subgroups_that_come_to_nothing_leave_everything_as_it_was(world):
    cluster = build(world)
    before = picture(cluster)
    done = cycle(cluster, NetworkTopologyAware(), Never(), actions=("allocate", "backfill"))
    assert done.placed == {}
    assert picture(cluster) == before


@settings(max_examples=examples(120))
@given(worlds)
def test_room_is_made_for_whole_subgroups_in_their_domains_and_victims_keep_theirs(world):
    """First the gangs of low priority start and run, then those of high priority come."""
    low = {**world, "gangs": [gang for gang in world["gangs"] if not gang["high"]], "leaving": False}
    cluster = build(low)
    cycle(cluster, NetworkTopologyAware())
    for key in list(cluster.reserved):
        cluster.confirm(key)
    for number, gang in enumerate([gang for gang in world["gangs"] if gang["high"]]):
        name = f"high{number}"
        add(cluster, kai(name, gang) if gang["by_kai"] else volcano(name, gang))
        for place, (part, cpu) in enumerate(gang["pods"]):
            key = "kai.scheduler/subgroup-name" if gang["by_kai"] else "part"
            cluster.upsert_pod(member(f"{name}-{place}", name, cpu=cpu, labels={key: str(part)}))
    plugins = (NetworkTopologyAware(), Gang(), Priority())
    done = cycle(cluster, *plugins, actions=("allocate", "preempt", "backfill"))
    for job in cluster.groups.jobs.values():
        if job.name.startswith("high"):
            check(cluster, job)
    assert all(eviction.for_.startswith("default/high") for eviction in done.session.evictions)

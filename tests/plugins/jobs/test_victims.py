"""Which pods gang, priority, drf and conformance let be stopped."""

import pytest

from tests.config.texts import KAI_DEFAULT, VOLCANO_BUILT_IN, VOLCANO_HELM, load
from tests.groups import add, group, member, members, priority_class, queue
from tests.plugins.eviction import Anything, Asking
from tests.plugins.queues.teams import small
from tests.scenario import node, plain, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.plugins.jobs.conformance import Conformance
from tonnage.plugins.jobs.gang import Gang
from tonnage.plugins.jobs.priority import Priority
from tonnage.plugins.queues.drf import Drf

VICTIMS = {"preemptable", "reclaimable"}


def named_gang() -> Gang:
    return Gang().with_options(is_named=True)


# -- gang


def test_only_pods_above_the_minimum_may_be_stopped_counted_in_order():
    cluster = scenario(plain("n", 8), *members("g", 4, 1, on="n"), *members("h", 2, 1, on="n"), pod("p", 1))
    asking = Asking(add(cluster, group("g", 2), group("h", 2)), Anything(), named_gang())
    victims = ("g-3", "h-1", "g-2", "g-1", "h-0")
    assert asking.preemptable("p", *victims) == asking.reclaimable("p", *victims) == ["g-3", "g-2"]


def test_of_each_role_the_minimum_stays():
    pods = [member(f"{role}-{n}", "g", 1, role=role, on="n") for role in ("master", "worker") for n in range(2)]
    cluster = add(scenario(plain("n", 4), *pods, pod("p", 1)), group("g", 2, minTaskMember={"master": 2}))
    assert Asking(cluster, Anything(), named_gang()).reclaimable("p", "master-0", "worker-0", "worker-1") == [
        "worker-0",
        "worker-1",
    ]


def test_a_pod_that_is_a_job_of_its_own_is_no_gang():
    asking = Asking(scenario(plain("n", 2), pod("runs", 1, on="n"), pod("p", 1)), Anything(), named_gang())
    assert asking.reclaimable("p", "runs") == ["runs"]


def gang_points(text: str) -> set[str]:
    """Where gang registers something in a session with the configuration."""
    with Session(Cluster(default_vendors()), load(text).plugins) as session:
        return {point for plugin, point in session.registered if plugin == "gang"}


def test_gang_speaks_of_victims_only_if_the_configuration_names_it():
    assert gang_points(VOLCANO_BUILT_IN) >= VICTIMS
    assert gang_points(VOLCANO_HELM) & VICTIMS == {"reclaimable"}
    assert gang_points(KAI_DEFAULT) & VICTIMS == set()
    assert gang_points(KAI_DEFAULT) >= {"job ready", "job valid"}


def test_those_who_protect_have_their_say_whatever_their_tier():
    """In Volcano's files gang and conformance stand before the plugin that knows what queues have to give back."""
    cluster = scenario(plain("n", 4), *members("g", 4, 1, on="n"), member("p", "mine", 1))
    add(cluster, queue("q1"), queue("q2"), group("g", 3, queue="q1"), group("mine", queue="q2"))
    asking = Asking(cluster, *load(VOLCANO_BUILT_IN).plugins)
    assert asking.reclaimable("p", "g-0") == ["g-0"]
    cluster.groups.upsert(group("g", 4, queue="q1"))
    assert Asking(cluster, *load(VOLCANO_BUILT_IN).plugins).reclaimable("p", "g-0") == []
    cluster.groups.upsert(group("g", 1, queue="q1"))
    assert Asking(cluster, *load(VOLCANO_BUILT_IN).plugins).reclaimable("p", "g-0", "g-1") == ["g-0"]


# -- priority


def test_only_jobs_of_lower_priority_make_room():
    cluster = scenario(plain("n", 4), *[pod(f"r{value}", 1, on="n", priority=value) for value in (5, 10, 15)])
    cluster.upsert_pod(pod("p", 1, priority=10))
    assert Asking(cluster, Priority()).preemptable("p", "r5", "r10", "r15") == ["r5"]


def test_the_priority_class_of_a_group_counts_more_than_that_of_its_pods():
    cluster = scenario(plain("n", 4), member("a", "low", 1, on="n", priority=50), member("p", "high", 1, priority=1))
    add(cluster, priority_class("low", 10), priority_class("high", 20))
    add(cluster, group("low", priorityClassName="low"), group("high", priorityClassName="high"))
    assert Asking(cluster, Priority()).preemptable("p", "a") == ["a"]


def test_within_a_job_pods_make_room_for_its_more_important_ones():
    pods = [member(f"r{value}", "g", 1, on="n", priority=value) for value in (1, 5, 9)]
    waiting = [member(f"p{value}", "g", 1, priority=value) for value in (2, 5)]
    asking = Asking(add(scenario(plain("n", 3), *pods, *waiting), group("g")), Priority())
    assert asking.preemptable("p2", "r1", "r5", "r9") == ["r1"]


def test_priority_has_no_say_between_queues():
    cluster = scenario(plain("n", 1), pod("r", 1, on="n", priority=1), pod("p", 1, priority=9))
    assert Asking(cluster, Priority(), Anything()).reclaimable("p", "r") == ["r"]


# -- drf


def test_a_job_takes_pods_of_those_that_have_no_smaller_share_even_then():
    """10 CPUs: with its pod the job has 0.3; the others keep 0.4 and 0.3, then 0.2."""
    cluster = scenario(node("n", cpu="10"), *[small(f"a-{n}", "a", cpu=1, on="n") for n in range(5)])
    for one in (small("b-0", "b", cpu=3, on="n"), small("runs", "mine", cpu=1, on="n"), small("p", "mine", cpu=2)):
        cluster.upsert_pod(one)
    asking = Asking(add(cluster, group("a"), group("b"), group("mine")), Drf())
    assert asking.preemptable("p", "a-0", "b-0", "a-1", "a-2") == ["a-0", "a-1"]


@pytest.mark.parametrize(("wish", "may"), [("4000000m", True), ("4000005m", True), ("4000020m", False)])
def test_shares_that_differ_by_less_than_a_millionth_are_equal(wish, may):
    cluster = scenario(
        node("n", cpu="10000000m"), small("a-0", "a", cpu=4000, on="n"), small("a-1", "a", cpu=1, on="n")
    )
    cluster.upsert_pod(member("p", "mine", cpu=wish))
    asking = Asking(add(cluster, group("a"), group("mine")), Drf())
    assert asking.preemptable("p", "a-1") == (["a-1"] if may else [])


# -- conformance


@pytest.mark.parametrize(
    ("namespace", "priority", "named", "may"),
    [
        ("default", 0, None, True),
        ("kube-system", 0, None, False),
        ("default", 2_000_000_000, None, False),
        ("default", 1_999_999_999, None, True),
        ("default", 0, "system-node-critical", False),
        ("default", 0, "system-cluster-critical", False),
        ("default", 0, "high", True),
    ],
)
def test_what_the_cluster_needs_is_never_stopped(namespace, priority, named, may):
    from msgspec.structs import replace

    runs = pod("r", 1, on="n", namespace=namespace, priority=priority)
    runs = replace(runs, spec=replace(runs.spec, priorityClassName=named))
    asking = Asking(scenario(plain("n", 1), runs, pod("p", 1)), Anything(), Conformance())
    expected = ["r"] if may else []
    assert asking.reclaimable("p", f"{namespace}/r") == asking.preemptable("p", f"{namespace}/r") == expected

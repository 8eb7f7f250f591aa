"""Drf: jobs that hold less of the cluster go first."""

from tests.groups import add, cycle, group, member
from tests.scenario import node, plain, pod, scenario
from tonnage.plugins.queues.drf import Drf


def test_the_job_that_holds_less_of_any_resource_goes_first():
    cluster = scenario(plain("n", 4, cpu="10"), member("a-0", "a", 2, on="n"), member("b-0", "b", cpu=3, on="n"))
    add(cluster, group("a", created="1"), group("b", created="2"))
    for one in (member("a-1", "a", 1), member("b-1", "b", 1)):
        cluster.upsert_pod(one)
    assert cycle(cluster, Drf()).order == ["b-1", "a-1"]


def test_jobs_take_turns_as_what_they_hold_grows():
    pods = [member(f"{of}-{n}", of, cpu=1) for of in ("a", "b") for n in range(3)]
    cluster = add(scenario(node("n", cpu="6"), *pods), group("a", created="1"), group("b", created="2"))
    assert cycle(cluster, Drf()).order == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


def test_without_it_the_older_job_grows_first():
    pods = [member(f"{of}-{n}", of, cpu=1) for of in ("a", "b") for n in range(3)]
    cluster = add(scenario(node("n", cpu="6"), *pods), group("a", created="1"), group("b", created="2"))
    assert cycle(cluster).order == ["a-0", "b-0", "a-1", "a-2", "b-1", "b-2"]


def test_pods_that_are_leaving_hold_nothing_and_plain_pods_are_alike():
    cluster = scenario(
        node("n", cpu="6"), member("a-0", "a", cpu=3, on="n", terminating=True), member("b-0", "b", cpu=1, on="n")
    )
    add(cluster, group("a", created="2"), group("b", created="1"))
    for one in (
        member("a-1", "a", cpu=1),
        member("b-1", "b", cpu=1),
        pod("x", cpu=1, created="4"),
        pod("y", cpu=1, created="3"),
    ):
        cluster.upsert_pod(one)
    order = cycle(cluster, Drf()).order
    assert order.index("a-1") < order.index("b-1")
    assert order.index("y") < order.index("x")

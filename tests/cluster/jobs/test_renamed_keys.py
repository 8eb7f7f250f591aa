"""Annotation keys of before the first release: they have no effect, and a problem names the new key."""

from tests.groups import add, group
from tests.scenario import node, pod, scenario


def told(cluster):
    return [(problem.object, problem.field, problem.expected) for problem in cluster.problems()]


def test_a_pod_with_an_old_key_is_a_job_of_its_own_and_the_new_key_is_named():
    cluster = scenario(node("a", gpus=1), pod("p", 1, annotations={"tonnage/min-members": "2"}))
    assert cluster.groups.job_of(cluster.waiting["default/p"]).group is None
    assert told(cluster) == [
        ("Pod/default/p", "metadata.annotations[tonnage/min-members]", "tonnage.io/min-members"),
    ]


def test_the_problem_goes_with_the_key_and_with_the_pod():
    cluster = scenario(node("a", gpus=1), pod("p", 1, annotations={"tonnage/queue": "q"}))
    assert told(cluster)
    cluster.upsert_pod(pod("p", 1, annotations={"tonnage.io/queue": "default"}))
    assert told(cluster) == []
    cluster.upsert_pod(pod("p", 1, annotations={"tonnage/queue": "q"}))
    cluster.remove_pod("default/p")
    assert told(cluster) == []


def test_a_running_pod_and_a_podgroup_are_told_too():
    cluster = scenario(node("a", gpus=1), pod("p", on="a", annotations={"tonnage/topology-required": "rack"}))
    add(cluster, group("g", 1, annotations={"tonnage/max-members": "3"}))
    assert [name for name, _, _ in told(cluster)][-2:] == ["Pod/default/p", "PodGroup/default/g"]


def test_a_pod_that_leaves_its_job_for_an_old_key_is_told_of():
    cluster = scenario(node("a", gpus=1), pod("p", 1, annotations={"tonnage.io/min-members": "1"}))
    cluster.upsert_pod(pod("p", 1, annotations={"tonnage/min-members": "1"}))
    assert [name for name, _, _ in told(cluster)] == ["Pod/default/p"]

"""Who goes first: jobs that lack pods, and pods that lead."""

from itertools import pairwise

import pytest

from tests.groups import add, group, member, members
from tests.scenario import node, pod, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.catalog import plugin_class


def opened(cluster, name):
    kind = plugin_class(name)
    assert kind is not None
    return Session(cluster, [kind()])


def usage(name, minimum, placed):
    """A cluster with a group, so many pods of which run."""
    cluster = scenario(node("a"), *members(name, 6))
    for number in range(placed):
        cluster.upsert_pod(member(f"{name}-{number}", name, on="a"))
    add(cluster, group(name, minimum))
    return cluster, cluster.groups.jobs[f"default/{name}"]


@pytest.mark.parametrize(
    ("name", "orders"),
    [("elastic", [(1, -1), (2, 0), (3, 1), (5, 1)]), ("gang", [(1, 0), (2, 1), (3, 1), (5, 1)])],
)
def test_jobs_that_lack_pods_go_first(name, orders):
    """Compared with jobs of the same minimum: one exactly at it for elastic, one below it for gang."""
    cluster, other = usage("other", 2, 2 if name == "elastic" else 1)
    with opened(cluster, name) as session:
        for placed, expected in orders:
            _, job = usage("job", 2, placed)
            order = session.jobs.compare(job, other)
            back = session.jobs.compare(other, job)
            if expected:
                assert (order > 0) - (order < 0) == expected
                assert (back > 0) - (back < 0) == -expected


def test_plain_pods_are_alike_to_both():
    cluster = scenario(pod("a", 1), pod("b", 1))
    one, other = (cluster.groups.job_of(task) for task in cluster.waiting.values())
    for name in ("elastic", "gang"):
        with opened(cluster, name) as session:
            assert session.jobs.compare(one, other) == -1


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("taskorder", [None, "-5", "7", "many", "30", ""], [4, 2, 1, 0, 3, 5]),
        ("kubeflow", [None, "worker", "master", "launcher"], [2, 3, 0, 1]),
        ("ray", ["worker", None, "head"], [2, 0, 1]),
    ],
)
def test_pods_in_the_order_of_their_labels(name, labels, expected):
    key = {
        "taskorder": "kai.scheduler/task-priority",
        "kubeflow": "training.kubeflow.org/job-role",
        "ray": "ray.io/node-type",
    }[name]
    pods = [pod(f"p-{i}", 1, labels={key: label} if label is not None else None) for i, label in enumerate(labels)]
    with opened(scenario(), name) as session:
        found = session.jobs.ordered_tasks([make_task(one, []) for one in reversed(pods)])
    assert [task.name for task in found] == [f"p-{i}" for i in expected]


def test_all_pods_in_one_order_whichever_way_they_are_compared():
    pods = [
        pod("big", 2, created="2026-02"),
        pod("old", 1, created="2026-01"),
        pod("w-2", 1, created="2026-02"),
        pod("w-10", 1, created="2026-02"),
        pod("cpu", created="2026-01", cpu=4),
        pod("none"),
    ]
    with Session(scenario(), []) as session:
        tasks = [make_task(one, session.cluster.vendors) for one in pods]
        assert [task.name for task in session.jobs.ordered_tasks(reversed(tasks))] == [task.name for task in tasks]
        assert all(session.jobs.compare_tasks(one, other) < 0 for one, other in pairwise(tasks))

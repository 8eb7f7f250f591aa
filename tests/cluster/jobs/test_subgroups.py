"""Subgroups of groups: which pods are in which, and when they are complete."""

import pytest

from tests.groups import add, group, kai_group, member
from tests.scenario import node, scenario
from tonnage.cluster.jobs.group import read_group
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.subgroups import MOST_DEPTH
from tonnage.cluster.jobs.surplus import Surplus

WORKERS = {
    "name": "worker",
    "subGroupSize": 2,
    "minSubGroups": 2,
    "labelSelector": {"matchLabels": {"task": "worker"}},
    "matchLabelKeys": ["part"],
}


def job_of(thing, **pods: dict[str, str]) -> Job:
    """The job of waiting pods with these labels."""
    cluster = add(scenario(node("a"), *(member(name, "g", labels=labels) for name, labels in pods.items())), thing)
    return cluster.groups.jobs["default/g"]


def subgroups(job: Job) -> dict[str, tuple[str, ...]]:
    return {task.name: job.subgroup_of(task) for task in job.tasks.values()}


def test_a_policy_divides_pods_by_the_values_of_labels():
    worker = {"task": "worker", "part": "0"}
    job = job_of(
        group("g", 1, subGroupPolicy=[WORKERS]),
        a=worker,
        b=worker,
        c={**worker, "part": "1"},
        other={"task": "driver", "part": "0"},
        unnamed={"task": "worker"},
        empty={"task": "worker", "part": ""},
    )
    assert subgroups(job) == {
        "a": ("worker", "0"),
        "b": ("worker", "0"),
        "c": ("worker", "1"),
        "other": (),
        "unnamed": (),
        "empty": (),
    }


def test_the_first_policy_that_selects_a_pod_counts_and_several_labels_make_one_name():
    both = [{**WORKERS, "matchLabelKeys": ["part", "row"]}, {"name": "rest", "matchLabelKeys": ["part"]}]
    job = job_of(
        group("g", 1, subGroupPolicy=both),
        a={"task": "worker", "part": "0", "row": "x"},
        b={"task": "worker", "part": "0"},
    )
    assert subgroups(job) == {"a": ("worker", "0-x"), "b": ("rest", "0")}


def test_a_policy_that_cannot_select_pods_is_a_problem():
    wrong = [
        {"name": "no-keys"},
        {
            "name": "bad",
            "matchLabelKeys": ["x"],
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "!"}]},
        },
    ]
    cluster = add(scenario(), group("g", 1, subGroupPolicy=wrong))
    told = [(problem.field, problem.message) for problem in cluster.groups.problems()]
    assert told == [
        ("spec.subGroupPolicy[0].matchLabelKeys", "names no label, so that no pod is in a subgroup"),
        (
            "spec.subGroupPolicy[1].labelSelector",
            "operator '!' of a is none of In, NotIn, Exists, DoesNotExist; the policy selects no pod",
        ),
    ]


def test_a_policy_lacks_complete_subgroups():
    job = job_of(
        group("g", 1, subGroupPolicy=[WORKERS]),
        **{f"p{number}": {"task": "worker", "part": str(number // 2)} for number in range(6)},
    )
    assert job.lacking() == {None: 1, ("worker",): 2}
    with job.supposing([task for task in job.tasks.values() if task.name in ("p0", "p2", "p4")]):
        assert job.lacking() == {("worker",): 2}
        assert job.tree.missing(job.with_place) == 2
    with job.supposing([task for task in job.tasks.values() if task.name in ("p0", "p1", "p4", "p5")]):
        assert not job.lacking()
        assert job.lacking(without=["default/p5"]) == {("worker",): 1}


TREE = [
    {"name": "left", "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}},
    {"name": "l1", "parent": "left", "minMember": 2},
    {"name": "l2", "parent": "left"},
    {"name": "right", "minMember": 3},
]


def test_subgroups_of_kai_nest_and_all_must_be_complete():
    made = read_group(kai_group("g", subGroups=TREE))
    assert (made.minimum, made.roles, made.fault) == (6, {"l1": 2, "l2": 1, "right": 3}, "")
    job = job_of(
        kai_group("g", subGroups=TREE),
        a={"kai.scheduler/subgroup-name": "l1"},
        b={"kai.scheduler/subgroup-name": "left"},
        c={"kai.scheduler/subgroup-name": "no-such"},
    )
    assert subgroups(job) == {"a": ("left", "l1"), "b": (), "c": ()}
    assert job.lacking()[("left", "l1")] == 2


def test_with_a_minimum_of_subgroups_the_smallest_decide_the_minimum_of_pods():
    made = read_group(kai_group("g", subGroups=TREE, minSubGroup=1))
    assert (made.minimum, made.roles, made.fault) == (3, {}, "")
    chosen = [{**TREE[0], "minSubGroup": 1}, *TREE[1:]]
    assert read_group(kai_group("g", subGroups=chosen)).minimum == 4


def test_without_constraints_and_choices_roles_are_enough():
    made = read_group(kai_group("g", subGroups=[{"name": "a", "minMember": 2}, {"name": "b"}]))
    assert (made.subgroups, made.roles) == (None, {"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("parts", "needed", "fault"),
    [
        ([{"name": "a"}, {"name": "a"}], None, "two subgroups are called 'a'"),
        ([{"name": "a", "parent": "b"}], None, "the parent 'b' of subgroup 'a' is no subgroup"),
        ([{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], None, "is inside of itself"),
        ([{"name": "a", "minSubGroup": 1}], None, "subgroup 'a' has no subgroups, but minSubGroup"),
        ([{"name": "a"}], 2, "minSubGroup is 2, and the group has 1 subgroups"),
        (
            [{"name": str(n), "parent": str(n - 1) if n else None} for n in range(5000)],
            None,
            f"more than {MOST_DEPTH} deep",
        ),
    ],
)
def test_what_contradicts_itself_is_a_fault(parts, needed, fault):
    assert fault in read_group(kai_group("g", subGroups=parts, minSubGroup=needed)).fault


def test_a_job_can_spare_pods_of_subgroups_beyond_those_that_it_needs():
    cluster = add(
        scenario(
            node("a", cpu="9"),
            *(
                member(f"p{number}", "g", cpu=1, on="a", labels={"task": "worker", "part": str(number // 2)})
                for number in range(6)
            ),
        ),
        group("g", 1, subGroupPolicy=[WORKERS]),
    )
    job, surplus = cluster.groups.jobs["default/g"], Surplus()
    spare = [task.name for task in job.tasks.values() if surplus.take(job, task)]
    assert spare == ["p0", "p1"]

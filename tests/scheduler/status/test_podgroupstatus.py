"""What the status of a PodGroup should say, in the words of each scheduler."""

from typing import Any

import msgspec
import pytest

from tests.groups import add, group, kai_group, member, members
from tests.scenario import node, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.group import CoschedulingPodGroup, PodGroup
from tonnage.model.wire import convert
from tonnage.scheduler.status.podgroupstatus import Members, Status, Why, seen_status, status_of, volcano_phase

NOW = "2026-01-31T12:00:00Z"
WAITS = Why("JobNotReady", "default/g needs 2 of 2 pods placed, 1 fit", "cycle-7")
UNSCHEDULABLE = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "NotEnoughResources",
    "message": WAITS.message,
    "transitionID": "cycle-7",
    "lastTransitionTime": NOW,
}


def said(cluster: Cluster, thing: PodGroup, why: Why | None = None, failed: int = 0, cycle: str = "cycle-9") -> Status:
    add(cluster, thing)
    groups = cluster.groups
    return status_of(thing, groups.groups[thing.key].phase, groups.jobs.get(thing.key), failed, why, cycle, NOW)


def with_status(thing: PodGroup, **status: Any) -> PodGroup:
    return msgspec.structs.replace(thing, status=convert(status, type(thing.status)))


# -- Volcano


@pytest.mark.parametrize(
    ("phase", "pods", "lacks", "expected"),
    [
        ("Inqueue", Members(3, 3, 1, 0, 0), True, "Unknown"),
        ("Running", Members(2, 0, 0, 1, 1), False, "Completed"),
        ("Inqueue", Members(2, 2, 0, 0, 0), False, "Running"),
        ("Inqueue", Members(3, 1, 1, 1, 1), False, "Running"),
        ("Inqueue", Members(2, 1, 1, 0, 0), False, "Inqueue"),
        ("Running", Members(2, 1, 1, 0, 0), False, "Pending"),
        ("Running", Members(1, 1, 1, 0, 0), True, "Unknown"),
        ("Running", Members(2, 1, 0, 0, 0), False, "Pending"),
        ("Running", Members(1, 0, 0, 1, 0), False, "Pending"),
        ("", Members(0, 0, 0, 0, 0), False, "Pending"),
        ("Completed", Members(0, 0, 0, 0, 0), False, "Completed"),
    ],
)
def test_the_phase_is_volcanos(phase: str, pods: Members, lacks: bool, expected: str) -> None:
    assert volcano_phase(2, phase, pods, lacks) == expected


def test_a_gang_of_volcano_that_waits_says_why_with_numbers() -> None:
    cluster = scenario(node("a", cpu="1"), *members("g", 2, cpu=1))
    status = said(cluster, group("g", 2), WAITS)
    assert {name: value for name, value in status.items() if value is not None} == {
        "phase": "Inqueue",
        "conditions": [UNSCHEDULABLE],
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("NotEnoughPods", "NotEnoughTasks"),
        ("NotEnoughPodsOfRole", "NotEnoughPodsOfTask"),
        ("QueueNotFound", "NotEnoughResources"),
    ],
)
def test_the_reason_is_one_of_volcanos(ours: str, theirs: str) -> None:
    cluster = scenario(*members("g", 2, cpu=1))
    (condition,) = said(cluster, group("g", 2), Why(ours, "because", "c"))["conditions"]
    assert condition["reason"] == theirs


def test_the_same_reason_again_leaves_the_condition_as_it_is_and_another_one_does_not() -> None:
    cluster = scenario(*members("g", 2, cpu=1))
    thing = with_status(group("g", 2), phase="Inqueue", conditions=[UNSCHEDULABLE])
    status = said(cluster, thing, WAITS._replace(cycle="cycle-8"))
    assert status["conditions"] == [UNSCHEDULABLE]
    assert {name: value for name, value in status.items() if value != seen_status(thing)[name]} == {}
    (condition,) = said(cluster, thing, WAITS._replace(message="2 fit", cycle="cycle-8"))["conditions"]
    assert (condition["message"], condition["transitionID"]) == ("2 fit", "cycle-8")


def test_a_gang_that_has_its_pods_is_scheduled_and_no_longer_unschedulable() -> None:
    cluster = scenario(node("a", cpu="2"), *members("g", 2, cpu=1, on="a"))
    thing = with_status(group("g", 2), phase="Inqueue", conditions=[{"type": "Other"}, UNSCHEDULABLE])
    status = said(cluster, thing)
    scheduled = {
        "type": "Scheduled",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled",
        "transitionID": "cycle-9",
        "lastTransitionTime": NOW,
    }
    assert status["conditions"] == [{"type": "Other"}, scheduled], "what others say stays"
    assert (status["phase"], status["running"]) == ("Running", 2)


def test_a_gang_with_more_pods_than_it_needs_is_not_unschedulable() -> None:
    cluster = scenario(node("a", cpu="2"), *members("g", 1, cpu=1, on="a"), member("more", "g", cpu=9))
    status = said(cluster, group("g", 1), WAITS)
    assert (status["phase"], status["conditions"][0]["type"]) == ("Running", "Scheduled")


def test_nothing_is_said_of_a_gang_that_no_cycle_has_looked_at() -> None:
    status = said(scenario(*members("g", 2, cpu=1)), group("g", 2))
    assert "conditions" not in status


def test_a_status_that_makes_no_sense_does_no_harm() -> None:
    cluster = scenario(*members("g", 2, cpu=1))
    thing = with_status(group("g", 2), phase="Inqueue", conditions="none", running="many")
    assert said(cluster, thing, WAITS)["conditions"] == [UNSCHEDULABLE]


# -- KAI


def kai_condition(message: str, number: str, pool: str = "default") -> dict[str, Any]:
    return {
        "type": "UnschedulableOnNodePool",
        "nodePool": pool,
        "reason": "Unschedulable",
        "message": message,
        "reasons": [{"reason": "PodSchedulingErrors", "message": message}],
        "status": "True",
        "transitionID": number,
        "lastTransitionTime": NOW,
    }


def test_a_gang_of_kai_that_waits_has_one_condition_per_node_pool() -> None:
    cluster = scenario(*members("g", 2, cpu=1))
    thing = kai_group("g", 2)
    assert said(cluster, thing, WAITS) == {"schedulingConditions": [kai_condition(WAITS.message, "1")]}
    others = kai_condition("full", "4", "other")
    thing = with_status(thing, schedulingConditions=[kai_condition("older", "3"), others])
    found = said(cluster, thing, WAITS)
    assert found == {"schedulingConditions": [others, kai_condition(WAITS.message, "5")]}, "the latest is the last"
    thing = with_status(thing, **found)
    assert said(cluster, thing, WAITS._replace(cycle="another")) == found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("QueueNotFound", "QueueDoesNotExist"),
        ("QueueOverLimit", "OverLimit"),
        ("NonPreemptibleOverQuota", "NonPreemptibleOverQuota"),
        ("InsufficientCPU", "PodSchedulingErrors"),
    ],
)
def test_reasons_that_kai_has_a_word_for(ours: str, theirs: str) -> None:
    cluster = scenario(*members("g", 2, cpu=1))
    (condition,) = said(cluster, kai_group("g", 2), Why(ours, "because", "c"))["schedulingConditions"]
    assert condition["reasons"] == [{"reason": theirs, "message": "because"}]


def test_the_condition_of_kai_goes_when_all_pods_are_bound_and_stays_while_they_are_on_their_way() -> None:
    cluster = scenario(node("a", cpu="2"), *members("g", 2, cpu=1))
    ours, others = kai_condition("full", "1"), kai_condition("full", "2", "other")
    thing = with_status(kai_group("g", 2), schedulingConditions=[ours, others])
    add(cluster, thing)
    for task in list(cluster.waiting.values()):
        cluster.reserve(task, "a", ())
    assert said(cluster, thing) == {"schedulingConditions": [ours, others]}
    for bound in members("g", 2, cpu=1, on="a"):
        cluster.upsert_pod(bound)
    assert said(cluster, thing) == {"schedulingConditions": [others]}


def test_a_gang_of_kai_of_which_some_pods_run_is_not_spoken_of() -> None:
    cluster = scenario(node("a", cpu="1"), *members("g", 1, cpu=1, on="a"), member("more", "g", cpu=1))
    assert said(cluster, kai_group("g", 1), WAITS) == {}


# -- coscheduling


def coscheduling(minimum: int, **status: Any) -> CoschedulingPodGroup:
    metadata = {"name": "g", "namespace": "default"}
    given = {"metadata": metadata, "spec": {"minMember": minimum}, "status": status}
    return convert(given, CoschedulingPodGroup)


@pytest.mark.parametrize(
    ("waiting", "bound", "running", "expected"),
    [
        (1, 0, 0, {"phase": "Pending"}),
        (2, 0, 0, {"phase": "Scheduling"}),
        (1, 1, 0, {"phase": "Scheduling", "scheduled": 1}),
        (0, 2, 0, {"phase": "Scheduled", "scheduled": 2}),
        (0, 0, 2, {"phase": "Running", "scheduled": 2, "running": 2}),
    ],
)
def test_a_gang_of_coscheduling_goes_through_its_phases(
    waiting: int, bound: int, running: int, expected: Status
) -> None:
    cluster = scenario(node("a", cpu="2"))
    kinds = [(None, "Pending")] * waiting + [("a", "Pending")] * bound + [("a", "Running")] * running
    for number, (on, phase) in enumerate(kinds):
        cluster.upsert_pod(member(f"p{number}", "g", cpu=1, on=on, phase=phase))
    status = said(cluster, coscheduling(2))
    assert {name: value for name, value in status.items() if value is not None} == expected


def test_that_a_gang_has_ended_is_its_controllers_to_say() -> None:
    assert said(scenario(), coscheduling(2, phase="Finished"))["phase"] == "Finished"

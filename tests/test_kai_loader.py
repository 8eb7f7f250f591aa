"""Every field that a case of KAI's may have reaches the cluster, and one without a meaning is an error."""

from typing import Any

import pytest

from tests.kai_cases import NOW, Case, UnknownFieldError, check_fields, cluster_of, groups_of, key_of, node_of, pod_of
from tests.kai_outcomes import figures
from tonnage.cluster.task import Task
from tonnage.model.timestamp import rfc3339


def job(name: str = "train", tasks: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    return {"Name": name, "QueueName": "team", "Priority": 50, "Tasks": tasks or [{"State": "Pending"}], **more}


def case(*jobs: dict[str, Any], **more: Any) -> Case:
    return {"nodes": {"a": {"GPUs": 2}}, "queues": [{"Name": "team", "DeservedGPUs": 1}], "jobs": list(jobs), **more}


def waiting(given: dict[str, Any]) -> Task:
    return cluster_of(case(given)).waiting[key_of(given, 0)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (case(job(), more=1), "case: more"),
        (case(job(Colour="red")), "job: Colour"),
        (case(job(tasks=[{"State": "Pending", "Colour": "red", "Age": 1}])), "task: Age, Colour"),
        (case(job(), nodes={"a": {"Racks": 1}}), "node: Racks"),
        (case(job(), queues=[{"Name": "q", "Weight": 1}]), "queue: Weight"),
        (case(job(), parents=[{"Name": "q", "Weight": 1}]), "queue: Weight"),
        (case(job(), expect_jobs={"train": {"Mood": "good"}}), "expectation: Mood"),
        (case(job(), expect_nodes={"a": {"BusyGPUs": 1}}), "expected node: BusyGPUs"),
    ],
)
def test_a_field_without_a_meaning_is_an_error(given, told):
    with pytest.raises(UnknownFieldError, match=told):
        check_fields(given)


def test_cpus_are_whole_ones_and_pods_ask_for_one_by_default():
    asked = figures(case(job("plain"), job("large", RequiredCPUsPerTask=4, RequiredMemoryPerTask=500)))
    assert asked["plain"] == {"GPUsRequired": 0, "MilliCpuRequired": 1000, "MemoryRequired": 1_000_000_000}
    assert asked["large"] == {"GPUsRequired": 0, "MilliCpuRequired": 4000, "MemoryRequired": 500}
    offered = node_of("a", {"CPUMillis": 5}).status.allocatable
    assert offered is not None
    assert (offered["cpu"], offered["pods"]) == (5, 110)


def test_a_best_effort_job_asks_for_nothing():
    assert figures(case(job(IsBestEffortJob=True, RequiredGPUsPerTask=0)))["train"].keys()
    assert dict(waiting(job(IsBestEffortJob=True)).requests).keys() <= {"pods"}


def test_labels_of_nodes_and_the_strategy_of_mig():
    made = node_of("a", {"GPUs": 2, "MigStrategy": "node_info.MigStrategyMixed", "Labels": {"zone": "east"}})
    labels, offered = made.metadata.labels or {}, made.status.allocatable or {}
    assert labels["zone"] == "east"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["node-role.kubernetes.io/mig-enabled"] == "true"
    assert offered["nvidia.com/gpu"] == 0


def test_the_priority_of_a_task_is_a_label_of_its_pod():
    made = pod_of(job(tasks=[{"State": "Pending", "Priority": 2}]), 0)
    assert (made.metadata.labels or {})["kai.scheduler/task-priority"] == "2"


def test_a_pod_is_near_or_apart_from_pods_of_its_own_labels():
    keys = {"PodAffinityTopologyKey": "zone", "PodAntiAffinityTopologyKey": "rack"}
    made = pod_of(job(tasks=[{"State": "Pending", "PodAffinityLabels": {"app": "db"}, **keys}]), 0)
    assert made.metadata.labels == {"app": "db"}
    affinity = made.spec.affinity
    assert affinity is not None
    for side, key in ((affinity.podAffinity, "zone"), (affinity.podAntiAffinity, "rack")):
        assert side is not None
        (term,) = side.requiredDuringSchedulingIgnoredDuringExecution or []
        assert (term.topologyKey, term.labelSelector and term.labelSelector.matchLabels) == (key, {"app": "db"})


def test_jobs_are_a_minute_apart_unless_they_have_an_age():
    groups = groups_of(case(job("low"), job("high", Priority=100), job("old", JobAgeInMinutes=30)))
    created = {group.metadata.name: group.metadata.creationTimestamp for group in groups}
    assert created == {"high": rfc3339(NOW - 180), "low": rfc3339(NOW - 120), "old": rfc3339(NOW - 1800)}


@pytest.mark.parametrize("zero", [0, "0", "0*time.Second"])
def test_a_duration_may_be_a_plain_zero(zero):
    (group,) = groups_of(case(job(StaleDuration=zero, PerJobStalenessGracePeriod={"Duration": zero})))
    assert group.metadata.annotations == {"kai.scheduler/stale-podgroup-timestamp": rfc3339(NOW)}
    assert group.spec.stalenessGracePeriod == "0s"


def test_a_running_part_without_a_group_has_a_card_of_its_own():
    running = {"State": "Running", "NodeName": "a"}
    cluster = cluster_of(case(*[job(name, [running], RequiredGPUsPerTask=0.25) for name in "xy"]))
    cards = [{card.uuid for use in cluster.nodes["a"].uses(f"default/{name}-0") for card in use.cards} for name in "xy"]
    assert cards[0].isdisjoint(cards[1])
    assert all(len(one) == 1 for one in cards)


def test_where_a_waiting_pod_is_said_to_be_means_nothing():
    assert pod_of(job(tasks=[{"State": "Pending", "NodeName": "a"}]), 0).spec.nodeName is None

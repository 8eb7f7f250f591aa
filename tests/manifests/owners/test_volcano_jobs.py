"""Volcano Jobs: their pods and the PodGroup that makes a gang of them."""

from tests.manifests.owners.making import expanded, made, manifest, names, owned, template
from tonnage.cluster.jobs.group import read_group
from tonnage.model.group import VolcanoPodGroup


def job(phase: str = "", metadata: dict[str, object] | None = None, **spec: object) -> dict[str, object]:
    tasks = [
        {"name": "ps", "replicas": 1, "template": template()},
        {"name": "worker", "replicas": 3, "minAvailable": 2, "template": template(priorityClassName="low")},
    ]
    said = {"tasks": tasks, "queue": "research", "schedulerName": "volcano", "priorityClassName": "high", **spec}
    one = manifest("batch.volcano.sh/v1alpha1", "Job", "train", said, **(metadata or {}))
    return {**one, "status": {"state": {"phase": phase}}} if phase else one


def test_pods_are_named_after_job_task_and_index():
    pods = made(job())
    assert names(pods) == ["train-ps-0", "train-worker-0", "train-worker-1", "train-worker-2"]
    assert pods[1].annotations["scheduling.k8s.io/group-name"] == "train"
    assert pods[1].annotations["volcano.sh/task-spec"] == "worker"
    assert pods[1].labels["volcano.sh/job-name"] == "train"
    assert [pod.spec.priorityClassName for pod in pods[:2]] == ["high", "low"]
    assert pods[0].spec.schedulerName == "volcano"


def test_the_pod_group_says_how_many_start_together():
    (group,) = expanded(job(minAvailable=3, metadata={"uid": "4711"})).groups
    assert isinstance(group, VolcanoPodGroup)
    assert group.metadata.name == "train-4711"
    assert group.spec.minMember == 3
    assert group.spec.minTaskMember == {"ps": 1, "worker": 2}
    assert (group.spec.queue, group.spec.priorityClassName) == ("research", "high")
    assert group.spec.minResources == {"cpu": "6000m", "memory": 3 * 2**30}


def test_without_a_minimum_the_tasks_say_it():
    (group,) = expanded(job()).groups
    assert group.spec.minMember == 3


def test_the_pod_group_and_pods_of_the_input_are_used():
    group = manifest(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        "train-1",
        {"minMember": 2},
        ownerReferences=[{"kind": "Job", "name": "train", "controller": True}],
    )
    manifests = expanded(job(), group, owned("train-worker-0", "Job", "train", "Succeeded"))
    assert [one.metadata.name for one in manifests.groups] == ["train-1"]
    pods = made(job(), group, owned("train-worker-0", "Job", "train", "Succeeded"))
    assert names(pods) == ["train-ps-0", "train-worker-1", "train-worker-2"]
    assert pods[0].annotations["scheduling.k8s.io/group-name"] == "train-1"


def test_finished_and_aborted_jobs_make_none():
    for phase in ("Completed", "Failed", "Aborted", "Terminated"):
        assert made(job(phase)) == []
        assert expanded(job(phase)).groups == []


def test_parts_of_a_task_become_subgroups_of_the_pod_group():
    network = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": network}
    tasks = [{"name": "worker", "replicas": 4, "template": template(), "partitionPolicy": policy}]
    (group,) = expanded(job(tasks=tasks)).groups
    (made_policy,) = group.spec.subGroupPolicy
    assert (group.spec.minMember, made_policy.name, made_policy.subGroupSize) == (2, "worker", 2)
    assert (made_policy.minSubGroups, made_policy.networkTopology.highestTierAllowed) == (1, 1)
    said = read_group(group).subgroups
    parts = [said.path_of(pod) for pod in made(job(tasks=tasks))]
    assert parts == [("worker", "0"), ("worker", "0"), ("worker", "1"), ("worker", "1")]

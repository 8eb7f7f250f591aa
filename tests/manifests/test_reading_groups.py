"""PodGroups, Queues and priority classes as people write them, and what is wrong with some."""

import pytest

from tests.manifests.texts import read
from tonnage.model.group import (
    CoschedulingPodGroup,
    KaiPodGroup,
    KaiQueue,
    PriorityClass,
    VolcanoPodGroup,
    VolcanoQueue,
)

VOLCANO_GROUP = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: team}
spec:
  minMember: 4
  minTaskMember: {master: 1, worker: 3}
  queue: team
  priorityClassName: high
  minResources: {cpu: "8", nvidia.com/gpu: 4}
status: {phase: Pending}
"""
VOLCANO_QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec:
  weight: 2
  capability: {cpu: "8"}
  deserved: {cpu: "4"}
  guarantee: {resource: {cpu: "2"}}
status: {state: Open}
"""
KAI_GROUP = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: train, namespace: team}
spec: {minMember: 4, queue: team, preemptibility: non-preemptible}
"""
KAI_QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  parentQueue: all
  resources: {gpu: {quota: 4, overQuotaWeight: 1, limit: -1}}
  preemptMinRuntime: 4h
"""
PRIORITY = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
COSCHEDULING = """\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: team}
spec: {minMember: 4, scheduleTimeoutSeconds: 10}
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (VOLCANO_GROUP, VolcanoPodGroup),
        (VOLCANO_QUEUE, VolcanoQueue),
        (KAI_GROUP, KaiPodGroup),
        (KAI_QUEUE, KaiQueue),
        (PRIORITY, PriorityClass),
        (COSCHEDULING, CoschedulingPodGroup),
    ],
)
def test_objects_as_people_write_them(text, kind):
    manifests = read(text)
    assert [type(thing) for thing in manifests.groups] == [kind]
    assert (manifests.problems, manifests.skipped) == ([], {})


@pytest.mark.parametrize(
    ("text", "right", "wrong", "field", "line"),
    [
        (VOLCANO_GROUP, "minMember: 4", "minMember: -1", "spec.minMember", 5),
        (VOLCANO_GROUP, "minMember: 4", "minMember: four", "spec.minMember", 5),
        (VOLCANO_GROUP, "minMember: 4", "minMember: 99999999999", "spec.minMember", 5),
        (VOLCANO_GROUP, "worker: 3", "worker: -3", "spec.minTaskMember[...]", 6),
        (VOLCANO_GROUP, 'cpu: "8"', "cpu: lots", "spec.minResources[cpu]", 9),
        (VOLCANO_QUEUE, "weight: 2", "weight: -2", "spec.weight", 5),
        (VOLCANO_QUEUE, "weight: 2", "weight: 70000", "spec.weight", 5),
        (VOLCANO_QUEUE, 'capability: {cpu: "8"}', "capability: {cpu: -8}", "spec.capability[cpu]", 6),
        (VOLCANO_QUEUE, 'guarantee: {resource: {cpu: "2"}}', "guarantee: {resource: {cpu: x}}", None, 8),
        (KAI_GROUP, "minMember: 4", "minMember: -4", "spec.minMember", 4),
        (KAI_GROUP, "preemptibility: non-preemptible", "preemptibility: perhaps", "spec.preemptibility", 4),
        (KAI_GROUP, "queue: team", "preemptionDelay: soon", "spec.preemptionDelay", 4),
        (KAI_GROUP, "queue: team", "preemptionDelay: -5m", "spec.preemptionDelay", 4),
        (KAI_GROUP, "queue: team", "stalenessGracePeriod: 5", "spec.stalenessGracePeriod", 4),
        (KAI_GROUP, "queue: team", "stalenessGracePeriod: 5 minutes", "spec.stalenessGracePeriod", 4),
        (KAI_QUEUE, "quota: 4", "quota: -3", "spec.resources.gpu.quota", 6),
        (KAI_QUEUE, "overQuotaWeight: 1", "overQuotaWeight: -1", "spec.resources.gpu.overQuotaWeight", 6),
        (KAI_QUEUE, "quota: 4", "quota: 1e30", "spec.resources.gpu.quota", 6),
        (KAI_QUEUE, "preemptMinRuntime: 4h", "preemptMinRuntime: soon", "spec.preemptMinRuntime", 7),
        (KAI_QUEUE, "preemptMinRuntime: 4h", "reclaimMinRuntime: ''", "spec.reclaimMinRuntime", 7),
        (PRIORITY, "value: 1000", "value: 99999999999", "value", 4),
        (PRIORITY, "value: 1000", "description: none", None, 1),
    ],
)
def test_nonsense_is_a_problem_with_its_line_and_the_object_is_left_out(text, right, wrong, field, line):
    assert right in text
    other = PRIORITY.replace("high", "other")
    manifests = read(f"{text.replace(right, wrong)}---\n{other}")
    assert [thing.metadata.name for thing in manifests.groups] == ["other"]
    (problem,) = manifests.problems
    if field is not None:
        assert problem.field == field
        assert problem.position == f"FILE line {line}"


def test_two_queues_of_one_name_even_of_both_kinds_are_said_and_the_later_counts():
    manifests = read(f"{VOLCANO_QUEUE}---\n{KAI_QUEUE}")
    assert [type(thing) for thing in manifests.groups] == [KaiQueue]
    assert [problem.object for problem in manifests.problems] == ["Queue/team"]


def test_groups_of_one_name_in_two_namespaces_are_two():
    manifests = read(f"{VOLCANO_GROUP}---\n{VOLCANO_GROUP.replace('team}', 'other}')}")
    assert [thing.key for thing in manifests.groups] == ["team/train", "other/train"]
    assert manifests.problems == []


def test_a_problem_of_a_group_names_its_namespace():
    text = VOLCANO_GROUP.replace("minMember: 4", "minMember: -1")
    assert [problem.object for problem in read(text).problems] == ["PodGroup/team/train"]
    text = text.replace(", namespace: team", "")
    assert [problem.object for problem in read(text).problems] == ["PodGroup/default/train"]

"""Preemptibility of jobs."""

import pytest

from tests.scenario import pod
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.model.pod import Pod
from tonnage.model.wire import convert

VENDORS = default_vendors()


def job(labels=None, annotations=None, **spec):
    metadata = {"name": "p", "namespace": "team", "labels": labels or {}, "annotations": annotations or {}}
    task = make_task(convert({"metadata": metadata, "spec": spec}, Pod), VENDORS)
    return Job(task.key, {task.key: task})


@pytest.mark.parametrize(
    ("said", "preemptible"),
    [
        ({}, True),
        ({"priority": 99}, True),
        ({"priority": 100}, False),
        ({"labels": {"kai.scheduler/preemptibility": "preemptible"}, "priority": 125}, True),
        ({"labels": {"kai.scheduler/preemptibility": "non-preemptible"}}, False),
        ({"annotations": {"volcano.sh/preemptable": "false"}}, False),
        ({"annotations": {"volcano.sh/preemptable": "true"}, "priority": 1000}, True),
        ({"labels": {"volcano.sh/preemptable": "false"}}, False),
        ({"annotations": {"volcano.sh/preemptable": "perhaps"}}, False),
        ({"annotations": {"volcano.sh/preemptable": "true"}, "labels": {"volcano.sh/preemptable": "false"}}, True),
        ({"schedulerName": "volcano", "priority": 1000}, True),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}, "priority": 1000}, True),
    ],
)
def test_a_job_may_be_stopped_if_it_says_so_or_is_of_no_importance(said, preemptible):
    assert job(**said).preemptible is preemptible


def test_a_plain_pod_is_a_job_of_one_in_the_default_queue():
    task = make_task(pod("p", 1, priority=7), VENDORS)
    alone = Job(task.key, {task.key: task})
    assert (alone.namespace, alone.name, alone.queue, alone.priority) == ("default", "p", "default", 7)

"""Jobs, CronJobs and JobSets: as many pods as run now, none of suspended and finished ones."""

import pytest

from tests.manifests.owners.making import made, manifest, names, owned, template

INDEX = "batch.kubernetes.io/job-completion-index"


def job(status: object = None, **spec: object) -> dict[str, object]:
    one = manifest("batch/v1", "Job", "train", {"template": template(), **spec})
    return one if status is None else {**one, "status": status}


def job_set(**spec: object) -> dict[str, object]:
    worker = {"spec": {"parallelism": 2, "completions": 2, "template": template()}}
    parts = [{"name": "driver", "template": {"spec": {"template": template()}}}]
    parts.append({"name": "worker", "replicas": 2, "template": worker})  # type: ignore[dict-item]
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    return manifest(
        "jobset.x-k8s.io/v1alpha2", "JobSet", "set", {"replicatedJobs": parts, **spec}, annotations=annotations
    )


def test_a_job_runs_as_many_pods_as_it_may_at_a_time():
    assert names(made(job())) == ["train-1"]
    pods = made(job(parallelism=2, completions=5))
    assert names(pods) == ["train-1", "train-2"]
    assert pods[0].labels["batch.kubernetes.io/job-name"] == "train"
    assert pods[0].metadata.ownerReferences[0].kind == "Job"


@pytest.mark.parametrize(("succeeded", "running", "expected"), [(0, 1, 2), (3, 0, 2), (4, 1, 0), (5, 0, 0)])
def test_pods_that_run_or_succeeded_are_counted_first(succeeded, running, expected):
    pods = [owned(f"train-r{n}", "Job", "train") for n in range(running)]
    pods += [owned(f"train-s{n}", "Job", "train", "Succeeded") for n in range(succeeded)]
    assert len(made(job(parallelism=3, completions=5), *pods)) == expected


def test_succeeded_pods_that_are_gone_are_in_the_status():
    assert len(made(job({"succeeded": 4}, parallelism=3, completions=5))) == 1


def test_pods_that_share_a_queue_of_work_are_made_until_one_succeeds():
    assert len(made(job(parallelism=3))) == 3
    assert made(job(parallelism=3), owned("train-s", "Job", "train", "Succeeded")) == []


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_finished_and_suspended_jobs_make_none(condition):
    assert made(job({"conditions": [{"type": condition, "status": "True"}]})) == []
    assert made(job(suspend=True)) == []


def test_indexes_that_are_done_or_running_are_left_out():
    status = {"succeeded": 3, "completedIndexes": "0,2-3"}
    running = owned("train-1-x", "Job", "train", annotations={INDEX: "1"})
    pods = made(job(status, parallelism=3, completions=8, completionMode="Indexed"), running)
    assert names(pods) == ["train-4-1", "train-5-1"]
    assert pods[0].annotations[INDEX] == pods[0].labels[INDEX] == "4"


def test_a_cron_job_that_no_cluster_has_yet_makes_the_pods_of_one_job():
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": template()}}}
    pods = made(manifest("batch/v1", "CronJob", "nightly", spec))
    assert names(pods) == ["nightly-30000000-1", "nightly-30000000-2"]
    assert made(manifest("batch/v1", "CronJob", "nightly", {**spec, "suspend": True})) == []


def test_the_jobs_of_a_cron_job_on_a_cluster_are_in_the_input():
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template()}}}
    assert made(manifest("batch/v1", "CronJob", "nightly", spec, creationTimestamp="2026-01-01T00:00:00Z")) == []


def test_the_pods_of_a_job_set_have_its_labels():
    pods = made(job_set())
    assert names(pods) == [
        "set-driver-0-0-1",
        "set-worker-0-0-1",
        "set-worker-0-1-1",
        "set-worker-1-0-1",
        "set-worker-1-1-1",
    ]
    last = pods[-1]
    assert last.labels["jobset.sigs.k8s.io/jobset-name"] == "set"
    assert last.labels["jobset.sigs.k8s.io/replicatedjob-name"] == "worker"
    assert last.labels["jobset.sigs.k8s.io/job-index"] == "1"
    assert last.labels["jobset.sigs.k8s.io/job-global-index"] == "2"
    assert last.annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] == "rack"
    assert last.metadata.ownerReferences[0].name == "set-worker-1"


def test_jobs_and_pods_of_a_job_set_are_counted_first():
    driver = manifest("batch/v1", "Job", "set-driver-0", {"template": template(), "suspend": True})
    worker = owned("set-worker-0-0-x", "Job", "set-worker-0", annotations={INDEX: "0"})
    assert names(made(job_set(), driver, worker)) == ["set-worker-0-1-1", "set-worker-1-0-1", "set-worker-1-1-1"]


def test_suspended_and_finished_job_sets_make_none():
    assert made(job_set(suspend=True)) == []
    done = {**job_set(), "status": {"conditions": [{"type": "Completed", "status": "True"}]}}
    assert made(done) == []


def test_jobs_that_wait_until_others_are_complete_are_not_made_yet():
    one = job_set()
    parts = one["spec"]["replicatedJobs"]  # type: ignore[index]
    parts[1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    assert names(made(one)) == ["set-driver-0-0-1"]
    parts[1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert len(made(one)) == 5

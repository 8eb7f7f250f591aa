"""ResourceQuotas as kubectl prints them, and what they do in `tonnage schedule`."""

import json

from tests.cli.command import tonnage
from tests.manifests.texts import listed, node, pod, read
from tests.scenario import REGISTER, gpu

MEMORY = "limits.nvidia.com/gpumem"


def quota(hard, name="gpus", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, **metadata},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {}},
    }


def test_quotas_are_kept_and_not_counted_as_skipped():
    manifests = read(listed(quota({MEMORY: "4000", "limits.cpu": "10", "pods": 3}), quota({}, namespace="team")))
    assert manifests.skipped == {}
    assert manifests.problems == []
    assert [one.key for one in manifests.quotas] == ["default/gpus", "team/gpus"]


def test_the_same_quota_twice_is_a_problem_and_the_later_one_counts():
    manifests = read(listed(quota({MEMORY: 1}), quota({MEMORY: 2})))
    assert [one.spec.hard for one in manifests.quotas] == [{MEMORY: 2}]
    assert manifests.problems[0].object == "ResourceQuota/default/gpus"


def test_a_bad_quantity_is_a_problem_with_its_line_and_hides_nothing_else():
    manifests = read(listed(quota({MEMORY: "lots", "pods": -3, "limits.nvidia.com/gpucores": "50"}), node(), pod()))
    assert [one.spec.hard for one in manifests.quotas] == [{"limits.nvidia.com/gpucores": "50"}]
    assert (len(manifests.nodes), len(manifests.pods)) == (1, 1)
    told = {problem.field: problem for problem in manifests.problems}
    assert told.keys() == {f"spec.hard[{MEMORY}]", "spec.hard[pods]"}
    assert all("line" in problem.position for problem in manifests.problems)


def test_a_quota_of_the_wrong_shape_is_left_out():
    broken = quota({})
    broken["spec"]["hard"] = ["many"]
    manifests = read(listed(broken, quota({}, name="other")))
    assert [one.key for one in manifests.quotas] == ["default/other"]
    assert manifests.problems[0].field == "spec.hard"


def test_a_pod_over_quota_waits_with_the_figures():
    card = json.dumps([gpu("u", memory=8000)])
    registered = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "annotations": {REGISTER: card}},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "10"}},
    }

    def wants(name, memory):
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        }

    text = json.dumps(listed(quota({MEMORY: "3000"}), registered, wants("one", 2000), wants("two", 2000)))
    done = tonnage("schedule", "-f", "-", stdin=text)
    assert done.returncode == 0
    assert "ResourceQuotaNotFit" in done.stdout
    assert "nvidia.com/gpumem is limited to 3000, 2000 are used, and the pod asks for 2000" in done.stdout
    assert "skipped" not in done.stderr

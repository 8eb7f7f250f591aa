"""Namespaces, storage, and pods' rules about others, as kubectl prints them."""

import json

from tests.cli.command import tonnage
from tests.manifests.texts import listed, node, pod, read

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "team-a"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "local",
        "volumeMode": "Filesystem",
        "volumeName": "pv-1",
    },
    "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
}
HOSTS = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-08"]}]}]
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "pv-1", "labels": {"topology.kubernetes.io/zone": "a"}},
    "spec": {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"kind": "PersistentVolumeClaim", "name": "data", "namespace": "team-a"},
        "local": {"path": "/mnt/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": HOSTS}},
        "storageClassName": "local",
    },
    "status": {"phase": "Bound"},
}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CSI_NODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "gpu-08"},
    "spec": {"drivers": [{"name": "ebs", "nodeID": "i-1", "topologyKeys": [], "allocatable": {"count": 25}}]},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"kind": "shared"}}}
VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "local"}}}},
    {"name": "token", "projected": {"sources": []}},
]
AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
        ]
    }
}


def test_namespaces_and_storage_are_kept_and_not_counted_as_skipped():
    manifests = read(listed(CLAIM, VOLUME, CLASS, CSI_NODE, NAMESPACE))
    assert manifests.skipped == {}
    assert manifests.problems == []
    kinds = [type(thing).__name__ for thing in manifests.surroundings]
    assert kinds == ["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "Namespace"]


def test_the_same_claim_twice_is_a_problem_and_one_of_another_namespace_is_not():
    other = {**CLAIM, "metadata": {"name": "data", "namespace": "team-b"}}
    assert read(listed(CLAIM, other)).problems == []
    manifests = read(listed(CLAIM, CLAIM))
    assert len(manifests.surroundings) == 1
    assert manifests.problems[0].object == "PersistentVolumeClaim/team-a/data"


def test_storage_of_the_wrong_shape_is_a_problem_with_its_line():
    broken = {**CSI_NODE, "spec": {"drivers": [{"name": "ebs", "allocatable": {"count": "many"}}]}}
    manifests = read(listed(broken, CLASS))
    assert len(manifests.surroundings) == 1
    (problem,) = manifests.problems
    assert (problem.object, problem.field) == ("CSINode/gpu-08", "spec.drivers[0].allocatable.count")


def test_rules_without_meaning_are_problems_with_their_line():
    broken = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}
    spread = [{"maxSkew": -1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    manifests = read(listed(pod(affinity=broken, topologySpreadConstraints=spread)))
    told = {problem.field: problem.message for problem in manifests.problems}
    path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
    assert told == {
        path: "the topologyKey is empty; name a label of nodes",
        "spec.topologySpreadConstraints[0].maxSkew": "maxSkew -1 is not above 0",
    }
    assert all("FILE line " in problem.position for problem in manifests.problems)
    assert len(manifests.pods) == 1


def test_a_port_that_is_none_is_a_problem():
    spec = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 70000}]}]}
    (problem,) = read(pod(**spec)).problems
    assert (problem.field, problem.message) == ("spec.containers[0].ports[0].hostPort", "70000 is no port")


def test_tonnage_schedule_takes_all_of_it(tmp_path):
    """A pod with a local volume, and one that must not share its node."""
    first = pod("train-0", volumes=VOLUMES, affinity=AFFINITY)
    second = pod("train-1", affinity=AFFINITY)
    scratch = {**CLAIM, "metadata": {"name": "train-0-scratch", "namespace": "team-a"}}
    things = [node("gpu-07"), node("gpu-08"), node("gpu-09"), first, second, CLAIM, scratch, VOLUME, CLASS, CSI_NODE]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(listed(*things, NAMESPACE)))
    done = tonnage("schedule", "-f", str(file), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    decisions = {decision["pod"]: decision for decision in json.loads(done.stdout)["decisions"]}
    assert decisions["team-a/train-0"]["node"] == "gpu-08"
    assert decisions["team-a/train-1"]["node"] == "gpu-07"
    (rejected,) = decisions["team-a/train-0"]["rejected"]
    assert (rejected["reason"], rejected["nodes"]) == ("VolumeNodeAffinityConflict", 2)
    (rejected,) = decisions["team-a/train-1"]["rejected"]
    assert rejected["message"] == (
        "gpu-08: kubernetes.io/hostname=gpu-08 has team-a/train-0 on gpu-08, which the pod's anti-affinity excludes"
    )

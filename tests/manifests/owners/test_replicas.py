"""Deployments, ReplicaSets and StatefulSets: the pods that are missing are made."""

import pytest

from tests.manifests.owners.making import NOW, expanded, made, manifest, names, owned, template
from tests.manifests.texts import listed, node, read
from tonnage.manifests.owners.expansion import add_missing_pods
from tonnage.manifests.read import ManifestError


def deployment(replicas: int = 3, **spec: object) -> dict[str, object]:
    return manifest("apps/v1", "Deployment", "web", {"replicas": replicas, "template": template(), **spec})


def replica_set(replicas: int, owner: str = "web", **labels: str) -> dict[str, object]:
    one = template()
    one["metadata"]["labels"] |= labels  # type: ignore[index]
    reference = [{"kind": "Deployment", "name": owner, "controller": True}]
    return manifest(
        "apps/v1", "ReplicaSet", "web-abc", {"replicas": replicas, "template": one}, ownerReferences=reference
    )


def stateful_set(replicas: int = 3, **spec: object) -> dict[str, object]:
    return manifest("apps/v1", "StatefulSet", "db", {"replicas": replicas, "template": template(), **spec})


def test_the_pods_of_a_deployment_belong_to_its_replica_set():
    pods = made(deployment())
    (owner,) = pods[0].metadata.ownerReferences
    assert (owner.kind, owner.name[:4], owner.controller) == ("ReplicaSet", "web-", True)
    assert names(pods) == [f"{owner.name}-{number}" for number in (1, 2, 3)]
    assert pods[0].labels == {"app": "web", "pod-template-hash": owner.name.removeprefix("web-")}
    assert pods[0].annotations == {"note": "kept"}
    assert pods[0].metadata.namespace == "team-a"


def test_a_deployment_has_one_pod_unless_it_says_otherwise():
    spec = {"replicas": None, "template": template()}
    assert len(made(manifest("apps/v1", "Deployment", "web", spec))) == 1
    assert made(deployment(0)) == []


def test_pods_of_replica_sets_count_for_their_deployment():
    running = owned("web-abc-1", "ReplicaSet", "web-abc")
    pods = made(deployment(), replica_set(3, **{"pod-template-hash": "abc"}), running)
    assert names(pods) == ["web-abc-2", "web-abc-3"]
    assert pods[0].labels["pod-template-hash"] == "abc"


def test_replica_sets_that_are_not_given_are_known_by_the_names_of_their_pods():
    running = owned("web-abc-x", "ReplicaSet", "web-abc", labels={"app": "web", "pod-template-hash": "abc"})
    assert names(made(deployment(2), running)) == ["web-abc-1"]


def test_pods_that_ended_or_leave_do_not_count():
    labels = {"app": "web", "pod-template-hash": "abc"}
    pods = [
        owned("web-abc-x", "ReplicaSet", "web-abc", "Failed", labels=labels),
        owned("web-abc-y", "ReplicaSet", "web-abc", labels=labels, deletionTimestamp="2026-01-01T00:00:00Z"),
        owned("web-abc-z", "ReplicaSet", "web-abc", labels=labels),
    ]
    assert len(made(deployment(), *pods)) == 2


def test_a_deployment_that_is_being_deleted_or_paused_before_its_first_pod_makes_none():
    leaving = deployment()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]
    assert made(leaving) == []
    assert made(deployment(paused=True)) == []


def test_a_replica_set_without_its_deployment_makes_its_own_pods():
    running = owned("web-abc-x", "ReplicaSet", "web-abc")
    assert names(made(replica_set(3), running)) == ["web-abc-1", "web-abc-2"]


def test_the_pods_of_a_stateful_set_are_numbered():
    pods = made(stateful_set(ordinals={"start": 2}))
    assert names(pods) == ["db-2", "db-3", "db-4"]
    assert pods[0].labels["apps.kubernetes.io/pod-index"] == "2"
    assert pods[0].metadata.ownerReferences[0].kind == "StatefulSet"


def test_missing_numbers_of_a_stateful_set_are_filled():
    leaving = owned("db-2", "StatefulSet", "db", deletionTimestamp="2026-01-01T00:00:00Z")
    ended = owned("db-3", "StatefulSet", "db", "Failed")
    assert names(made(stateful_set(4), owned("db-1", "StatefulSet", "db"), leaving, ended)) == ["db-3", "db-0"]


def test_a_stateful_set_uses_its_claims_that_exist():
    claim = manifest("v1", "PersistentVolumeClaim", "data-db-0", {})
    pods = made(stateful_set(2, volumeClaimTemplates=[{"metadata": {"name": "data"}}]), claim)
    assert [one.spec.volumes and one.spec.volumes[0].persistentVolumeClaim.claimName for one in pods] == [
        "data-db-0",
        None,
    ]


def test_pods_get_the_priority_of_their_class():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    one = manifest("apps/v1", "StatefulSet", "db", {"template": template(priorityClassName="high")})
    assert [pod.spec.priority for pod in made(one, high)] == [7]
    manifests = expanded(one)
    assert [problem.message for problem in manifests.problems] == [
        "there is no priority class high; the priority of its pods is 0"
    ]


def test_a_bad_quantity_in_a_template_is_a_problem_with_its_line():
    bad = template()
    bad["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "lots"  # type: ignore[index]
    manifests = expanded(manifest("apps/v1", "Deployment", "web", {"template": bad}))
    (problem,) = manifests.problems
    assert problem.object == "Deployment/team-a/web"
    assert problem.field == "spec.template.spec.containers[0].resources.limits[cpu]"
    assert manifests.pods == []


def test_an_absurd_number_of_replicas_ends_the_reading():
    manifests = read(listed(node(), deployment(2**31 - 1)))
    with pytest.raises(ManifestError, match="Deployment/team-a/web: over 200000 pods would be made"):
        add_missing_pods(manifests, NOW)

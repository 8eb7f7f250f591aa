"""Owners of pods as manifests, and the pods that are made of them, for the tests beside."""

from typing import Any

from tests.manifests.texts import listed, node, pod, read
from tonnage.manifests.objects import Manifests
from tonnage.manifests.owners.expansion import add_missing_pods
from tonnage.model.pod import Pod

NOW = 1_800_000_000.0


def template(**spec: object) -> dict[str, object]:
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "kept"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}], **spec},
    }


def manifest(version: str, kind: str, name: str, spec: object, **metadata: object) -> dict[str, object]:
    said = {"name": name, "namespace": "team-a", **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": said, "spec": spec}


def owned(name: str, kind: str, owner: str, phase: str = "Running", **metadata: object) -> dict[str, Any]:
    """A pod of the input that an object owns."""
    made: dict[str, Any] = pod(name)
    made["metadata"] |= {"ownerReferences": [{"kind": kind, "name": owner, "controller": True}], **metadata}
    made["status"] = {"phase": phase}
    return made


def expanded(*objects: object) -> Manifests:
    """The input with the pods that controllers would make."""
    manifests = read(listed(node(), *objects))
    assert manifests.skipped == {}
    add_missing_pods(manifests, NOW)
    return manifests


def made(*objects: object) -> list[Pod]:
    """The pods that controllers would make."""
    return [one for one in expanded(*objects).pods if one.metadata.creationTimestamp == "2027-01-15T08:00:00Z"]


def names(pods: list[Pod]) -> list[str]:
    return [one.metadata.name for one in pods]

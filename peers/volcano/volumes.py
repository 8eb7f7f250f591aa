"""Plays the provisioner of the storage class `standard`, which Volcano's tests expect of a cluster.

A claim that has been told its node gets a volume there, as from the provisioner of local paths, and takes it with it.
"""

from contextlib import suppress
from http.client import HTTPException
from types import TracebackType
from typing import Any

from tonnage.lab.api import Api, ApiError
from tonnage.lab.apiwatch import ApiAccess, ApiWatch

PROVISIONER = "rancher.io/local-path"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_VOLUMES = "/api/v1/persistentvolumes"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
STANDARD: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class Provisioner:
    """Makes volumes; a context manager that stops it."""

    def __init__(self, access: ApiAccess) -> None:
        self._api = Api(access.server, access.token, str(access.authority))
        self._watches = [
            ApiWatch(access, "/api/v1/persistentvolumeclaims", self._look_at_claim),
            ApiWatch(access, _VOLUMES, self._look_at_volume),
        ]
        for watch in self._watches:
            watch.start()

    def __enter__(self) -> "Provisioner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.stop()
        self._api.close()

    def _look_at_claim(self, event: dict[str, Any]) -> None:
        claim = event["object"]
        node = claim.get("metadata", {}).get("annotations", {}).get(_SELECTED_NODE)
        is_asked = event["type"] != "DELETED" and node and not claim["spec"].get("volumeName")
        if is_asked and claim["spec"].get("storageClassName") == STANDARD["metadata"]["name"]:
            # A volume that exists already is this claim's from an earlier event.
            with suppress(ApiError, OSError, HTTPException):
                self._api.create(_VOLUMES, _volume_of(claim, node))

    def _look_at_volume(self, event: dict[str, Any]) -> None:
        """A volume that its claim has left goes, as its class says."""
        volume = event["object"]
        meta = volume.get("metadata", {})
        is_ours = meta.get("annotations", {}).get(_PROVISIONED_BY) == PROVISIONER
        if is_ours and event["type"] != "DELETED" and volume["status"].get("phase") == "Released":
            with suppress(ApiError, OSError, HTTPException):
                self._api.delete(f"{_VOLUMES}/{meta['name']}")


def _volume_of(claim: dict[str, Any], node: str) -> dict[str, Any]:
    meta = claim["metadata"]
    return local_volume(
        f"pvc-{meta['uid']}",
        node,
        STANDARD["metadata"]["name"],
        claim["spec"]["resources"]["requests"]["storage"],
        annotations={_PROVISIONED_BY: PROVISIONER},
        claim={"kind": "PersistentVolumeClaim", **{key: meta[key] for key in ("name", "namespace", "uid")}},
        modes=claim["spec"]["accessModes"],
    )


def local_volume(
    name: str,
    node: str,
    storage_class: str,
    size: str,
    annotations: dict[str, str] | None = None,
    claim: dict[str, str] | None = None,
    modes: list[str] | None = None,
) -> dict[str, Any]:
    """A volume on one node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": modes or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete" if claim else "Retain",
        "storageClassName": storage_class,
        "local": {"path": f"/volumes/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        **({"claimRef": claim} if claim else {}),
    }
    meta = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}

"""Plays what makes and binds volumes in a cluster: a provisioner of one storage class, and the controller of volumes.

A claim that has been told its node gets a volume there, as from a provisioner of local paths. The controller is needed
where no kube-controller-manager runs: a claim is bound to the volume that names it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from types import TracebackType
from typing import Any, Self

from tonnage.lab.api import Api, ApiError
from tonnage.lab.apiwatch import ApiAccess, ApiWatch

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_NOT_FOUND = 404


def late_class(name: str, provisioner: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A storage class whose volumes wait for their first consumer."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


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


class _Watcher:
    """Looks at objects as they change; a context manager that stops it."""

    def __init__(self, access: ApiAccess, **looks: Callable[[dict[str, Any]], None]) -> None:
        self._api = Api(access.server, access.token, str(access.authority))
        self._watches = [ApiWatch(access, f"/api/v1/{kind}", look) for kind, look in looks.items()]
        for watch in self._watches:
            watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.stop()
        self._api.close()


class Provisioner(_Watcher):
    """Makes the volumes of one storage class."""

    def __init__(self, access: ApiAccess, storage_class: Mapping[str, Any]) -> None:
        self._class = storage_class["metadata"]["name"]
        self._name = storage_class["provisioner"]
        super().__init__(access, persistentvolumeclaims=self._look_at_claim, persistentvolumes=self._look_at_volume)

    def _look_at_claim(self, event: dict[str, Any]) -> None:
        claim = event["object"]
        node = claim.get("metadata", {}).get("annotations", {}).get(SELECTED_NODE)
        is_asked = event["type"] != "DELETED" and node and not claim["spec"].get("volumeName")
        if is_asked and claim["spec"].get("storageClassName") == self._class:
            # A volume that exists already is this claim's from an earlier event.
            with suppress(ApiError, OSError, HTTPException):
                self._api.create(VOLUMES, self._volume_of(claim, node))

    def _look_at_volume(self, event: dict[str, Any]) -> None:
        """A volume that its claim has left goes, as its class says."""
        volume = event["object"]
        meta = volume.get("metadata", {})
        is_ours = meta.get("annotations", {}).get(_PROVISIONED_BY) == self._name
        if is_ours and event["type"] != "DELETED" and volume["status"].get("phase") == "Released":
            with suppress(ApiError, OSError, HTTPException):
                self._api.delete(f"{VOLUMES}/{meta['name']}")

    def _volume_of(self, claim: dict[str, Any], node: str) -> dict[str, Any]:
        meta = claim["metadata"]
        return local_volume(
            f"pvc-{meta['uid']}",
            node,
            self._class,
            claim["spec"]["resources"]["requests"]["storage"],
            annotations={_PROVISIONED_BY: self._name},
            claim={"kind": "PersistentVolumeClaim", **{key: meta[key] for key in ("name", "namespace", "uid")}},
            modes=claim["spec"]["accessModes"],
        )


class VolumeController(_Watcher):
    """Binds claims to the volumes that name them; a volume without a claim is available."""

    def __init__(self, access: ApiAccess) -> None:
        super().__init__(access, persistentvolumes=self._look)

    def _look(self, event: dict[str, Any]) -> None:
        volume = event["object"]
        if event["type"] == "DELETED" or volume.get("kind") != "PersistentVolume":
            return
        owner, path = volume["spec"].get("claimRef"), f"{VOLUMES}/{volume['metadata']['name']}/status"
        phase = "Bound" if owner else "Available"
        try:
            if volume["status"].get("phase") != phase:
                self._api.patch(path, {"status": {"phase": phase}})
            if owner:
                self._bind(volume, owner)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                # The watch begins anew, so all volumes are looked at again.
                raise

    def _bind(self, volume: dict[str, Any], owner: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{owner['namespace']}/persistentvolumeclaims/{owner['name']}"
        claim = self._api.get(path)
        if claim["metadata"]["uid"] != owner.get("uid") or claim["status"].get("phase") == "Bound":
            return
        notes = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        self._api.patch(path, {"metadata": {"annotations": notes}, "spec": {"volumeName": volume["metadata"]["name"]}})
        spec = volume["spec"]
        found = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        self._api.patch(f"{path}/status", {"status": found})

"""Accounts that may look at a cluster, and only that."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT
from tonnage.lab.control_plane import ControlPlane

ROLES, BINDINGS = (f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings"))
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def viewer(plane: ControlPlane, folder: Path, name: str, rules: list[dict[str, Any]]) -> str:
    """The kubeconfig file of somebody who has these rights and no others."""
    plane.api.create(ACCOUNTS, {"metadata": {"name": name}})
    plane.api.create(ROLES, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    plane.api.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.api.create(f"{ACCOUNTS}/{name}/token", request)["status"]["token"]
    config = json.loads(plane.kubeconfig().read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / name
    path.write_text(json.dumps(config))
    return str(path)


def deployed_rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy/viewer.yaml").read_text())["rules"]
    return rules

"""Accounts that may look at a cluster, and only that."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT
from tonnage.lab.control_plane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
LISTS_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
LISTS_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}

Rules = Sequence[dict[str, Any]]


def token_of(plane: ControlPlane, name: str, rules: Rules = (), in_namespaces: Sequence[str] = ()) -> str:
    """The token of somebody who has these rights, and lists pods in these namespaces, and may do nothing else."""
    plane.api.create(ACCOUNTS, {"metadata": {"name": name}})
    _grant(plane, RBAC, "Cluster", name, rules)
    for namespace in in_namespaces:
        _grant(plane, f"{RBAC}/namespaces/{namespace}", "", name, [LISTS_PODS])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(plane.api.create(f"{ACCOUNTS}/{name}/token", request)["status"]["token"])


def _grant(plane: ControlPlane, where: str, scope: str, name: str, rules: Rules) -> None:
    kind = f"{scope}Role"
    plane.api.create(f"{where}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    plane.api.create(f"{where}/{kind.lower()}bindings", binding)


def viewer(plane: ControlPlane, folder: Path, name: str, rules: Rules = (), in_namespaces: Sequence[str] = ()) -> str:
    """The kubeconfig file of somebody who has these rights and no others."""
    config = json.loads(plane.kubeconfig().read_text())
    config["users"][0]["user"] = {"token": token_of(plane, name, rules, in_namespaces)}
    path = folder / name
    path.write_text(json.dumps(config))
    return str(path)


def deployed_rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy/manifests/viewer.yaml").read_text())["rules"]
    return rules

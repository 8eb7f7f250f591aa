"""The manifests that Tonnage is deployed with, applied to a control plane."""

from typing import Any

import yaml

from tests.paths import ROOT
from tonnage.lab.control_plane import ControlPlane

DEPLOY = ROOT / "deploy"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}


def objects(server: str = "extender") -> list[dict[str, Any]]:
    files = sorted((DEPLOY / server).glob("*.yaml"))
    return [thing for path in files for thing in yaml.safe_load_all(path.read_text())]


def leader_flags() -> list[str]:
    """What the batch scheduler's deployment says about its Lease, for which it has rights."""
    (deployment,) = [thing for thing in objects("scheduler") if thing["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [flag for flag in container["args"] if flag.startswith("--leader-elect")]


def apply(plane: ControlPlane, server: str, *kinds: str) -> None:
    for thing in objects(server):
        if not kinds or thing["kind"] in kinds:
            namespace = thing["metadata"].get("namespace", "")
            # A field that the API server does not know would be dropped without a word.
            path = PATHS[thing["kind"]].format(namespace=namespace)
            plane.api.request("POST", path, thing, query={"fieldValidation": "Strict"})

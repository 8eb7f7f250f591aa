"""The manifests that Tonnage is deployed with, rendered from its chart, applied to a control plane."""

import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.paths import ROOT
from tonnage.lab.control_plane import ControlPlane

MANIFESTS = ROOT / "deploy" / "manifests"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}

NOBODYS = [
    ("get", "", "secrets", ""),
    ("list", "", "secrets", ""),
    ("create", "", "pods", ""),
    ("update", "", "pods", ""),
    ("create", "", "pods/exec", ""),
    ("create", "", "pods/attach", ""),
    ("create", "", "pods/portforward", ""),
    ("patch", "", "pods/ephemeralcontainers", ""),
    ("update", "", "nodes", ""),
    ("delete", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("create", "", "nodes/proxy", ""),
    ("create", "", "serviceaccounts/token", ""),
    ("impersonate", "", "users", ""),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""),
]
"""Rights that no process of ours needs: verb, API group, resource and name."""


Server = str | list[dict[str, Any]]
"""A server by the name of its file, or by the objects of an installation."""


def objects(server: Server = "extender") -> list[dict[str, Any]]:
    """The objects of a file, mostly that of a server."""
    if not isinstance(server, str):
        return server
    return [thing for thing in yaml.safe_load_all((MANIFESTS / f"{server}.yaml").read_text()) if thing]


def pod_of(server: Server) -> dict[str, Any]:
    """The pod that a server's Deployment, or the agent's DaemonSet, makes."""
    (owner,) = [thing for thing in objects(server) if thing["kind"] in ("Deployment", "DaemonSet")]
    template: dict[str, Any] = deepcopy(owner["spec"]["template"])
    return {"apiVersion": "v1", "kind": "Pod", **template}


def containers_of(server: Server) -> dict[str, dict[str, Any]]:
    return {container["name"]: container for container in pod_of(server)["spec"]["containers"]}


def account_of(server: Server, container: str) -> str:
    """The service account whose token a container finds where clients look for it."""
    spec = pod_of(server)["spec"]
    mounts = containers_of(server)[container].get("volumeMounts", ())
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    found = [volumes[mount["name"]] for mount in mounts if mount["mountPath"] == TOKENS]
    if not found:
        assert spec.get("automountServiceAccountToken", True), f"{container} has no token"
        return str(spec["serviceAccountName"])
    (volume,) = found
    if "projected" in volume:
        return str(spec["serviceAccountName"])
    (secret,) = [
        thing
        for thing in objects(server)
        if thing["kind"] == "Secret" and thing["metadata"]["name"] == volume["secret"]["secretName"]
    ]
    assert secret["type"] == "kubernetes.io/service-account-token"
    return str(secret["metadata"]["annotations"]["kubernetes.io/service-account.name"])


def within(plane: ControlPlane, server: Server, container: str, pod: str, writable: Sequence[Path] = ()) -> list[str]:
    """The command under which a program has what a container of a pod has: host name, token, a file system to read."""
    account = account_of(server, container)
    path = f"/api/v1/namespaces/tonnage/serviceaccounts/{account}/token"
    answer = plane.api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    folder = plane.folder / f"token-{account}"
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(answer["status"]["token"])
    (folder / "ca.crt").write_bytes(plane.authority.read_bytes())
    (folder / "namespace").write_text("tonnage")
    place = urlsplit(plane.server)
    environment = {
        "KUBECONFIG": "",
        "KUBERNETES_SERVICE_HOST": place.hostname,
        "KUBERNETES_SERVICE_PORT": place.port,
        "POD_NAME": pod,
        "POD_NAMESPACE": "tonnage",
    }
    program = [sys.executable, str(Path(__file__).with_name("in_pod.py")), "--token", str(folder), "--read-only"]
    program += [word for place in writable for word in ("--writable", str(place))]
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items()), *program, pod]


def leader_flags() -> list[str]:
    """What the batch scheduler's deployment says about its Lease, for which it has rights."""
    (container,) = containers_of("scheduler").values()
    return [flag for flag in container["args"] if flag.startswith("--leader-elect")]


def apply(plane: ControlPlane, server: str, *kinds: str) -> None:
    for thing in objects(server):
        if not kinds or thing["kind"] in kinds:
            namespace = thing["metadata"].get("namespace", "")
            # A field that the API server does not know would be dropped without a word.
            path = PATHS[thing["kind"]].format(namespace=namespace)
            plane.api.request("POST", path, thing, query={"fieldValidation": "Strict"})


def may(plane: ControlPlane, account: str, what: tuple[str, str, str, str], namespace: str = "tonnage") -> bool:
    """Whether a service account has a right, in its namespace."""
    verb, group, resource, name = what
    resource, _, sub = resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
            "resourceAttributes": {**attributes, "name": name},
        },
    }
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])

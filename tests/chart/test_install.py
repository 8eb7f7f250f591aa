"""`helm install` into a real API server: every object is taken, and what is installed runs and places a GPU pod."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import CHART, NAMESPACE, PROFILES, HelmError, documents, helm, profile, rendered
from tests.e2e.deployedpods import DeployedPod
from tests.e2e.deployment import PATHS
from tests.scenario import node, pod
from tests.waiting import until
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.definitions import install as install_definitions
from tonnage.lab.player import playing
from tonnage.policies.documents import API_VERSION

pytestmark = pytest.mark.helm
ALL_PATHS = {
    **PATHS,
    "ValidatingAdmissionPolicy": f"/apis/{API_VERSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"/apis/{API_VERSION}/validatingadmissionpolicybindings",
}
OPERATORS = {
    "ServiceMonitor": ("monitoring.coreos.com", "v1", "servicemonitors"),
    "PodMonitor": ("monitoring.coreos.com", "v1", "podmonitors"),
    "PrometheusRule": ("monitoring.coreos.com", "v1", "prometheusrules"),
    "Certificate": ("cert-manager.io", "v1", "certificates"),
    "Issuer": ("cert-manager.io", "v1", "issuers"),
}
"""Kinds of other operators; here their definitions take anything."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def define(plane: ControlPlane) -> None:
    """Define the kinds of other operators."""
    for kind, (group, version, plural) in OPERATORS.items():
        anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [{"name": version, "served": True, "storage": True, "schema": anything}]
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        spec = {"group": group, "names": names, "scope": "Namespaced", "versions": versions}
        plane.api.create(DEFINITIONS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
        path = path_of(kind, "default")
        until(lambda path=path: _is_served(plane, path), f"{kind} is not served")


def _is_served(plane: ControlPlane, path: str) -> bool:
    try:
        plane.api.get(path)
    except Exception:
        return False
    return True


def path_of(kind: str, namespace: str) -> str:
    if kind in OPERATORS:
        group, version, plural = OPERATORS[kind]
        return f"/apis/{group}/{version}/namespaces/{namespace}/{plural}"
    return ALL_PATHS[kind].format(namespace=namespace)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        install_definitions(made.api)
        define(made)
        for namespace in (NAMESPACE, "tonnage-agent"):
            made.api.create(PATHS["Namespace"], {"metadata": {"name": namespace}})
        yield made


EVERYTHING = {"metrics": {"serviceMonitor": True, "rules": True, "grafanaDashboards": True}}
EVERYTHING |= {"certificates": {"mode": "cert-manager"}, "policies": {"queues": True}, "agent": {"invented": True}}


@pytest.mark.parametrize("more", [{}, EVERYTHING], ids=["as it is", "with all options"])
@pytest.mark.parametrize("name", PROFILES)
def test_the_api_server_takes_every_object_of_a_profile(plane: ControlPlane, name: str, more: dict[str, Any]) -> None:
    made = documents(rendered(more, "--values", profile(name)))
    assert made
    for thing in made:
        if thing["kind"] == "Namespace":
            continue  # these are there already, so that others can be created in them
        path = path_of(thing["kind"], thing["metadata"].get("namespace", ""))
        plane.api.request("POST", path, thing, query={"dryRun": "All", "fieldValidation": "Strict"})


def installed(plane: ControlPlane, *arguments: object, values: dict[str, Any] | None = None) -> str:
    command = ("install", "tonnage", CHART, "--namespace", NAMESPACE, "--create-namespace", *arguments)
    return helm(*command, values=values or {}, kubeconfig=plane.kubeconfig())


OTHERS = {
    "hami": ("vgpu-scheduler-extender", "projecthami/hami:v2.10.0", ["--scheduler-name=hami-scheduler"]),
    "volcano": ("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1.13.0", ["--logtostderr"]),
    "kai": ("scheduler", "example.com/kai-scheduler/scheduler:v0.9.0", ["--scheduler-name", "kai-scheduler"]),
}
"""The container of each peer's scheduler, as its own chart has it."""


@pytest.mark.parametrize("name", OTHERS)
def test_beside_a_running_scheduler_for_the_same_pods_the_chart_refuses(plane: ControlPlane, name: str) -> None:
    container, image, arguments = OTHERS[name]
    labels = {"app": f"{name}-scheduler"}
    spec = {"containers": [{"name": container, "image": image, "args": arguments}]}
    deployment = {
        "metadata": {"name": f"{name}-scheduler"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    path = PATHS["Deployment"].format(namespace="kube-system")
    plane.api.create(path, deployment)
    try:
        with pytest.raises(HelmError, match=f"Deployment {name}-scheduler in namespace kube-system runs a scheduler"):
            installed(plane, "--dry-run=server", "--values", profile(name))
        plane.api.patch(f"{path}/{name}-scheduler", {"spec": {"replicas": 0}})
        installed(plane, "--dry-run=server", "--values", profile(name))
    finally:
        plane.api.delete(f"{path}/{name}-scheduler")


def test_a_missing_kind_is_said_before_anything_is_installed(fresh_control_plane: ControlPlane) -> None:
    for values, said in (
        ({"metrics": {"serviceMonitor": True}}, r"metrics\.serviceMonitor is true, and this cluster has no monitoring"),
        ({"certificates": {"mode": "cert-manager"}}, "install cert-manager first"),
    ):
        with pytest.raises(HelmError, match=said):
            installed(fresh_control_plane, values=values)
    with pytest.raises(HelmError, match="take the place of volcano, and this cluster has no scheduling"):
        installed(fresh_control_plane, "--values", profile("volcano"))


def accepted(plane: ControlPlane, app: str) -> list[dict[str, Any]]:
    """The objects that the API server has of one server."""
    found = []
    for kind in ("Deployment", "ConfigMap", "Secret"):
        things = plane.api.get(PATHS[kind].format(namespace=NAMESPACE))["items"]
        wanted = (thing for thing in things if kind != "Deployment" or thing["metadata"]["name"] == app)
        found.extend({**thing, "kind": kind} for thing in wanted)
    return found


def test_after_one_command_the_first_gpu_pod_is_placed(fresh_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = fresh_control_plane
    install_definitions(plane.api)
    plane.api.create_nodes([node("a", gpus=2, nvidia__com__gpu=20)])
    begun = time.monotonic()
    installed(plane, "--values", profile("full"))
    servers = {app: accepted(plane, app) for app in ("tonnage-scheduler", "tonnage-batch-scheduler")}
    pods = [DeployedPod(plane, things, tmp_path / app, app) for app, things in servers.items()]
    # The API server here reaches no Services.
    path = f"{PATHS['MutatingWebhookConfiguration']}/tonnage-webhook"
    hook = plane.api.get(path)
    hook["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{pods[0].ports['https']}/webhook"}
    plane.api.request("PUT", path, hook)
    try:
        for one in pods:
            one.create()
            one.start()
        with playing(plane):
            for one in pods:
                one.until_ready()
            for name, scheduler in (("shared", "default-scheduler"), ("batch", "tonnage")):
                made = pod_manifest(pod(name, 1, memory=1000))
                made["spec"]["schedulerName"] = scheduler  # the webhook takes pods of the default scheduler over
                plane.api.create(pods_path(), made)
                path = f"{pods_path()}/{name}"
                until(
                    lambda path=path: "nodeName" in plane.api.get(path)["spec"], "the pod is not placed", pods[0].logs
                )
                sys.stdout.write(f"{name} is placed {time.monotonic() - begun:.1f} s after helm install began\n")
            selected = {"labelSelector": "hami.io/vgpu-node=a"}
            until(lambda: len(plane.api.get(pods_path(), **selected)["items"]) == 2, "a label is missing", pods[0].logs)
            assert "orbidden" not in "".join(one.logs() for one in pods)
    finally:
        for one in pods:
            one.stop()
    helm("uninstall", "tonnage", "--namespace", NAMESPACE, kubeconfig=plane.kubeconfig())
    assert plane.api.get(PATHS["Deployment"].format(namespace=NAMESPACE))["items"] == []

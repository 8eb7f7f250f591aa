"""Volcano's programs on a control plane, with its scheduler or ours."""

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from peers.cases import until
from peers.cluster import Cluster, access, manifests, node
from tests.e2e.provisioning import Provisioner, late_class
from tonnage.lab.api import Api
from tonnage.lab.control_plane import PATIENCE
from tonnage.lab.definitions import HYPERNODES, VOLCANO
from tonnage.lab.program import HOST, Program, answers, free_ports

NAMESPACE = "volcano-system"
SCHEDULER_NAME = "volcano"
INSTALLER = "volcano-development.yaml"
WEBHOOKS = "webhooks.yaml"
CONFIGURATION = "volcano-scheduler-ci.conf"
_CONFIG_MAP = "integration-scheduler-configmap"
"""The name that Volcano's tests change."""
_INSTALLED = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_ADMISSIONS = (
    "/pods/mutate,/queues/mutate,/podgroups/mutate,/jobs/mutate,/jobs/validate,/jobflows/validate,/pods/validate,"
    "/queues/validate,/podgroups/validate,/hypernodes/validate,/cronjobs/validate"
)
_KEPT_NAMESPACES = {
    *("default", "kube-system", "kube-public", "kube-node-lease", "tonnage", NAMESPACE, "volcano-monitoring"),
}
_KEPT_QUEUES = {"root", "default"}
WORKERS = 4
STANDARD = late_class("standard", "rancher.io/local-path", {"storageclass.kubernetes.io/is-default-class": "true"})
"""The storage class that Volcano's tests expect of a cluster."""


class Scheduler:
    """One of the two schedulers, which can be stopped and started again."""

    def __init__(self, cluster: Cluster, programs: Path, is_ours: bool) -> None:
        self._cluster = cluster
        self._programs = programs
        self._is_ours = is_ours
        self._configuration = _configuration_file(cluster)

    def start(self, elects: bool = False) -> Program:
        """Start a replica with the rights that its installation gives it; returns when jobs can be created."""
        program = self._start_ours(elects) if self._is_ours else self._start_theirs(elects)
        until(self._is_open, "the queue `default` is not open; the scheduler creates it and the controllers open it")
        return program

    def _is_open(self) -> bool:
        queues = self._cluster.api.get(f"{VOLCANO}/queues")["items"]
        return any(q["metadata"]["name"] == "default" and q.get("status", {}).get("state") == "Open" for q in queues)

    def _start_theirs(self, elects: bool) -> Program:
        (port,) = free_ports(1)
        flags = {
            "kubeconfig": self._cluster.plane.kubeconfig_of(NAMESPACE, "volcano-scheduler"),
            "scheduler-conf": self._configuration,
            "leader-elect": str(elects).lower(),
            "leader-elect-resource-namespace": NAMESPACE,
            "enable-healthz": "true",
            "healthz-address": f"{HOST}:{port}",
            "cache-dumper": "false",
            # No node says how many such volumes it takes.
            "ignored-provisioners": f"kubernetes.io/no-provisioner,{STANDARD['provisioner']}",
            "v": 3,
        }
        program = self._cluster.run("vc-scheduler", self._programs / "vc-scheduler", flags)
        program.wait_until(lambda: answers(port, "/healthz"), "not healthy", PATIENCE)
        return program

    def _start_ours(self, elects: bool) -> Program:
        (port,) = free_ports(1)
        kubeconfig = self._cluster.plane.kubeconfig_of("tonnage", "tonnage-scheduler")
        command = [
            *(sys.executable, "-m", "tonnage.cli.main", "scheduler", "--kubeconfig", str(kubeconfig)),
            *("--http-bind", f"{HOST}:{port}", "--scheduler-name", SCHEDULER_NAME),
            *("--config", str(self._configuration), "--debug", "true"),
            *("--leader-elect", str(elects).lower(), "--leader-elect-resource-namespace", "tonnage"),
        ]
        log = self._cluster.folder / "tonnage-scheduler.log"
        program = self._cluster.plane.start("tonnage-scheduler", command, log)
        if not elects:
            program.wait_until(lambda: answers(port, "/readyz"), "not ready", PATIENCE)
        return program


@contextmanager
def volcano_cluster(
    folder: Path, programs: Path, is_ours: bool, extra_nodes: int = 0
) -> Iterator[tuple[Cluster, Scheduler]]:
    """Volcano's controllers and webhooks, and neither scheduler yet."""
    with Cluster(folder, programs) as cluster, Provisioner(cluster.plane, STANDARD):
        installer = manifests(programs / INSTALLER)
        cluster.apply(one for one in installer if one["kind"] in (*_INSTALLED, "CustomResourceDefinition"))
        cluster.apply(access())
        cluster.apply([_configuration(programs), STANDARD])
        cluster.mirror(NAMESPACE, _CONFIG_MAP, CONFIGURATION, _configuration_file(cluster))
        cluster.add_nodes(_nodes(extra_nodes))
        _start_webhooks(cluster, programs)
        flags = {
            "kubeconfig": cluster.plane.kubeconfig_of(NAMESPACE, "volcano-controllers"),
            "leader-elect": "false",
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
            "v": 4,
        }
        cluster.run("vc-controller-manager", programs / "vc-controller-manager", flags)
        yield cluster, Scheduler(cluster, programs, is_ours)


def tidy(cluster: Cluster, programs: Path) -> None:
    """Remove what a test that failed has left: namespaces, queues, priority classes, HyperNodes, its configuration."""
    api = cluster.api
    for name in _named(api, "/api/v1/namespaces") - _KEPT_NAMESPACES:
        api.delete(f"/api/v1/namespaces/{name}")
    until(lambda: not _named(api, "/api/v1/namespaces") - _KEPT_NAMESPACES, "namespaces stay")
    api.request("DELETE", HYPERNODES)
    queues = f"{VOLCANO}/queues"
    for name in _named(api, queues) - _KEPT_QUEUES:
        # Only a closed queue can be deleted.
        api.patch(f"{queues}/{name}/status", {"status": {"state": "Closed"}})
        api.delete(f"{queues}/{name}")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name in _named(api, classes):
        if not name.startswith("system-"):
            api.delete(f"{classes}/{name}")
    api.patch(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{_CONFIG_MAP}", {"data": _configuration(programs)["data"]})


def _named(api: Api, path: str) -> set[str]:
    return {one["metadata"]["name"] for one in api.get(path)["items"]}


def _nodes(extra: int) -> list[dict[str, Any]]:
    """As in Volcano's own test runs: a control plane, four workers, and nodes that only tests of topologies use."""
    size = 4, "16Gi"
    return [
        node("integration-control-plane", *size, taint="node-role.kubernetes.io/control-plane="),
        *(node(f"integration-worker{number or ''}", *size) for number in (0, *range(2, WORKERS + 1))),
        *(
            node(f"kwok-node-{number}", 8, "8Gi", {"type": "kwok"}, "kwok.x-k8s.io/node=fake")
            for number in range(extra)
        ),
    ]


def _configuration_file(cluster: Cluster) -> Path:
    # Alone in its folder, because vc-scheduler loads it again whenever anything changes there, its own log included.
    return cluster.folder / "configuration" / CONFIGURATION


def _configuration(programs: Path) -> dict[str, Any]:
    text = (programs / CONFIGURATION).read_text()
    meta = {"name": _CONFIG_MAP, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {CONFIGURATION: text}}


def _start_webhooks(cluster: Cluster, programs: Path) -> None:
    """vc-webhook-manager with all admissions, and the API server told to ask it."""
    (port,) = free_ports(1)
    certificate = cluster.plane.authority
    cluster.apply(webhook_configurations((programs / WEBHOOKS).read_text(), f"https://{HOST}:{port}"))
    program = cluster.run(
        "vc-webhook-manager",
        programs / "vc-webhook-manager",
        {
            "kubeconfig": cluster.plane.kubeconfig(),
            "enabled-admission": _ADMISSIONS,
            # The API server's own certificate is for this address too.
            "tls-cert-file": certificate,
            "tls-private-key-file": certificate.with_suffix(".key"),
            "ca-cert-file": certificate,
            "listen-address": HOST,
            "port": port,
            "webhook-url": f"https://{HOST}:{port}",
            "webhook-namespace": NAMESPACE,
            "webhook-service-name": "volcano-admission-service",
            "v": 3,
        },
    )
    program.wait_until(lambda: _listens(port), "not ready", PATIENCE)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def webhook_configurations(template: str, url: str) -> list[dict[str, Any]]:
    """The webhook configurations of Volcano's chart, with an address in place of a service."""
    lines = [line for line in template.splitlines() if not line.strip().startswith("{{")]
    text = re.sub(r"{{ \.Release\.Namespace }}", NAMESPACE, "\n".join(lines))
    text = re.sub(r"{{ \.Release\.Name }}", "integration", text)
    made = []
    for document in yaml.safe_load_all(text):
        document["metadata"].pop("labels", None)
        for webhook in document["webhooks"]:
            service = webhook.pop("clientConfig")["service"]
            webhook["clientConfig"] = {"url": url + service["path"]}
        made.append(document)
    return made

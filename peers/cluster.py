"""A control plane with controllers and played kubelets, on which a peer's programs run beside either scheduler."""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from peers.kubelets import end_of_commands
from tonnage.lab.api import Api, ApiError
from tonnage.lab.apiwatch import ApiWatch
from tonnage.lab.control_plane import PATIENCE, ControlPlane
from tonnage.lab.heartbeats import Heartbeats
from tonnage.lab.player import Player
from tonnage.lab.program import HOST, Program, answers, free_ports

CONTROLLER_MANAGER = "kube-controller-manager"
GRACE = 1.0
"""Seconds that a deleted pod takes: played containers heed the signal at once."""
DEPLOYED = Path(__file__).parents[1] / "deploy" / "manifests" / "scheduler.yaml"
"""Our scheduler as it is deployed."""
_OF_ACCESS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
STARTING = 2.0
"""Seconds that a container takes to start, as a real one does; tests want to see their jobs pending for a moment."""
_ONE_BY_ONE = threading.Lock()
"""Clusters that run side by side start one after another, because a start needs all of the machine."""
_ATTEMPTS = 5
_CONFLICT = 409
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}


class Cluster:
    """etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubelets; a context manager that stops them."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """`programs` has kube-controller-manager; logs are kept in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._programs = programs
        with _ONE_BY_ONE:
            self._start(folder)

    def _start(self, folder: Path) -> None:
        self.plane = ControlPlane(folder)
        self.api: Api = self.plane.api
        self._watches: list[ApiWatch] = []
        try:
            self.player = Player(self.plane, longest_grace=GRACE, ends=end_of_commands, starting=STARTING)
            self.heartbeats = Heartbeats(self.plane)
            self._start_controllers()
            self.plane.run_scheduler()
        except BaseException:
            self.plane.stop()
            raise

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.stop()
        self.player.stop()
        self.heartbeats.stop()
        self.plane.stop()

    def _start_controllers(self) -> None:
        (port,) = free_ports(1)
        kubeconfig = self.plane.kubeconfig()
        program = self.run(
            CONTROLLER_MANAGER,
            self._programs / CONTROLLER_MANAGER,
            {
                "kubeconfig": kubeconfig,
                "authentication-kubeconfig": kubeconfig,
                "authorization-kubeconfig": kubeconfig,
                "bind-address": HOST,
                "secure-port": port,
                "cert-dir": self.folder / CONTROLLER_MANAGER,
                "leader-elect": "false",
                "service-account-private-key-file": self.folder / "service-accounts.pem",
                "root-ca-file": self.plane.authority,
                "kube-api-qps": 500,
                "kube-api-burst": 1000,
                # Played kubelets renew no Lease.
                "node-monitor-grace-period": "24h",
            },
        )
        program.wait_until(lambda: answers(port, "/healthz", secure=True), "not healthy", PATIENCE)

    def run(self, name: str, program: Path, flags: Mapping[str, object]) -> Program:
        """Start a program that ends with the cluster; its log has its name.

        Programs that have no flag for it find the administrator's kubeconfig in the environment.
        """
        command = ["/usr/bin/env", f"KUBECONFIG={self.plane.kubeconfig()}", str(program)]
        command += [f"--{flag}={value}" for flag, value in flags.items()]
        return self.plane.start(name, command, self.folder / f"{name}.log")

    def apply(self, manifests: Iterable[dict[str, Any]]) -> None:
        """Create objects of the kinds that an installer has; those that exist stay as they are."""
        for manifest in manifests:
            path = _PATHS[manifest["kind"]].format(manifest["metadata"].get("namespace", "default"))
            for attempt in range(_ATTEMPTS):
                try:
                    self.api.create(path, manifest)
                    break
                except ApiError as error:
                    if error.status != _CONFLICT:
                        raise
                    break
                except OSError:
                    # A server that has just started may close connections.
                    if attempt == _ATTEMPTS - 1:
                        raise

    def mirror(self, namespace: str, name: str, key: str, file: Path) -> None:
        """Write the ConfigMap's value into a file now and at each change, as for a pod that mounts it."""
        written = threading.Event()
        file.parent.mkdir(exist_ok=True)

        def look(event: dict[str, Any]) -> None:
            text = event["object"].get("data", {}).get(key)
            if text is not None and event["type"] != "DELETED":
                # Renamed into place, so that nobody reads half of it.
                scratch = file.with_name(f".{file.name}")
                scratch.write_text(text)
                scratch.rename(file)
                written.set()

        path = f"/api/v1/namespaces/{namespace}/configmaps"
        watch = ApiWatch(self.plane, path, lambda event: look(event) if _name_of(event) == name else None)
        self._watches.append(watch)
        watch.start()
        written.wait(PATIENCE)

    def add_nodes(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Create nodes; the player makes them Ready."""
        self.apply(nodes)

    def stop_program(self, program: Program) -> None:
        """Stop one program before the others."""
        with suppress(ValueError):
            self.plane.running.remove(program)
        program.stop()


def manifests(file: Path) -> list[dict[str, Any]]:
    """The objects in a file; installers have a megabyte of them, which only the loader in C reads quickly."""
    return [one for one in yaml.load_all(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if one]


def access() -> list[dict[str, Any]]:
    """Our scheduler's account and rights."""
    return [one for one in manifests(DEPLOYED) if one["kind"] in _OF_ACCESS]


def _name_of(event: dict[str, Any]) -> str:
    name: str = event["object"].get("metadata", {}).get("name", "")
    return name


def node(
    name: str, cpu: int, memory: str, labels: Mapping[str, str] | None = None, taint: str = "", pods: int = 110
) -> dict[str, Any]:
    """A Linux node; the taint, if any, is one with the effect NoSchedule, as KEY=VALUE."""
    key, _, value = taint.partition("=")
    size = {"cpu": str(cpu), "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    fixed = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**fixed, **(labels or {})}},
        "spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]} if taint else {},
        "status": {"capacity": size, "allocatable": size},
    }

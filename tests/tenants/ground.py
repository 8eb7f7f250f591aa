"""The ground of both tenants: real parts with RBAC, one server, and kubelets that believe what HAMi's believe."""

import base64
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.chaos.arena import HASTE, HOOKS, Stage
from tests.chaos.scheduler.history import follow
from tests.chaos.scheduler.jobs import PRIORITIES, QUEUES
from tests.chaos.vigil import Vigil
from tests.config.texts import KAI_DEFAULT
from tests.e2e.batching import SCHEDULER as BATCH
from tests.e2e.batching import Scheduler
from tests.e2e.extending import SCHEDULER as EXTENDED
from tests.e2e.extending import Command, Extender
from tests.scenario import plain, pod
from tests.tenants.adversary import Access
from tests.tenants.kubelets import Kubelets
from tests.tenants.ledger import HONEST, HOSTILE, Ledger
from tests.waiting import until
from tonnage.devices.catalog import default_vendors
from tonnage.lab import definitions
from tonnage.lab.api import Api, ApiError, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports
from tonnage.lab.schedulers import extender_configuration
from tonnage.model.node import Node
from tonnage.policies.nodenames import node_names
from tonnage.policies.options import PolicyOptions
from tonnage.policies.writers import writers

EXTENDER, SCHEDULER = "extender", "scheduler"
CARDS = 4
_BRIEFLY = "  - name: minruntime\n    arguments: {defaultPreemptMinRuntime: 1s, defaultReclaimMinRuntime: 1s}\n"
_CONFIGURATION = KAI_DEFAULT.replace("  - name: minruntime\n", _BRIEFLY)
"""KAI's own, under which a job that has started may run for a second before it makes room."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
_FORBIDDEN, _INVALID = 403, 422
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view")
"""What the controller of aggregated roles, which does not run here, makes the role `edit` of."""


class Ground(Stage):
    """A cluster, its server and its tenants."""

    def __init__(self, plane: ControlPlane, server: str, nodes: int, is_sharing: bool) -> None:
        self.plane, self.api, self.server, self._is_sharing = plane, plane.api, server, is_sharing
        self.nodes, self.cards = nodes, CARDS
        self.names = [f"n{number:02}" for number in range(nodes)]
        (self.metrics_port,) = free_ports(1)

    @property
    def scheduler_name(self) -> str:
        return EXTENDED if self.server == EXTENDER else BATCH

    @property
    def queues(self) -> list[str]:
        """The queues that a tenant may name, of those that there are."""
        return [HOSTILE] if self.server == SCHEDULER else []

    def node(self, number: int) -> Node:
        """With the batch scheduler every third node offers whole cards, unless all of them are to share theirs."""
        if self.server == SCHEDULER and number % 3 == 2 and not self._is_sharing:
            return plain(f"n{number:02}", self.cards, gpu_memory=1000)
        return super().node(number)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def tenant(self, namespace: str) -> Access:
        """The token of a service account that may edit its namespace and its PodGroups, and nothing else."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.api.create(account, {"metadata": {"name": "tenant"}})
        groups = {"apiGroups": ["scheduling.run.ai", "scheduling.volcano.sh"], "resources": ["podgroups"]}
        rules = [{**groups, "verbs": ["get", "list", "create", "patch", "update", "delete"]}]
        self.api.create(f"{_RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "groups"}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}
        for kind, role in (*(("ClusterRole", one) for one in _EDIT), ("Role", "groups")):
            name = role.replace(":", "-")
            given = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
            body = {"metadata": {"name": name}, "roleRef": given, "subjects": [subject]}
            self.api.create(f"{_RBAC}/namespaces/{namespace}/rolebindings", body)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.api.create(f"{account}/tenant/token", request)["status"]["token"]
        return Access(self.plane.server, token, str(self.plane.authority))

    def restrict(self, namespace: str) -> None:
        """Quotas that keep a tenant from what Kubernetes itself would let it do to others."""
        system = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
        critical = {**system, "values": ["system-cluster-critical"]}
        crossing = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
        for name, scope in {"node-critical": system, "critical": critical, "crossing": crossing}.items():
            spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
            self.api.create(
                f"/api/v1/namespaces/{namespace}/resourcequotas", {"metadata": {"name": name}, "spec": spec}
            )

    def prepare(self) -> None:
        """Definitions, priority classes, queues and nodes."""
        definitions.install(self.api)
        for name, value in PRIORITIES.items():
            made: dict[str, Any] = {"metadata": {"name": name}, "value": value}
            self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", made)
        if self.server == SCHEDULER:
            free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
            total = self.nodes * self.cards
            for name, share, most in ((HONEST, total - CARDS, -1), (HOSTILE, CARDS, CARDS)):
                gpu = {"quota": share, "limit": most, "overQuotaWeight": 1}
                made = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}
                self.api.create(QUEUES, {**made, "spec": {"resources": {"gpu": gpu, "cpu": free, "memory": free}}})
        self.create_nodes()
        self._refuse_direct_pods()

    def _refuse_direct_pods(self) -> None:
        """Enforce the one policy that code cannot replace.

        HAMi's plugins may take a pod that is created on a node, and requests devices, for another one. All reserved
        keys stay open to tenants, so that the code must stand alone.
        """
        options = PolicyOptions(vendors=tuple(default_vendors()), enforce=True)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": options.namespace}})
        for document in (*writers(options), *node_names(options)):
            self.api.create(_POLICIES[document["kind"]].format(namespace=options.namespace), document)
        direct = pod_manifest(pod("direct", 1, on=self.names[0]))

        def is_refused() -> bool:
            try:
                self.api.request("POST", pods_path(), direct, query={"dryRun": "All"})
            except ApiError as error:
                return error.status in (_FORBIDDEN, _INVALID)
            return False

        until(is_refused, "the policy about direct pods does not come into force")


class Scene:
    """One run on a ground: what watches and plays there."""

    def __init__(self, ground: Ground, command: Command) -> None:
        self.ledger = Ledger(ground.api)
        self.kubelets = Kubelets(ground.plane, self.ledger)
        self.follower = follow(ground.plane, self.ledger)
        self.watch(command)

    def watch(self, command: Command) -> None:
        """Watch the process that runs now."""
        self.vigil = Vigil(command)

    def stop(self) -> None:
        self.vigil.stop()
        self.follower.stop()
        self.kubelets.stop()


@contextmanager
def ground(server: str, nodes: int, is_sharing: bool = False) -> Iterator[tuple[Ground, Command]]:
    """Everything started; everything ends with it."""
    with ControlPlane() as plane:
        made = Ground(plane, server, nodes, is_sharing)
        made.prepare()
        with _extender(made) if server == EXTENDER else _scheduler(made) as command:
            yield made, command


@contextmanager
def _scheduler(ground: Ground) -> Iterator[Command]:
    config = ground.plane.folder / "scheduler.yaml"
    config.write_text(_CONFIGURATION)
    log = ground.plane.folder / "tonnage-scheduler.log"
    scheduler = Scheduler(ground.plane.kubeconfig(), log, "--config", str(config), "--no-leader-elect")
    ground.metrics_port = scheduler.port
    try:
        yield scheduler
    finally:
        scheduler.stop()


@contextmanager
def _extender(ground: Ground) -> Iterator[Command]:
    """The extender with kube-scheduler and as webhook, over TLS with the API server's certificate."""
    plane = ground.plane
    certificate, key = plane.authority, plane.authority.with_suffix(".key")
    flags = (f"--cert-file={certificate}", f"--key-file={key}", f"--scheduler-name={EXTENDED}")
    flags += (f"--metrics-bind-address=127.0.0.1:{ground.metrics_port}",)
    trusts = ssl.create_default_context(cafile=str(certificate))
    extender = Extender(plane.kubeconfig(), plane.folder / "extender.log", *flags, tls=trusts)
    try:
        bundle = base64.b64encode(certificate.read_bytes()).decode()
        settings = {**extender_configuration(extender.port), **HASTE}
        settings["extenders"][0] |= {
            "urlPrefix": f"https://127.0.0.1:{extender.port}",
            "enableHTTPS": True,
            "tlsConfig": {"caData": bundle},
        }
        scheduler = plane.run_scheduler(settings)
        try:
            hook = {
                "name": "vgpu.hami.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": f"https://127.0.0.1:{extender.port}/webhook", "caBundle": bundle},
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 3,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
            ground.api.create(HOOKS, {"metadata": {"name": "tonnage-webhook"}, "webhooks": [hook]})
            yield extender
        finally:
            scheduler.stop()
    finally:
        extender.stop()


def cleared(ground: Ground, *namespaces: str) -> None:
    """Remove all pods of these namespaces, also those that are kept by finalizers."""
    for namespace in namespaces:
        path = f"/api/v1/namespaces/{namespace}/pods"

        def is_empty(path: str = path) -> bool:
            pods = ground.api.get(path)["items"]
            for one in pods:
                _force(ground.api, f"{path}/{one['metadata']['name']}", "finalizers" in one["metadata"])
            return not pods

        until(is_empty, f"pods of {namespace} stay")


def _force(api: Api, path: str, is_kept: bool) -> None:
    try:
        if is_kept:
            api.patch(path, {"metadata": {"finalizers": None}})
        api.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise

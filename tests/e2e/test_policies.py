"""The admission policies in `deploy/manifests`, on a real API server: tenants with a namespace's edit role attack.

No controller aggregates ClusterRoles here, so tenants get the two roles that `edit` aggregates.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e import batching, extending
from tests.e2e.batching import scheduling
from tests.e2e.deployment import PATHS, apply, leader_flags, objects
from tests.e2e.extending import extended
from tests.scenario import node
from tests.waiting import until
from tonnage.cluster.jobs.group import LAST_START, STALE_SINCE
from tonnage.devices.catalog import default_vendors
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.definitions import KAI_GROUPS, VOLCANO, install
from tonnage.policies.documents import API_VERSION
from tonnage.policies.expressions import MOST_KEYS
from tonnage.policies.keys import POD, registry
from tonnage.policies.queues import LABEL
from tonnage.policies.reservedkeys import POD_POLICY
from tonnage.policies.writers import WRITERS

TEAM, OTHER = "team-a", "team-b"
PODS = pods_path(TEAM)
NODE = "/api/v1/nodes/n1"
ALLOCATED, TO_ALLOCATE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
PHASE, LOCK, MIG = "hami.io/bind-phase", "hami.io/mutex.lock", "hami.io/vgpu-mig-allocations"
CARD = "GPU-0,NVIDIA,1000,0:;"
FORBIDDEN = 403
_KINDS = {
    **PATHS,
    "ValidatingAdmissionPolicy": f"/apis/{API_VERSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"/apis/{API_VERSION}/validatingadmissionpolicybindings",
}
_RBAC = "rbac.authorization.k8s.io"


class Kubelet(Api):
    """An administrator who impersonates the kubelet of a node."""

    def __init__(self, plane: ControlPlane, node_name: str) -> None:
        super().__init__(plane.server, plane.token, str(plane.authority))
        self._headers |= {"Impersonate-User": f"system:node:{node_name}", "Impersonate-Group": "system:nodes"}


class Cluster:
    """A control plane with the policies, two tenants and the accounts that write reserved keys."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = plane.api
        self._opened: list[Api] = []
        install(self.admin)
        apply(plane, "extender", "Namespace", *_RIGHTS)
        apply(plane, "scheduler", *_RIGHTS)
        for namespace in (TEAM, OTHER):
            self.admin.create(PATHS["Namespace"], {"metadata": {"name": namespace}})
        self.tenant = self._tenant(TEAM)
        self.extender = self.account("tonnage", "tonnage-extender")
        self.scheduler = self.account("tonnage", "tonnage-scheduler")
        self.plugin = self._account_with("kube-system", "hami-device-plugin", _PLUGIN_RULES)
        self.controller = self._account_with("kube-system", "replicaset-controller", [])
        self.operator = self._account_with(TEAM, "operator", _OPERATOR_RULES)
        self.kubelet = self._kubelet("n1")
        self.admin.create("/api/v1/nodes", {"metadata": {"name": "n1"}})

    def account(self, namespace: str, name: str) -> Api:
        """The access of a service account that exists."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.admin.create(path, asked)["status"]["token"]
        self._opened.append(Api(self.plane.server, token, str(self.plane.authority)))
        return self._opened[-1]

    def close(self) -> None:
        for opened in self._opened:
            opened.close()

    def _tenant(self, namespace: str) -> Api:
        """A tenant with the edit role in its namespace, and with rights to PodGroups there."""
        self._create_account(namespace, "tenant")
        rules = [
            {
                "apiGroups": ["scheduling.volcano.sh", "scheduling.run.ai"],
                "resources": ["podgroups"],
                "verbs": ["*"],
            }
        ]
        role = {"metadata": {"name": "podgroups"}, "rules": rules}
        self.admin.create(PATHS["Role"].format(namespace=namespace), role)
        for kind, name in (
            ("Role", "podgroups"),
            ("ClusterRole", "system:aggregate-to-edit"),
            ("ClusterRole", "system:aggregate-to-view"),
        ):
            subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}
            given = _binding(name, kind, subject)
            self.admin.create(PATHS["RoleBinding"].format(namespace=namespace), given)
        return self.account(namespace, "tenant")

    def _kubelet(self, node_name: str) -> Api:
        """The administrator as the kubelet of a node, with the right to create pods."""
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
        self.admin.create(PATHS["ClusterRole"], {"metadata": {"name": "kubelets"}, "rules": rules})
        subject = {"apiGroup": _RBAC, "kind": "Group", "name": "system:nodes"}
        self.admin.create(PATHS["ClusterRoleBinding"], _binding("kubelets", "ClusterRole", subject))
        self._opened.append(Kubelet(self.plane, node_name))
        return self._opened[-1]

    def _account_with(self, namespace: str, name: str, rules: list[dict[str, Any]]) -> Api:
        self._create_account(namespace, name)
        if rules:
            self.admin.create(PATHS["ClusterRole"], {"metadata": {"name": name}, "rules": rules})
            subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
            self.admin.create(PATHS["ClusterRoleBinding"], _binding(name, "ClusterRole", subject))
        return self.account(namespace, name)

    def _create_account(self, namespace: str, name: str) -> None:
        self.admin.create(PATHS["ServiceAccount"].format(namespace=namespace), {"metadata": {"name": name}})

    def install(self, file: str) -> None:
        """Apply a file, as `kubectl apply -f` does."""
        for thing in objects(file):
            path = _KINDS[thing["kind"]].format(namespace=thing["metadata"].get("namespace", ""))
            self.admin.request("POST", path, thing, query={"fieldValidation": "Strict"})

    def enforce(self) -> None:
        """Switch every policy to Deny, as the page says."""
        path = _KINDS["ValidatingAdmissionPolicyBinding"]
        for found in self.admin.get(path)["items"]:
            self.admin.patch(f"{path}/{found['metadata']['name']}", {"spec": {"validationActions": ["Deny", "Audit"]}})

    def try_out(self, path: str, body: object) -> None:
        """Create an object as the tenant, without a trace."""
        self.tenant.request("POST", path, body, query={"dryRun": "All"})

    def pod(self, name: str, **metadata: Any) -> str:
        """A tenant's pod as its owner creates it; its path."""
        self.tenant.create(PODS, manifest(name, **metadata))
        return f"{PODS}/{name}"


_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_PLUGIN_RULES = [
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch", "update", "patch"]}
]
_OPERATOR_RULES = [
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
]


def _binding(name: str, kind: str, subject: dict[str, str]) -> dict[str, Any]:
    role = {"apiGroup": _RBAC, "kind": kind, "name": name}
    return {"metadata": {"name": name.replace(":", "-")}, "roleRef": role, "subjects": [subject]}


def manifest(name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "practice"}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def requesting(name: str, *, init: bool = False, node_name: str = "n1", **amounts: str) -> dict[str, Any]:
    """A pod on a node, one of whose containers requests these amounts; a/b is written a__b."""
    made = manifest(name)
    limits = {key.replace("__", "/").replace("_", "."): value for key, value in amounts.items()}
    asking = {"name": "asking", "image": "practice", "resources": {"limits": limits}}
    made["spec"].setdefault("initContainers" if init else "containers", []).append(asking)
    made["spec"]["nodeName"] = node_name
    return made


def group(name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"minMember": 1, **fields}}


def groups_path(api: str, namespace: str = TEAM) -> str:
    return f"{api}/namespaces/{namespace}/podgroups"


VOLCANO_GROUP = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
KAI_GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}


def annotated(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def refusal(call: Callable[[], Any]) -> str:
    """The sentence with which the API server refuses."""
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.status == FORBIDDEN, caught.value
    assert "ValidatingAdmissionPolicy" in str(caught.value), caught.value
    return str(caught.value)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as plane:
        made = Cluster(plane)
        made.install("policies")
        yield made
        made.close()


@pytest.fixture(scope="module")
def enforced(cluster: Cluster) -> Cluster:
    cluster.enforce()
    until(lambda: _is_refused(cluster), "the policies do not refuse")
    return cluster


def _is_refused(cluster: Cluster) -> bool:
    """The API server needs a moment to learn of policies."""
    probes = [
        (PODS, manifest("probe", annotations={PHASE: "allocating"})),
        (groups_path(VOLCANO), VOLCANO_GROUP | group("probe", priorityClassName="system-node-critical")),
        (PODS, requesting("probe", nvidia_com__gpu="1")),
    ]
    return all(_fails(lambda path=path, body=body: cluster.try_out(path, body)) for path, body in probes)  # type: ignore[misc]


def _fails(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ApiError:
        return True
    return False


def test_as_shipped_the_policies_only_count_what_they_would_refuse(cluster: Cluster) -> None:
    def warned() -> bool:
        cluster.try_out(PODS, manifest("hostile", annotations={ALLOCATED: CARD}))
        lines = str(cluster.admin.get("/metrics")).splitlines()
        told = [line for line in lines if line.startswith("apiserver_validating_admission_policy_check_total")]
        return any(f'policy="{POD_POLICY}"' in line and 'enforcement_action="warn"' in line for line in told)

    until(warned, "nothing is counted")


@pytest.mark.parametrize(
    "key",
    [ALLOCATED, TO_ALLOCATE, PHASE, MIG, "predicate-time", "iluvatar.ai/predicate-gpu-idx-7", "tonnage.io/requeued"],
)
def test_a_tenant_cannot_write_what_devices_its_pod_has(enforced: Cluster, key: str) -> None:
    told = refusal(lambda: enforced.pod("p", annotations={key: "x"}))
    assert f"only schedulers and device plugins may write the annotation {key}" in told
    assert WRITERS in told
    path = enforced.pod("p")
    refusal(lambda: enforced.tenant.patch(path, annotated({key: "x"})))
    # What is there already may stay, and its author may change everything else.
    enforced.plugin.patch(path, annotated({key: "x"}))
    enforced.tenant.patch(path, annotated({key: "x", "mine": "y"}))
    refusal(lambda: enforced.tenant.patch(path, annotated({key: "y"})))
    refusal(lambda: enforced.tenant.patch(path, annotated({key: None})))
    enforced.tenant.delete(path)


@pytest.mark.parametrize("key", ["hami.io/vgpu-node", "runai-gpu-group", "runai-gpu-group/card-1"])
def test_a_tenant_cannot_join_a_card_by_a_label(enforced: Cluster, key: str) -> None:
    told = refusal(lambda: enforced.try_out(PODS, manifest("p", labels={key: "x"})))
    assert f"only schedulers and device plugins may write the label {key}" in told
    path = enforced.pod("p", labels={"app": "mine"})
    refusal(lambda: enforced.tenant.patch(path, {"metadata": {"labels": {key: "x"}}}))
    enforced.tenant.patch(path, {"metadata": {"labels": {"app": "ours"}}})
    enforced.tenant.delete(path)


def test_there_is_no_way_around_by_a_status_or_a_binding(enforced: Cluster) -> None:
    path = enforced.pod("p")
    target = {"target": {"kind": "Node", "name": "n1"}}
    hostile = annotated({ALLOCATED: CARD}) | target
    # The edit role has no such rights, and with them the policy refuses.
    for attempt in (
        lambda user: user.patch(f"{path}/status", annotated({ALLOCATED: CARD})),
        lambda user: user.create(f"{path}/binding", hostile | {"metadata": {"name": "p", **hostile["metadata"]}}),
        lambda user: user.create(
            f"/api/v1/namespaces/{TEAM}/bindings", hostile | {"metadata": {"name": "p", **hostile["metadata"]}}
        ),
    ):
        with pytest.raises(ApiError, match=r"cannot (patch|create) resource"):
            attempt(enforced.tenant)
        refusal(lambda attempt=attempt: attempt(enforced.operator))  # type: ignore[misc]
    enforced.operator.patch(f"{path}/status", {"status": {"message": "a report"}})
    enforced.operator.create(f"{path}/binding", {"metadata": {"name": "p"}, **target})
    assert enforced.admin.get(path)["spec"]["nodeName"] == "n1"
    enforced.tenant.delete(path)


def test_a_template_with_reserved_keys_makes_no_pods(enforced: Cluster) -> None:
    told = refusal(lambda: enforced.controller.create(PODS, manifest("copy", annotations={PHASE: "allocating"})))
    assert PHASE in told
    enforced.controller.create(PODS, manifest("copy", annotations={"mine": "x"}))
    enforced.tenant.delete(f"{PODS}/copy")


def test_whatever_users_may_wish_for_is_let_through(enforced: Cluster) -> None:
    wishes = [key for key in registry(default_vendors()) if key.kind == POD and not key.is_reserved]
    annotations = {key.key: "1" for key in wishes if not key.is_label}
    labels = {key.key: "x" for key in wishes if key.is_label}
    path = enforced.pod("wishes", annotations=annotations, labels=labels)
    enforced.tenant.patch(path, annotated(dict.fromkeys(annotations, "2")))
    enforced.tenant.delete(path)


@pytest.mark.parametrize(
    "hostile",
    [
        requesting("p", nvidia_com__gpu="1"),
        requesting("p", init=True, nvidia_com__gpu="1"),
        requesting("p", nvidia_com__gpumem="1000"),
        requesting("p", hygon_com__dcunum="1", cpu="1"),
        requesting("p") | {"metadata": {"name": "p", "annotations": {"gpu-fraction": "0.5"}}},
    ],
    ids=["container", "init container", "memory", "another vendor", "share of a card"],
)
def test_a_tenant_cannot_take_devices_of_a_node_past_the_schedulers(enforced: Cluster, hostile: dict[str, Any]) -> None:
    # A template's author is a controller, which is no scheduler either.
    for author in (enforced.tenant, enforced.controller):
        told = refusal(lambda author=author: author.create(PODS, hostile))  # type: ignore[misc]
        assert "only schedulers may create pods with devices on a node; leave out spec.nodeName" in told
        assert WRITERS in told
    with _masters_write(enforced):
        enforced.admin.request("POST", PODS, hostile, query={"dryRun": "All"})


def test_pods_that_take_nothing_past_the_schedulers_are_let_through(enforced: Cluster) -> None:
    for harmless in (
        requesting("p", cpu="1"),
        requesting("p", example_com__fpga="1"),
        requesting("p", node_name="", nvidia_com__gpu="1"),
    ):
        enforced.try_out(PODS, harmless)
    static = requesting("static-n1", nvidia_com__gpu="1")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    enforced.kubelet.request("POST", PODS, static, query={"dryRun": "All"})


def test_hamis_device_plugin_can_do_its_work(enforced: Cluster) -> None:
    path = enforced.pod("served")
    plugin, server = enforced.plugin, enforced.extender
    registered = {"hami.io/node-nvidia-register": "[]", "hami.io/node-nvidia-score": "[]"}
    plugin.patch(NODE, annotated({**registered, "hami.io/node-handshake": "Reported now"}))
    server.patch(NODE, annotated({LOCK: f"2026-01-01T00:00:00Z,{TEAM},served"}))
    _bind(server, "served")
    # Allocate: the instances, with a precondition; the emptied work list; the phase; the lock.
    version = plugin.get(path)["metadata"]["resourceVersion"]
    made = annotated({MIG: "[]"})
    plugin.patch(path, {"metadata": {**made["metadata"], "resourceVersion": version}})
    plugin.patch(path, annotated({TO_ALLOCATE: ";"}))
    plugin.patch(path, annotated({PHASE: "success"}))
    version = plugin.get(NODE)["metadata"]["resourceVersion"]
    plugin.patch(NODE, {"metadata": {"annotations": {LOCK: None}, "resourceVersion": version}})
    plugin.patch(path, annotated({PHASE: "failed"}))
    enforced.tenant.delete(path)


def test_our_servers_can_do_their_work(enforced: Cluster) -> None:
    for server in (enforced.extender, enforced.scheduler):
        path = enforced.pod("placed")
        server.patch(path, annotated({"tonnage.io/requeued": "2026-01-01T00:00:00Z"}))
        _bind(server, "placed")
        server.patch(path, {"metadata": {"labels": {"hami.io/vgpu-node": "n1"}}})
        server.patch(
            NODE, annotated({LOCK: f"2026-01-01T00:00:00Z,{TEAM},placed", "hami.io/node-handshake": "Requesting_"})
        )
        assert enforced.admin.get(path)["metadata"]["annotations"][ALLOCATED] == CARD
        enforced.tenant.delete(path)
    path = enforced.pod("waiting")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"conditions": [condition], "nominatedNodeName": "n1"}
    enforced.scheduler.patch(f"{path}/status", {"status": status})
    enforced.tenant.delete(path)
    groups = groups_path(VOLCANO)
    enforced.tenant.create(groups, VOLCANO_GROUP | group("gang"))
    enforced.scheduler.patch(f"{groups}/gang", annotated({STALE_SINCE: "2026-01-01T00:00:00Z"}))
    enforced.scheduler.patch(f"{groups}/gang/status", {"status": {"phase": "Inqueue"}})
    enforced.tenant.delete(f"{groups}/gang")


def test_our_servers_accounts_change_nothing_else(enforced: Cluster) -> None:
    path = enforced.pod("p", labels={"app": "mine"}, annotations={"mine": "x"})
    container = {"name": "main", "image": "evil"}
    for server in (enforced.extender, enforced.scheduler):
        for change in (
            annotated({"mine": "y"}),
            annotated({"mine": None}),
            annotated({ALLOCATED: CARD}),
            {"metadata": {"labels": {"app": None}}},
            {"metadata": {"finalizers": ["tonnage.io/mine"]}},
            {"spec": {"containers": [container]}},
        ):
            assert "Tonnage's servers change" in refusal(lambda s=server, c=change: s.patch(path, c))  # type: ignore[misc]
        for change in (
            annotated({"hami.io/node-nvidia-register": "[{}]"}),
            {"metadata": {"labels": {"pool": "mine"}}},
            {"spec": {"unschedulable": True}},
            {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}},
        ):
            refusal(lambda s=server, c=change: s.patch(NODE, c))  # type: ignore[misc]
        refusal(lambda s=server: _bind(s, "p", mine="x"))  # type: ignore[misc]
    for report in ({"phase": "Failed"}, {"podIP": "10.0.0.1"}, {"reason": "Evicted"}):
        refusal(lambda report=report: enforced.scheduler.patch(f"{path}/status", {"status": report}))  # type: ignore[misc]
    refusal(lambda: enforced.scheduler.patch(f"{path}/status", annotated({"mine": "y"})))
    enforced.tenant.delete(path)
    groups = groups_path(KAI_GROUPS)
    enforced.tenant.create(groups, KAI_GROUP | group("gang"))
    refusal(lambda: enforced.scheduler.patch(f"{groups}/gang", {"spec": {"queue": "mine"}}))
    refusal(lambda: enforced.scheduler.patch(f"{groups}/gang", annotated({LAST_START: "x"})))
    enforced.tenant.delete(f"{groups}/gang")


@pytest.mark.parametrize(("api", "header"), [(VOLCANO, VOLCANO_GROUP), (KAI_GROUPS, KAI_GROUP)], ids=["volcano", "kai"])
def test_a_tenants_podgroup_has_no_times_and_no_priority_of_the_systems(
    enforced: Cluster, api: str, header: dict[str, str]
) -> None:
    groups = groups_path(api)
    for key in (LAST_START, STALE_SINCE):
        told = refusal(
            lambda key=key: enforced.try_out(groups, header | group("g", metadata=annotated({key: "2999"})["metadata"]))
        )  # type: ignore[misc]
        assert key in told
    for name in ("system-node-critical", "system-cluster-critical"):
        told = refusal(lambda name=name: enforced.try_out(groups, header | group("g", priorityClassName=name)))  # type: ignore[misc]
        assert "the priority classes system-* are for PodGroups in kube-system" in told
    enforced.tenant.create(groups, header | group("g", priorityClassName="mine"))
    refusal(lambda: enforced.tenant.patch(f"{groups}/g", {"spec": {"priorityClassName": "system-node-critical"}}))
    refusal(lambda: enforced.tenant.patch(f"{groups}/g", annotated({LAST_START: "2999-01-01T00:00:00Z"})))
    enforced.tenant.patch(f"{groups}/g", {"spec": {"minMember": 2}})
    enforced.tenant.delete(f"{groups}/g")
    enforced.admin.create(
        groups_path(api, "kube-system"), header | group("g", priorityClassName="system-node-critical")
    )


def test_a_group_of_users_may_write(enforced: Cluster) -> None:
    hostile = manifest("p", annotations={ALLOCATED: CARD})
    refusal(lambda: enforced.admin.request("POST", PODS, hostile, query={"dryRun": "All"}))
    with _masters_write(enforced):
        refusal(lambda: enforced.try_out(PODS, hostile))


def test_the_extender_itself_works_under_the_policies(enforced: Cluster) -> None:
    plane = enforced.plane
    enforced.admin.create_nodes([node("e1", gpus=2, nvidia__com__gpu=20)])
    # The player of device plugins is the administrator.
    with _masters_write(enforced), extended(plane, user=plane.kubeconfig_of("tonnage", "tonnage-extender")) as world:
        names = [f"e{number}" for number in range(3)]
        enforced.admin.create_pods(extending.wanted(name, 1, memory=1000) for name in names)
        world.until_running(*names)
        until(lambda: "hami.io/vgpu-node" in world.pod("e0")["metadata"].get("labels", {}), "the label is missing")
        assert "ValidatingAdmissionPolicy" not in world.extender.log.read_text()
    enforced.admin.delete(pods_path())
    enforced.admin.delete("/api/v1/nodes/e1")


def test_the_scheduler_itself_works_under_the_policies(enforced: Cluster) -> None:
    plane = enforced.plane
    enforced.admin.create_nodes([node("s1", gpus=2, cpu="8", nvidia__com__gpu=20)])
    user = plane.kubeconfig_of("tonnage", "tonnage-scheduler")
    with _masters_write(enforced), scheduling(plane, *leader_flags(), user=user) as world:
        enforced.admin.create(groups_path(VOLCANO, "default"), VOLCANO_GROUP | group("gang", minMember=2))
        notes = {"scheduling.k8s.io/group-name": "gang"}
        enforced.admin.create_pods([batching.wanted("g0", 1, memory=1000, annotations=notes)])
        world.until_said("g0", "needs 2 pods to start, and there are 1")
        enforced.admin.create_pods([batching.wanted("g1", 1, memory=1000, annotations=notes)])
        world.until_bound("g0", "g1")
        until(lambda: "hami.io/vgpu-node" in world.pod("g0")["metadata"].get("labels", {}), "the label is missing")
        path = f"{groups_path(VOLCANO, 'default')}/gang"
        until(lambda: enforced.admin.get(path).get("status", {}).get("phase") == "Running", "the group has no phase")
        assert "ValidatingAdmissionPolicy" not in world.scheduler.log.read_text()
    enforced.admin.delete(pods_path())
    enforced.admin.delete("/api/v1/nodes/s1")


@contextmanager
def _masters_write(cluster: Cluster) -> Iterator[None]:
    """Administrators may write reserved keys, as one of a group."""
    hostile = manifest("p", annotations={ALLOCATED: CARD})

    def is_refused() -> bool:
        return _fails(lambda: cluster.admin.request("POST", PODS, hostile, query={"dryRun": "All"}))

    path = f"/api/v1/namespaces/tonnage/configmaps/{WRITERS}"
    cluster.admin.patch(path, {"data": {"groups": "# administrators\n  system:masters\n"}})
    until(lambda: not is_refused(), "the group may not write")
    yield
    cluster.admin.patch(path, {"data": {"groups": ""}})
    until(is_refused, "the group may still write")


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_flood_of_keys_is_refused_before_it_costs_those_who_serve_the_pod(enforced: Cluster, field: str) -> None:
    many = {f"k{number}": "" for number in range(MOST_KEYS)}
    told = refusal(lambda: enforced.try_out(PODS, manifest("p", **{field: many | {"more": ""}})))
    assert f"an object has at most {MOST_KEYS} {field}" in told
    path = enforced.pod("p", **{field: many})
    refusal(lambda: enforced.tenant.patch(path, {"metadata": {field: {"more": ""}}}))
    enforced.extender.patch(path, annotated({"tonnage.io/requeued": "2026-01-01T00:00:00Z"}))
    enforced.extender.patch(path, {"metadata": {"labels": {"hami.io/vgpu-node": "n1"}}})
    _bind(enforced.extender, "p")
    enforced.plugin.patch(path, annotated({PHASE: "success"}))
    # It has more now than its author may write, who keeps the right to change all else.
    other = "labels" if field == "annotations" else "annotations"
    enforced.tenant.patch(path, {"metadata": {other: {"mine": "x"}}})
    enforced.operator.patch(f"{path}/status", {"status": {"message": "a report"}})
    enforced.tenant.delete(path)


def test_without_the_list_of_writers_no_pod_is_held_up(enforced: Cluster) -> None:
    path = f"/api/v1/namespaces/tonnage/configmaps/{WRITERS}"
    kept = enforced.admin.get(path)
    enforced.admin.delete(path)
    hostile = manifest("p", annotations={ALLOCATED: CARD})
    until(lambda: not _fails(lambda: enforced.try_out(PODS, hostile)), "pods are held up")
    enforced.admin.create(path.rpartition("/")[0], {"metadata": {"name": WRITERS}, "data": kept["data"]})
    until(lambda: _fails(lambda: enforced.try_out(PODS, hostile)), "the policy is not in force again")


def test_a_namespace_uses_the_queues_that_its_labels_allow(enforced: Cluster) -> None:
    enforced.install("optional/queues")
    enforced.enforce()
    namespace = f"{PATHS['Namespace']}/{TEAM}"
    enforced.admin.patch(namespace, {"metadata": {"labels": {f"{LABEL}ours": "true", f"{LABEL}closed": "false"}}})

    def ways(queue: str) -> list[tuple[str, dict[str, Any]]]:
        return [
            (PODS, manifest("p", annotations={"tonnage.io/queue": queue})),
            (PODS, manifest("p", annotations={"scheduling.volcano.sh/queue-name": queue})),
            (PODS, manifest("p", labels={"kai.scheduler/queue": queue})),
            (groups_path(VOLCANO), VOLCANO_GROUP | group("g", queue=queue)),
            (groups_path(KAI_GROUPS), KAI_GROUP | group("g", queue=queue)),
            (groups_path(KAI_GROUPS), KAI_GROUP | group("g", metadata={"labels": {"kai.scheduler/queue": queue}})),
        ]

    until(lambda: all(_fails(lambda w=way: enforced.try_out(*w)) for way in ways("theirs")), "not refused")  # type: ignore[misc]
    for queue in ("theirs", "closed"):
        for way in ways(queue):
            told = refusal(lambda way=way: enforced.try_out(*way))  # type: ignore[misc]
            assert f"namespace {TEAM} may not use the queue {queue}" in told
    for way in [way for queue in ("ours", "default", "default-queue", "") for way in ways(queue)]:
        enforced.try_out(*way)
    path = enforced.pod("p", annotations={"tonnage.io/queue": "ours"})
    refusal(lambda: enforced.tenant.patch(path, annotated({"tonnage.io/queue": "theirs"})))
    # A pod that has a queue keeps it.
    enforced.admin.patch(namespace, {"metadata": {"labels": {f"{LABEL}ours": None}}})
    until(lambda: _fails(lambda: enforced.try_out(*ways("ours")[0])), "the queue is still allowed")
    enforced.tenant.patch(path, annotated({"mine": "x"}))
    enforced.tenant.delete(path)


def _bind(server: Api, name: str, **more: str) -> None:
    annotations = {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1",
        "hami.io/bind-time": "1",
        PHASE: "allocating",
        ALLOCATED: CARD,
        TO_ALLOCATE: CARD,
        **more,
    }
    body = {"metadata": {"name": name, "annotations": annotations}, "target": {"kind": "Node", "name": "n1"}}
    server.create(f"{PODS}/{name}/binding", body)

"""The agent's manifests: the API server takes them, and an agent can do its work with the rights they give.

The policies are enforced: what an agent may do on its own node it may do nowhere else.
"""

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.agent.nvml.fakelibrary import VARIABLE, InventedCards, library, needs_cc
from tests.agent.played_kubelet import AdmissionError
from tests.e2e.deployment import NOBODYS, PATHS, account_of, apply, containers_of, may, objects, pod_of
from tests.e2e.test_agent import NODE, bind, cards_of, eventually, kubelet_in, phase, refused_pods, running
from tests.waiting import until
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports
from tonnage.policies.documents import API_VERSION

HOME = "tonnage-agent"
ACCOUNT = account_of("agent", "agent")
OTHER = "gpu-2"
_POLICIES = {
    "ConfigMap": PATHS["ConfigMap"],
    "ValidatingAdmissionPolicy": f"/apis/{API_VERSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"/apis/{API_VERSION}/validatingadmissionpolicybindings",
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        apply(made, "agent")
        made.api.create(PATHS["Namespace"], {"metadata": {"name": "tonnage"}})
        for thing in objects("policies"):
            if thing["kind"].endswith("Binding"):
                thing["spec"]["validationActions"] = ["Deny", "Audit"]
            path = _POLICIES[thing["kind"]].format(namespace=thing["metadata"].get("namespace", ""))
            made.api.create(path, thing)
        # Who plays the scheduler here is an administrator.
        writers = f"{PATHS['ConfigMap'].format(namespace='tonnage')}/tonnage-writers"
        made.api.patch(writers, {"data": {"groups": "system:masters\n"}})
        for name in (NODE, OTHER):
            made.api.create("/api/v1/nodes", {"metadata": {"name": name}})
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, for sockets."""
    with TemporaryDirectory(prefix="agent-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def token(plane: ControlPlane) -> str:
    """The token that the kubelet gives to the agent's pod on the node, which names both."""
    pod = pod_of("agent")
    pod["metadata"] |= {"name": f"agent-{NODE}"}
    pod["spec"]["nodeName"] = NODE
    uid = plane.api.create(pods_path(HOME), pod)["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": f"agent-{NODE}", "uid": uid}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    path = f"{PATHS['ServiceAccount'].format(namespace=HOME)}/{ACCOUNT}/token"
    return str(plane.api.create(path, asked)["status"]["token"])


def flags_of_the_manifest(folder: Path) -> list[str]:
    """The agent's command line as deployed, with other places; the library is what the other container leaves."""
    (folder / "library").mkdir()
    (folder / "library/libvgpu.so").write_bytes(b"\x7fELF")
    (config,) = [thing for thing in objects("agent") if thing["kind"] == "ConfigMap"]
    (folder / "config").mkdir()
    for name, text in config["data"].items():
        (folder / "config" / name).write_text(text)
    (port,) = free_ports(1)
    name, *arguments = containers_of("agent")["agent"]["args"]
    assert name == "agent"
    moved = [
        one.replace("=/config/", f"={folder}/config/").replace("=/library/", f"={folder}/library/") for one in arguments
    ]
    moved = [one.replace("=:9394", f"=127.0.0.1:{port}") for one in moved if not one.startswith("--host-root")]
    return [*moved, "--nvml-library", str(library())]


@needs_cc
def test_as_deployed_and_with_policies_enforced_an_agent_does_its_work(
    plane: ControlPlane, token: str, folder: Path
) -> None:
    path, lock = f"/api/v1/nodes/{NODE}", "hami.io/mutex.lock"
    cards, log = InventedCards(folder / "cards"), folder / "agent.log"
    flags = flags_of_the_manifest(folder)
    ((address,),) = [[one.partition("=")[2] for one in flags if one.startswith("--metrics-bind-address")]]

    def is_ready() -> bool:
        connection = http.client.HTTPConnection(address, timeout=5)
        try:
            connection.request("GET", containers_of("agent")["agent"]["readinessProbe"]["httpGet"]["path"])
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    async def scene() -> None:
        kubeconfig = plane.kubeconfig("agent", token)
        async with kubelet_in(folder) as kubelet:
            with running(plane, folder, *flags, kubeconfig=kubeconfig, **{VARIABLE: str(cards.file)}):
                await eventually(lambda: len(cards_of(plane)) == 8 and kubelet.devices, "the agent does not start")
                await eventually(is_ready, "it is not ready")
                card = cards_of(plane)[0]
                plane.api.patch(path, {"metadata": {"annotations": {lock: "2026-01-01T00:00:00Z,default,train"}}})
                answer = (await kubelet.admit(bind(plane, "train", f"{card},NVIDIA,1000,10:;")))["c0"]
                assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1000m"
                await eventually(lambda: phase(plane, "train") == "success", "the turn is not closed")
                await eventually(lambda: lock not in plane.api.get(path)["metadata"]["annotations"], "the lock stays")
                with pytest.raises(AdmissionError):
                    await kubelet.admit(bind(plane, "greedy", f"{card},NVIDIA,99999,10:;"))
                await eventually(lambda: phase(plane, "greedy") == "failed", "the refusal is not written")
                await eventually(lambda: "greedy" in refused_pods(plane), "the pod has no Event")
        assert "orbidden" not in log.read_text()
        assert "libvgpu.so." in str(list((folder / "root/usr/local/vgpu").iterdir()))

    asyncio.run(scene())


def refused(api: Api, path: str, body: Any) -> str:
    with pytest.raises(ApiError) as error:
        api.patch(path, body)
    assert error.value.status == http.client.FORBIDDEN
    return str(error.value)


def test_an_agent_changes_nothing_of_other_nodes_and_only_its_own_keys(plane: ControlPlane, token: str) -> None:
    agent = Api(plane.server, token, str(plane.authority))
    try:
        for name, node in (("here", NODE), ("there", OTHER)):
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}
            plane.api.create(pods_path(), {"metadata": {"name": name, "annotations": {"mine": "x"}}, "spec": spec})
        done = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
        agent.patch(f"{pods_path()}/here", done)
        assert "only on the node that they run on" in refused(agent, f"{pods_path()}/there", done)
        register = {"metadata": {"annotations": {"hami.io/node-nvidia-register": "[]"}}}
        agent.patch(f"/api/v1/nodes/{NODE}", register)
        assert "only on the node that they run on" in refused(agent, f"/api/v1/nodes/{OTHER}", register)
        for change in (
            {"metadata": {"annotations": {"mine": "y"}}},
            {"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1,1:;"}}},
            {"metadata": {"labels": {"app": "mine"}}},
            {"metadata": {"finalizers": ["tonnage.io/mine"]}},
            {"spec": {"containers": [{"name": "c", "image": "evil"}]}},
        ):
            assert "Tonnage's agents change" in refused(agent, f"{pods_path()}/here", change)
        for change in (
            {"metadata": {"labels": {"pool": "mine"}}},
            {"spec": {"unschedulable": True}},
            {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}},
        ):
            assert "Tonnage's agents change" in refused(agent, f"/api/v1/nodes/{NODE}", change)
    finally:
        agent.close()


def test_a_token_that_names_no_node_changes_nothing(plane: ControlPlane) -> None:
    path = f"{PATHS['ServiceAccount'].format(namespace=HOME)}/{ACCOUNT}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    api = Api(plane.server, plane.api.create(path, asked)["status"]["token"], str(plane.authority))
    try:
        change = {"metadata": {"annotations": {"hami.io/node-nvidia-register": "[]"}}}
        assert "only on the node that they run on" in refused(api, f"/api/v1/nodes/{OTHER}", change)
    finally:
        api.close()


def test_an_agent_has_no_right_that_none_needs(plane: ControlPlane) -> None:
    more = [
        ("delete", "", "pods", ""),
        ("create", "", "pods/binding", ""),
        ("create", "", "pods/eviction", ""),
        ("patch", "", "pods/status", ""),
        ("get", "", "configmaps", ""),
        ("update", "", "events", ""),
    ]
    assert [what for what in (*NOBODYS, *more) if may(plane, ACCOUNT, what, HOME)] == []
    needed = [
        ("watch", "", "pods", ""),
        ("patch", "", "pods", ""),
        ("patch", "", "nodes", ""),
        ("create", "", "events", ""),
    ]
    assert [what for what in needed if not may(plane, ACCOUNT, what, HOME)] == []


def test_an_update_never_leaves_a_node_without_an_agent(plane: ControlPlane) -> None:
    for file in ("agent", "optional/invented-cards"):
        (made,) = [thing for thing in objects(file) if thing["kind"] == "DaemonSet"]
        assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        spec = made["spec"]["template"]["spec"]
        # Two agents of a node live side by side for a while, so they share no port and no network of the node.
        assert not spec.get("hostNetwork")
        for one in spec["containers"]:
            assert not any("hostPort" in port for port in one["ports"])
            assert not one["securityContext"].get("privileged")
            assert one["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_the_manifests_for_trials_are_taken(plane: ControlPlane) -> None:
    for thing in objects("optional/invented-cards"):
        if thing["kind"] == "NetworkPolicy":
            continue  # it is about both kinds of agents, and there already
        path = PATHS[thing["kind"]].format(namespace=HOME)
        plane.api.request("POST", path, thing, query={"fieldValidation": "Strict"})
        until(lambda p=path, t=thing: plane.api.get(f"{p}/{t['metadata']['name']}"), "it is not there")

"""The manifests in `deploy/`: the API server takes them, and each process can do its work with the rights they give."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import tonnage
from tests.e2e.certificates import self_signed
from tests.e2e.deployment import NOBODYS, PATHS, account_of, apply, may, objects, pod_of
from tests.e2e.extending import SCHEDULER, Extender, extended, wanted
from tests.e2e.replicating import bind_by_hand, pair, until_leading
from tests.scenario import node, pod
from tests.server.listening import needs_openssl
from tests.waiting import until
from tonnage.lab.api import ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import playing
from tonnage.lab.schedulers import extender_configuration


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        apply(made, "extender", *(kind for kind in PATHS if kind != "MutatingWebhookConfiguration"))
        apply(made, "scheduler", *(kind for kind in PATHS if kind != "Namespace"))
        made.api.create_nodes([node("a", gpus=2, nvidia__com__gpu=20), node("b", gpus=2, nvidia__com__gpu=20)])
        yield made


def user_of(plane: ControlPlane, container: str) -> Path:
    """A kubeconfig with the rights of a container of the extender's pod, and no others."""
    return plane.kubeconfig_of("tonnage", account_of("extender", container))


def test_the_rights_are_enough_to_place_pods(plane: ControlPlane) -> None:
    with extended(plane, user=user_of(plane, "extender"), scheduler_user=user_of(plane, "kube-scheduler")) as world:
        names = [f"p{number}" for number in range(6)]
        plane.api.create_pods(wanted(name, 1, memory=1000) for name in names)
        world.until_running(*names)
        until(lambda: "hami.io/vgpu-node" in world.pod("p0")["metadata"].get("labels", {}), "the label is missing")
        world.check()
        logs = [world.extender.log.read_text(), (plane.folder / "kube-scheduler.log").read_text()]
        assert not any("orbidden" in text for text in logs)


def test_the_rights_are_enough_for_two_replicas(plane: ControlPlane) -> None:
    user, scheduler_user = user_of(plane, "extender"), user_of(plane, "kube-scheduler")
    plane.api.create_nodes([node("c", gpus=1, nvidia__com__gpu=10)])
    with pair(plane, user, "tonnage") as (first, second), playing(plane):
        first.run_scheduler(scheduler_user)
        until_leading(first)
        second.run_scheduler(scheduler_user)
        plane.api.create_pods(pod(name, 1, memory=5000) for name in ("early", "late"))
        for name in ("early", "late"):
            bind_by_hand(plane.api, name, 5000, on="c")
        plane.api.create_pods([wanted("placed", 1, memory=1000)])
        until(lambda: "nodeName" in plane.api.get(f"{pods_path()}/placed")["spec"], "the pod is not placed")
        late = f"{pods_path()}/late"
        until(lambda: "deletionTimestamp" in plane.api.get(late)["metadata"], "the later pod is not evicted")
        logs = [(plane.folder / name).read_text() for name in ("replica-a.log", "replica-b.log", "kube-scheduler.log")]
        assert not any("orbidden" in text for text in logs)


def test_the_device_configuration_and_the_schedulers_are_what_the_docs_say(tmp_path: Path) -> None:
    maps = {thing["metadata"]["name"]: thing["data"] for thing in objects() if thing["kind"] == "ConfigMap"}
    (tmp_path / "device-config.yaml").write_text(maps["tonnage-devices"]["device-config.yaml"])
    done = tonnage("check", tmp_path / "device-config.yaml")
    assert done.returncode == 0, done.stderr
    given = yaml.safe_load(maps["tonnage-kube-scheduler"]["config.yaml"])
    ours = extender_configuration(8443)
    assert given["percentageOfNodesToScore"] == ours["percentageOfNodesToScore"] == 100
    (theirs,), (mine,) = given["extenders"], ours["extenders"]
    assert {key: theirs[key] for key in ("filterVerb", "bindVerb", "nodeCacheCapable", "httpTimeout")} == {
        key: mine[key] for key in ("filterVerb", "bindVerb", "nodeCacheCapable", "httpTimeout")
    }


KUBE_SCHEDULERS_OWN = [
    ("delete", "", "pods", ""),
    ("patch", "", "pods/status", ""),
    ("list", "", "services", ""),
    ("list", "apps", "replicasets", ""),
    ("list", "", "persistentvolumes", ""),
    ("update", "coordination.k8s.io", "leases", "hami-scheduler"),
    ("create", "coordination.k8s.io", "leases", ""),
    ("create", "authentication.k8s.io", "tokenreviews", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
]
"""Verb, API group, resource and name."""


def test_the_extender_has_none_of_the_rights_that_only_kube_scheduler_needs(plane: ControlPlane) -> None:
    extender, scheduler = (account_of("extender", name) for name in ("extender", "kube-scheduler"))
    assert [what for what in KUBE_SCHEDULERS_OWN if not may(plane, scheduler, what)] == []
    assert [what for what in KUBE_SCHEDULERS_OWN if may(plane, extender, what)] == []
    own = [("patch", "", "nodes", ""), ("patch", "", "pods", ""), ("create", "", "pods/eviction", "")]
    assert [what for what in own if not may(plane, extender, what)] == []
    assert [what for what in own if may(plane, scheduler, what)] == []


@pytest.mark.parametrize(
    ("server", "container"), [("extender", "extender"), ("extender", "kube-scheduler"), ("scheduler",) * 2]
)
def test_no_process_may_do_what_none_needs(plane: ControlPlane, server: str, container: str) -> None:
    account = account_of(server, container)
    assert [what for what in NOBODYS if may(plane, account, what)] == []


def test_only_the_optional_rights_let_a_server_ask_who_scrapes_it(plane: ControlPlane) -> None:
    reviews = [what for what in KUBE_SCHEDULERS_OWN if what[2].endswith("reviews")]
    assert len(reviews) == 2
    for server in ("extender", "scheduler"):
        account = account_of(server, server)
        assert not any(may(plane, account, what) for what in reviews)
        (binding,) = [
            thing for thing in objects("optional/metrics-authorization") if thing["subjects"][0]["name"] == account
        ]
        plane.api.create(PATHS["ClusterRoleBinding"], binding)
        until(lambda of=account: all(may(plane, of, what) for what in reviews), "the rights are not enough")
        assert [what for what in NOBODYS if may(plane, account, what)] == []
        plane.api.delete(f"{PATHS['ClusterRoleBinding']}/{binding['metadata']['name']}")


@pytest.mark.parametrize("server", ["extender", "scheduler"])
def test_the_pods_are_taken_where_the_restricted_level_is_enforced(plane: ControlPlane, server: str) -> None:
    made = pod_of(server)
    made["metadata"] = {**made["metadata"], "generateName": f"{server}-"}
    dry_run = {"dryRun": "All", "fieldValidation": "Strict"}
    plane.api.request("POST", pods_path("tonnage"), made, query=dry_run)
    less: dict[str, Any] = made["spec"]["containers"][0]["securityContext"]
    del less["allowPrivilegeEscalation"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        plane.api.request("POST", pods_path("tonnage"), made, query=dry_run)


@needs_openssl
def test_the_webhook_gives_new_pods_with_devices_to_the_scheduler(plane: ControlPlane, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    flags = (f"--cert_file={certificate}", f"--key_file={key}", f"--scheduler-name={SCHEDULER}")
    user = user_of(plane, "extender")
    context = ssl.create_default_context(cafile=str(certificate))
    extender = Extender(user, tmp_path / "extender.log", *flags, tls=context)
    try:
        (hook,) = [thing for thing in objects() if thing["kind"] == "MutatingWebhookConfiguration"]
        bundle = base64.b64encode(certificate.read_bytes()).decode()
        hook["webhooks"][0]["clientConfig"] = {
            "url": f"https://127.0.0.1:{extender.port}/webhook",
            "caBundle": bundle,
        }
        plane.api.create(PATHS["MutatingWebhookConfiguration"], hook)
        settings = extender_configuration(extender.port)
        settings["extenders"][0] |= {
            "urlPrefix": f"https://127.0.0.1:{extender.port}",
            "enableHTTPS": True,
            "tlsConfig": {"caData": bundle},
        }
        scheduler = plane.run_scheduler(settings, user_of(plane, "kube-scheduler"))
        try:
            with playing(plane):
                probe = pod("probe", cpu="1")
                plane.api.create_pods([probe])
                until(lambda: _is_taken_over(plane), "the webhook is not asked")
                plane.api.create_pods([pod("plain", cpu="1"), pod("shared", memory=1000)])
                assert _scheduler_of(plane, "plain") == "default-scheduler"
                assert _scheduler_of(plane, "shared") == SCHEDULER
                limits = plane.api.get(f"{pods_path()}/shared")["spec"]["containers"][0]["resources"]["limits"]
                assert limits["nvidia.com/gpu"] == "1"
                until(lambda: "nodeName" in plane.api.get(f"{pods_path()}/shared")["spec"], "the pod is not placed")
        finally:
            scheduler.stop()
    finally:
        extender.stop()


def _scheduler_of(plane: ControlPlane, name: str) -> str:
    return str(plane.api.get(f"{pods_path()}/{name}")["spec"]["schedulerName"])


def _is_taken_over(plane: ControlPlane) -> bool:
    """The API server needs a moment to learn of a new webhook."""
    plane.api.create_pods([pod("first", 1, memory=10)])
    taken = _scheduler_of(plane, "first") == SCHEDULER
    plane.api.delete(f"{pods_path()}/first")
    return taken

"""The manifests in `deploy/`: the API server takes them, and the extender can do its work with the rights they give."""

import base64
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.command import tonnage
from tests.e2e.deployment import PATHS, apply, objects
from tests.e2e.extending import SCHEDULER, Extender, configuration, extended, wanted
from tests.e2e.player import playing
from tests.e2e.replicating import bind_by_hand, pair, until_leading
from tests.scenario import node, pod
from tests.waiting import until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        apply(made, "extender", *(kind for kind in PATHS if kind != "MutatingWebhookConfiguration"))
        made.api.create_nodes([node("a", gpus=2, nvidia__com__gpu=20), node("b", gpus=2, nvidia__com__gpu=20)])
        yield made


def test_the_rights_are_enough_to_place_pods(plane: ControlPlane) -> None:
    user = plane.kubeconfig_of("tonnage", "tonnage-extender")
    with extended(plane, user=user) as world:
        names = [f"p{number}" for number in range(6)]
        plane.api.create_pods(wanted(name, 1, memory=1000) for name in names)
        world.until_running(*names)
        until(lambda: "hami.io/vgpu-node" in world.pod("p0")["metadata"].get("labels", {}), "the label is missing")
        world.check()
        assert "Forbidden" not in world.extender.log.read_text()


def test_the_rights_are_enough_for_two_replicas(plane: ControlPlane) -> None:
    user = plane.kubeconfig_of("tonnage", "tonnage-extender")
    plane.api.create_nodes([node("c", gpus=1, nvidia__com__gpu=10)])
    with pair(plane, user, "tonnage") as (first, second), playing(plane):
        first.run_scheduler()
        until_leading(first)
        second.run_scheduler()
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
    ours = configuration(8443)
    assert given["percentageOfNodesToScore"] == ours["percentageOfNodesToScore"] == 100
    (theirs,), (mine,) = given["extenders"], ours["extenders"]
    assert {key: theirs[key] for key in ("filterVerb", "bindVerb", "nodeCacheCapable", "httpTimeout")} == {
        key: mine[key] for key in ("filterVerb", "bindVerb", "nodeCacheCapable", "httpTimeout")
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes certificates, is not installed")
def test_the_webhook_gives_new_pods_with_devices_to_the_scheduler(plane: ControlPlane, tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        key,
        "-out",
        certificate,
    ]
    subprocess.run([*map(str, command), *subject], check=True, capture_output=True)
    flags = (f"--cert_file={certificate}", f"--key_file={key}", f"--scheduler-name={SCHEDULER}")
    user = plane.kubeconfig_of("tonnage", "tonnage-extender")
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
        settings = configuration(extender.port)
        settings["extenders"][0] |= {
            "urlPrefix": f"https://127.0.0.1:{extender.port}",
            "enableHTTPS": True,
            "tlsConfig": {"caData": bundle},
        }
        scheduler = plane.run_scheduler(settings)
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

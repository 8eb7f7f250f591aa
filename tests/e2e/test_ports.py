"""Who may call a real extender: HAMi's command line as it is, a kube-scheduler elsewhere, and scrapers with tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.addresses import ADDRESS, ELSEWHERE, status_of
from tests.e2e.certificates import trusting, web_files
from tests.e2e.extending import SCHEDULER, Extender, wanted
from tests.scenario import node
from tests.server.listening import authority, signed
from tests.waiting import until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import playing
from tonnage.lab.program import free_ports
from tonnage.lab.schedulers import extender_configuration

VERBS = ("/filter", "/prioritize", "/preempt", "/bind")


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def is_placed(plane: ControlPlane, name: str) -> bool:
    return "nodeName" in plane.api.get(f"{pods_path()}/{name}")["spec"]


def test_hamis_arguments_serve_the_kube_scheduler_in_the_pod_and_nobody_else(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    web = web_files(tmp_path)
    # As HAMi's chart has them.
    flags = (
        f"--cert_file={web / 'tls.crt'}",
        f"--key_file={web / 'tls.key'}",
        f"--scheduler-name={SCHEDULER}",
        "--node-scheduler-policy=binpack",
        "--gpu-scheduler-policy=spread",
        "--force-overwrite-default-scheduler=true",
        "-v=4",
    )
    extender = Extender(plane.kubeconfig(), tmp_path / "extender.log", *flags, tls=trusting(web), host="0.0.0.0")
    settings = extender_configuration(extender.port)
    # As the chart has it: kube-scheduler does not check the certificate.
    settings["extenders"][0] |= {
        "urlPrefix": f"https://127.0.0.1:{extender.port}",
        "enableHTTPS": True,
        "tlsConfig": {"insecure": True},
    }
    scheduler = plane.run_scheduler(settings)
    try:
        with playing(plane):
            plane.api.create_pods([wanted("p", 1, memory=1000)])
            until(lambda: is_placed(plane, "p"), "the pod is not placed", extender.log.read_text)
        if ADDRESS:
            outside = f"https://{ADDRESS}:{extender.port}"
            for verb in VERBS:
                status, said = status_of(f"{outside}{verb}", trusting(web), b"{}")
                assert status == 403
                assert "--client-ca-file" in said
            for probe in ("/healthz", "/livez", "/readyz"):
                assert status_of(f"{outside}{probe}", trusting(web)) == (200, "ok")
            assert status_of(f"{outside}/webhook", trusting(web), b"{}")[0] == 400
    finally:
        scheduler.stop()
        extender.stop()


@ELSEWHERE
def test_a_kube_scheduler_elsewhere_places_pods_with_its_client_certificate(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    web = web_files(tmp_path)
    authority(tmp_path / "clients")
    client = signed(tmp_path / "client", tmp_path / "clients", "kube-scheduler", "clientAuth")
    flags = (
        f"--cert-file={web / 'tls.crt'}",
        f"--key-file={web / 'tls.key'}",
        f"--client-ca-file={tmp_path / 'clients' / 'ca.crt'}",
        f"--scheduler-name={SCHEDULER}",
    )
    extender = Extender(plane.kubeconfig(), tmp_path / "extender.log", *flags, tls=trusting(web), host=ADDRESS)
    settings = extender_configuration(extender.port)
    settings["extenders"][0] |= {
        "urlPrefix": f"https://{ADDRESS}:{extender.port}",
        "enableHTTPS": True,
        "tlsConfig": {
            "serverName": "extender",
            "caFile": str(web / "ca.crt"),
            "certFile": str(client / "tls.crt"),
            "keyFile": str(client / "tls.key"),
        },
    }
    scheduler = plane.run_scheduler(settings)
    try:
        with playing(plane):
            plane.api.create_pods([wanted("p", 1, memory=1000)])
            until(lambda: is_placed(plane, "p"), "the pod is not placed", extender.log.read_text)
        assert status_of(f"https://{ADDRESS}:{extender.port}/bind", trusting(web), b"{}")[0] == 403
    finally:
        scheduler.stop()
        extender.stop()


@ELSEWHERE
def test_metrics_are_shown_to_whom_the_api_server_lets_get_them(plane: ControlPlane, tmp_path: Path) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    tokens = {}
    for name in ("prometheus", "somebody"):
        plane.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        tokens[name] = plane.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    plane.api.create(f"{rbac}/clusterroles", {"metadata": {"name": "scraper"}, "rules": rules})
    binding = {
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
    }
    plane.api.create(f"{rbac}/clusterrolebindings", binding)
    web = web_files(tmp_path)
    (port,) = free_ports(1)
    files = (f"--cert-file={web / 'tls.crt'}", f"--key-file={web / 'tls.key'}")
    flags = (*files, f"--metrics-bind-address=:{port}", "--authorize-metrics")
    extender = Extender(plane.kubeconfig(), tmp_path / "extender.log", *flags, tls=trusting(web))
    try:

        def scrape(host: str, token: str = "") -> Any:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return status_of(f"https://{host}:{port}/metrics", trusting(web), headers=headers)

        status, text = scrape(ADDRESS, tokens["prometheus"])
        assert status == 200
        assert "tonnage_build_info" in text
        assert scrape(ADDRESS, tokens["somebody"])[0] == 403
        assert scrape(ADDRESS, "invented")[0] == 401
        assert scrape(ADDRESS)[0] == 401
        assert scrape("127.0.0.1")[0] == 200
        logged = extender.log.read_text()
        assert not any(token in logged for token in tokens.values())
    finally:
        extender.stop()

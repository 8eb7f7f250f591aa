"""Certificates that the extender makes itself, on a real API server: made, renewed, repaired, or their lack said."""

import base64
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.balancing import Balancer
from tests.e2e.deployment import PATHS, apply, containers_of, objects
from tests.e2e.extending import SCHEDULER, Extender
from tests.scenario import pod
from tests.waiting import PATIENCE, until
from tonnage.certificates.material import CertificateUse, decode, renewed
from tonnage.lab.api import ApiError, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

HOOK = f"{PATHS['MutatingWebhookConfiguration']}/tonnage-webhook"
RIGHTS = ("Namespace", "ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
SECRETS = PATHS["Secret"].format(namespace="tonnage")
SECRET = f"{SECRETS}/tonnage-certificate"
_ANYBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_ANYBODY.check_hostname, _ANYBODY.verify_mode = False, ssl.CERT_NONE


class Replicas:
    """Extenders with the deployed rights and flags about certificates, and the webhook that asks them."""

    def __init__(self, plane: ControlPlane, folder: Path, lifetime: str) -> None:
        self.plane, self.api, self._folder, self._lifetime = plane, plane.api, folder, lifetime
        self.user = plane.kubeconfig_of("tonnage", "tonnage-extender")
        self.ports: list[int] = []
        self.running: list[Extender] = []

    def flags(self, name: str) -> list[str]:
        """The flags of the deployment that concern certificates, with other places and a shorter life."""
        place = self._folder / name
        place.mkdir(exist_ok=True)
        (peers,) = free_ports(1)
        found = []
        for one in containers_of("extender")["extender"]["args"]:
            flag, _, value = one.partition("=")
            if "cert" in flag or "peer" in flag or flag in ("--key-file", "--webhook-configuration"):
                value = value.replace("/tls/", f"{place}/").replace("/peers/", f"{place}/peer-")
                found.append(f"{flag}={value}")
        found = [one for one in found if not one.startswith(("--certificate-lifetime", "--peer-bind"))]
        return [*found, f"--peer-bind=127.0.0.1:{peers}", f"--certificate-lifetime={self._lifetime}"]

    def start(self, name: str, port: int = 0) -> Extender:
        flags = (*self.flags(name), f"--scheduler-name={SCHEDULER}")
        made = Extender(self.user, self._folder / f"{name}.log", *flags, tls=_ANYBODY, port=port)
        self.running.append(made)
        self.ports.append(made.port)
        return made

    def ask_at(self, port: int) -> None:
        """Have the API server ask at a port, and refuse pods if it gets no answer that it trusts."""
        (hook,) = [thing for thing in objects() if thing["kind"] == "MutatingWebhookConfiguration"]
        hook["webhooks"][0] |= {"clientConfig": {"url": f"https://127.0.0.1:{port}/webhook"}, "failurePolicy": "Fail"}
        hook["webhooks"][0]["timeoutSeconds"] = 30
        self.api.create(PATHS["MutatingWebhookConfiguration"], hook)

    def admitted(self) -> bool:
        """Whether a new pod with devices gets the scheduler's name, without keeping it."""
        made = pod_manifest(pod("asked", 1, memory=10))
        answer = self.api.request("POST", pods_path(), made, query={"dryRun": "All"})
        return bool(answer["spec"]["schedulerName"] == SCHEDULER)

    def bundle(self) -> str:
        (hook,) = self.api.get(HOOK)["webhooks"]
        return base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()

    def logs(self) -> str:
        return "\n".join(log.read_text() for log in self._folder.glob("*.log"))[-4000:]

    def stop(self) -> None:
        for one in self.running:
            one.stop()


@contextmanager
def replicas(plane: ControlPlane, folder: Path, lifetime: str) -> Iterator[Replicas]:
    apply(plane, "extender", *RIGHTS)
    made = Replicas(plane, folder, lifetime)
    try:
        yield made
    finally:
        made.stop()


def admitted_soon(made: Replicas) -> None:
    """The API server learns of a new bundle after a moment."""

    def holds() -> bool:
        try:
            return made.admitted()
        except ApiError:
            return False

    until(holds, "no admission", made.logs)


def test_certificates_are_made_repaired_and_missed(fresh_control_plane: ControlPlane, tmp_path: Path) -> None:
    with replicas(fresh_control_plane, tmp_path, "60s") as made:
        api = made.api
        (port,) = free_ports(1)
        made.ask_at(port)
        made.start("a", port)
        admitted_soon(made)
        kept = decode(api.get(SECRET)["data"])
        assert kept.serving.names == ("127.0.0.1",)
        assert made.bundle() == kept.bundle.decode()

        api.patch(SECRET, {"data": {"tls.key": "bm9uc2Vuc2U="}})
        until(lambda: api.get(SECRET)["data"]["tls.key"] != "bm9uc2Vuc2U=", "it is not repaired", made.logs)
        # What is in use is written again, so nobody notices.
        assert decode(api.get(SECRET)["data"]).authorities[0].certificate == kept.authorities[0].certificate
        assert "is broken and is written anew" in made.logs()
        assert made.admitted()

        api.patch(HOOK, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], "application/json-patch+json")
        admitted_soon(made)

        api.delete(SECRET)
        until(lambda: "there is no Secret tonnage/tonnage-certificate" in made.logs(), "nothing is said", made.logs)
        assert made.admitted()
        api.create(SECRETS, {"metadata": {"name": "tonnage-certificate"}})
        until(lambda: api.get(SECRET).get("data"), "it is not written again", made.logs)
        assert decode(api.get(SECRET)["data"]).authorities[0].certificate == kept.authorities[0].certificate
        assert "orbidden" not in made.logs()
        made.stop()
        made.running.clear()

        # After a long rest everything has expired.
        use = CertificateUse("webhook", ("127.0.0.1",), False, 60.0)
        old = renewed(None, use, time.time() - 3600)
        api.patch(SECRET, {"data": old.encoded()})
        made.start("b", port)
        admitted_soon(made)
        made.stop()
        made.running.clear()

        api.delete(SECRET)
        command = [sys.executable, "-m", "tonnage.cli.main", "extender", "--kubeconfig", str(made.user)]
        command += [*made.flags("c"), f"--http-bind=127.0.0.1:{port}", "--metrics-bind-address=127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 1
        assert "there is no Secret tonnage/tonnage-certificate" in done.stderr
        assert "helm upgrade" in done.stderr


@pytest.mark.long
def test_while_certificates_and_authorities_change_no_admission_fails(
    fresh_control_plane: ControlPlane, tmp_path: Path
) -> None:
    with replicas(fresh_control_plane, tmp_path, "45s") as made:
        ports = free_ports(2)
        balancer = Balancer(*ports)
        made.ask_at(balancer.port)
        for name, port in zip("ab", ports, strict=True):
            made.start(name, port)
        admitted_soon(made)
        first, failed, asked = made.bundle(), list[str](), 0
        certificates: set[str] = set()
        begun = time.monotonic()
        while first in made.bundle() or len(certificates) < 4:
            assert time.monotonic() - begun < PATIENCE + 240, made.logs()
            bundle = made.bundle()
            try:
                asked += 1
                assert made.admitted()
            except ApiError as error:
                failed.append(str(error))
            for port in ports:
                certificates.add(shaken(port, bundle, failed))
            time.sleep(0.1)
        balancer.close()
        sys.stdout.write(
            f"{asked} admissions and {2 * asked} handshakes in {time.monotonic() - begun:.0f} s, {len(failed)} failed, "
            f"{len(certificates)} certificates\n"
        )
        assert failed == []
        assert "orbidden" not in made.logs()


def shaken(port: int, bundle: str, failed: list[str]) -> str:
    """The certificate that a client with that bundle meets; a failure is noted."""
    context = ssl.create_default_context(cadata=bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as one,
        ):
            return str(one.getpeercert(True))
    except ssl.SSLError as error:
        failed.append(str(error))
        return ""

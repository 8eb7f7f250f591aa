"""Every way of authenticating, on a real API server: who it says we are, also after the credentials changed."""

import asyncio
import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.kube.kubeconfigs import kubeconfig, printing, program
from tests.kube.live import run
from tests.server.listening import needs_openssl
from tonnage.kube import access
from tonnage.kube import kubeconfig as kubeconfigs
from tonnage.kube.client import Client, connect
from tonnage.kube.errors import AccessError, ConnectionLostError, StatusError
from tonnage.lab.control_plane import ADMIN, ControlPlane
from tonnage.lab.program import Program

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT = "system:serviceaccount:default:"

pytestmark = needs_openssl


class PlaneWithUsers(ControlPlane):
    """A control plane that also takes client certificates, for users whom an authority of its own made."""

    def _run(self, program: str, flags: Mapping[str, object], within: Any = ()) -> Program:
        if program == "kube-apiserver":
            flags = {**flags, "client-ca-file": self.folder / "users.crt"}
            if not (self.folder / "users.crt").exists():
                openssl(self.folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=users", "users")
        return super()._run(program, flags, within)

    @property
    def cluster(self) -> dict[str, Any]:
        return {"server": self.server, "certificate-authority": str(self.authority)}

    def token_of(self, account: str) -> str:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        if account not in {one["metadata"]["name"] for one in self.api.get(accounts)["items"]}:
            self.api.create(accounts, {"metadata": {"name": account}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.create(f"{accounts}/{account}/token", request)["status"]["token"])

    def certificate_of(self, user: str, folder: Path) -> tuple[Path, Path]:
        """A client certificate and its key."""
        folder.mkdir(exist_ok=True)
        for name in ("users.crt", "users.key"):
            shutil.copy(self.folder / name, folder)
        command = f"req -x509 -newkey rsa:2048 -nodes -days 2 -CA users.crt -CAkey users.key -subj /CN={user}"
        openssl(folder, f"{command} -addext extendedKeyUsage=clientAuth", "user")
        return folder / "user.crt", folder / "user.key"


def openssl(folder: Path, command: str, name: str) -> None:
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    done = subprocess.run(
        ["openssl", *command.split(), *files], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneWithUsers]:
    with PlaneWithUsers() as made:
        yield made


async def whoami(client: Client) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return str(json.loads(await client.request("POST", REVIEWS, body=body))["status"]["userInfo"]["username"])


def as_client(file: str | None, then: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        client = await connect(file)
        try:
            await then(client)
        finally:
            await client.close()

    run(main())


def is_user(file: str | None, name: str) -> None:
    async def check(client: Client) -> None:
        assert await whoami(client) == name

    as_client(file, check)


def read_again(file: str | None, change: Callable[[], object], after: str) -> None:
    """Credentials that the server refuses are read again, once for many requests, and found changed.

    A token that was accepted would stay so for ten seconds.
    """

    async def check(client: Client) -> None:
        await until_refused(client)
        change()
        assert await asyncio.gather(*[whoami(client) for _ in range(20)]) == [after] * 20

    as_client(file, check)


async def until_refused(client: Client) -> None:
    with pytest.raises(StatusError, match="401 Unauthorized"):
        await whoami(client)


def test_a_token(plane: PlaneWithUsers, tmp_path: Path) -> None:
    is_user(kubeconfig(tmp_path / "config", plane.cluster, {"token": plane.token}), ADMIN)
    authority = b64encode(plane.authority.read_bytes()).decode()
    within = {"server": plane.server, "certificate-authority-data": authority}
    is_user(kubeconfig(tmp_path / "config", within, {"token": plane.token}), ADMIN)


def test_a_wrong_token_and_none(plane: PlaneWithUsers, tmp_path: Path) -> None:
    with pytest.raises(StatusError, match="401 Unauthorized"):
        is_user(kubeconfig(tmp_path / "config", plane.cluster, {"token": "wrong"}), "")
    with pytest.raises(StatusError, match="system:anonymous"):
        is_user(kubeconfig(tmp_path / "config", plane.cluster, {}), "")


def test_a_token_file_is_read_again_when_the_token_is_refused(plane: PlaneWithUsers, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    file = kubeconfig(tmp_path / "config", plane.cluster, {"tokenFile": "token"})
    read_again(file, lambda: (tmp_path / "token").write_text(plane.token_of("new") + "\n"), ACCOUNT + "new")


def test_a_token_file_is_read_again_in_time(
    plane: PlaneWithUsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "REREAD", 0.0)

    async def check(client: Client) -> None:
        assert await whoami(client) == ACCOUNT + "one"
        # The first token is still good.
        (tmp_path / "token").write_text(plane.token_of("two"))
        assert await whoami(client) == ACCOUNT + "two"
        (tmp_path / "token").unlink()
        assert await whoami(client) == ACCOUNT + "two"

    (tmp_path / "token").write_text(plane.token_of("one"))
    as_client(kubeconfig(tmp_path / "config", plane.cluster, {"tokenFile": str(tmp_path / "token")}), check)


@pytest.mark.parametrize("embedded", [False, True])
def test_a_client_certificate_is_renewed(plane: PlaneWithUsers, tmp_path: Path, embedded: bool) -> None:
    def files(user: str) -> dict[str, str]:
        certificate, key = plane.certificate_of(user, tmp_path / "pki")
        if not embedded:
            return {"client-certificate": "pki/user.crt", "client-key": "pki/user.key"}
        return {
            "client-certificate-data": b64encode(certificate.read_bytes()).decode(),
            "client-key-data": b64encode(key.read_bytes()).decode(),
        }

    async def check(client: Client) -> None:
        assert await whoami(client) == "first"
        kubeconfig(tmp_path / "config", plane.cluster, files("second"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(access.time, "time", lambda now=access.time.time: now() + access.REREAD)
            assert await asyncio.gather(*[whoami(client) for _ in range(20)]) == ["second"] * 20

    as_client(kubeconfig(tmp_path / "config", plane.cluster, files("first")), check)


def test_a_client_certificate_that_is_refused_is_read_again(plane: PlaneWithUsers, tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    openssl(tmp_path / "pki", "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=old", "user")
    files = {"client-certificate": "pki/user.crt", "client-key": "pki/user.key"}
    file = kubeconfig(tmp_path / "config", plane.cluster, files)
    # Connections with the old certificate are still open.
    read_again(file, lambda: plane.certificate_of("renewed", tmp_path / "pki"), "renewed")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_program_is_run_again_when_its_token_is_refused(plane: PlaneWithUsers, tmp_path: Path, version: str) -> None:
    runs = tmp_path / "runs"

    def gives(token: str) -> str:
        return program(tmp_path / "login", f"echo run >> {runs}\n{printing(version, token=token)}")

    user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": gives("old")}}
    file = kubeconfig(tmp_path / "config", plane.cluster, user)
    read_again(file, lambda: gives(plane.token_of("new")), ACCOUNT + "new")
    # At the start, when the server refused the old token, and when it refused it again to twenty requests.
    assert runs.read_text().count("run") == 3


def test_a_program_is_run_again_when_its_credentials_expire(plane: PlaneWithUsers, tmp_path: Path) -> None:
    def gives(account: str, expiry: str) -> str:
        line = printing("v1", token=plane.token_of(account), expirationTimestamp=expiry)
        return program(tmp_path / "login", line)

    async def check(client: Client) -> None:
        gives("fresh", "2999-01-01T00:00:00Z")
        assert await whoami(client) == ACCOUNT + "fresh"
        gives("unasked", "2999-01-01T00:00:00Z")
        assert await whoami(client) == ACCOUNT + "fresh"

    command = gives("stale", "2020-01-01T00:00:00Z")
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}
    as_client(kubeconfig(tmp_path / "config", plane.cluster, user), check)


def test_a_program_that_gives_a_client_certificate(plane: PlaneWithUsers, tmp_path: Path) -> None:
    certificate, key = plane.certificate_of("holder", tmp_path / "pki")
    line = printing("v1", clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())
    command = program(tmp_path / "login", line)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}
    is_user(kubeconfig(tmp_path / "config", plane.cluster, user), "holder")


def test_a_pods_service_account(plane: PlaneWithUsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = urlsplit(plane.server)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(place.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.port))
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(plane.authority.read_bytes())
    (tmp_path / "namespace").write_text("default")
    (tmp_path / "token").write_text(plane.token_of("pod"))
    is_user(None, ACCOUNT + "pod")
    (tmp_path / "token").write_text("old")
    read_again(None, lambda: (tmp_path / "token").write_text(plane.token_of("rotated")), ACCOUNT + "rotated")


def test_the_servers_certificate_is_checked(plane: PlaneWithUsers, tmp_path: Path) -> None:
    user = {"token": plane.token}

    def served(**cluster: object) -> str:
        return kubeconfig(tmp_path / "config", {"server": plane.server, **cluster}, user)

    authority = str(plane.authority)
    for unknown in (served(), served(**{"certificate-authority": str(plane.folder / "users.crt")})):
        with pytest.raises(ConnectionLostError, match="certificate verify failed"):
            is_user(unknown, ADMIN)
    is_user(served(**{"insecure-skip-tls-verify": True}), ADMIN)
    data = b64encode(plane.authority.read_bytes()).decode()
    is_user(served(**{"certificate-authority": "/absent", "certificate-authority-data": data}), ADMIN)
    is_user(served(**{"certificate-authority": authority, "tls-server-name": "kubernetes.default.svc"}), ADMIN)
    with pytest.raises(ConnectionLostError, match="certificate verify failed: Hostname mismatch"):
        is_user(served(**{"certificate-authority": authority, "tls-server-name": "elsewhere"}), ADMIN)
    with pytest.raises(AccessError, match="contradict each other"):
        is_user(served(**{"certificate-authority": authority, "insecure-skip-tls-verify": True}), ADMIN)


def test_another_current_context_does_not_move_a_client(plane: PlaneWithUsers, tmp_path: Path) -> None:
    path = tmp_path / "config"
    kubeconfig(path, plane.cluster, {"token": "old"})

    def move() -> None:
        content = json.loads(path.read_text())
        content["users"][0]["user"]["token"] = plane.token
        content["users"].append({"name": "there", "user": {"token": "there"}})
        content["clusters"].append({"name": "there", "cluster": {"server": "https://127.0.0.1:1"}})
        content["contexts"].append({"name": "there", "context": {"cluster": "there", "user": "there"}})
        content["current-context"] = "there"
        path.write_text(json.dumps(content))

    read_again(str(path), move, ADMIN)


def test_a_proxy_that_the_file_names(plane: PlaneWithUsers, tmp_path: Path) -> None:
    asked: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        there = urlsplit(plane.server)
        far_reader, far_writer = await asyncio.open_connection(there.hostname, there.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(2**16):
            sink.write(data)
        sink.close()

    async def main() -> None:
        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        file = kubeconfig(tmp_path / "config", {**plane.cluster, "proxy-url": address}, {"token": plane.token})
        client = await connect(file)
        try:
            assert await whoami(client) == ADMIN
        finally:
            await client.close()
            proxy.close()

    run(main())
    assert asked == [f"CONNECT {urlsplit(plane.server).netloc} HTTP/1.1"]
    with pytest.raises(AccessError, match=r"the proxy socks5://10\.0\.0\.1 is not supported"):
        is_user(kubeconfig(tmp_path / "config", {**plane.cluster, "proxy-url": "socks5://10.0.0.1"}, {}), "")

"""Programs that fetch credentials: what they are told, what they may answer, and what is said if they fail."""

import asyncio
import base64
import json
from pathlib import Path

import msgspec
import pytest

from tests.kube.kubeconfigs import printing, program
from tonnage.kube import execcredential
from tonnage.kube.errors import AccessError
from tonnage.kube.kubeconfig import ClusterEntry, Extension, User, UserExec

CLUSTER = ClusterEntry(server="https://10.0.0.1")
V1 = "client.authentication.k8s.io/v1"


def fetched(spec: UserExec, cluster: ClusterEntry = CLUSTER) -> tuple[User, float | None]:
    return asyncio.run(execcredential.fetch(spec, cluster))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_token_and_when_it_expires(tmp_path: Path, version: str) -> None:
    line = printing(version, token="t", expirationTimestamp="2026-01-31T12:00:00Z")
    spec = UserExec(api_version=f"client.authentication.k8s.io/{version}", command=program(tmp_path / "login", line))
    user, until = fetched(spec)
    assert user.token == "t"
    assert until == 1769860800


def test_a_client_certificate(tmp_path: Path) -> None:
    line = printing("v1", clientCertificateData="CERTIFICATE", clientKeyData="KEY")
    user, until = fetched(UserExec(api_version=V1, command=program(tmp_path / "login", line)))
    assert user.client_certificate_data == base64.b64encode(b"CERTIFICATE").decode()
    assert user.client_key_data == base64.b64encode(b"KEY").decode()
    assert until is None


def test_the_program_is_told_arguments_variables_and_the_cluster_if_it_asks(tmp_path: Path) -> None:
    told = tmp_path / "told"
    line = f'echo "$1 $REGION $KUBERNETES_EXEC_INFO" > {told}\n{printing("v1", token="t")}'
    command = program(tmp_path / "login", line)
    (tmp_path / "ca.crt").write_text("authority")
    cluster = ClusterEntry(
        server="https://10.0.0.1",
        certificate_authority=str(tmp_path / "ca.crt"),
        tls_server_name="kubernetes",
        extensions=(Extension("client.authentication.k8s.io/exec", {"audience": "here"}), Extension("other", 1)),
    )
    spec = {"apiVersion": V1, "command": command, "args": ["get"], "env": [{"name": "REGION", "value": "north"}]}
    for asks in (False, True):
        fetched(msgspec.convert({**spec, "provideClusterInfo": asks}, UserExec), cluster)
        argument, region, info = told.read_text().split(maxsplit=2)
        assert (argument, region) == ("get", "north")
        described = {
            "server": "https://10.0.0.1",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": base64.b64encode(b"authority").decode(),
            "config": {"audience": "here"},
        }
        wanted = {"interactive": False, "cluster": described} if asks else {"interactive": False}
        assert json.loads(info) == {"apiVersion": V1, "kind": "ExecCredential", "spec": wanted}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo no network >&2; exit 3", "ended with status 3: no network"),
        ("echo hello", "did not print an ExecCredential"),
        (printing("v1beta1", token="t"), "printed ExecCredential of client.authentication.k8s.io/v1beta1 instead of"),
        (printing("v1"), "neither a token nor a client certificate"),
        (printing("v1", clientCertificateData="c"), "neither a token nor a client certificate"),
        (printing("v1", token="t", expirationTimestamp="soon"), "'soon' is no time"),
    ],
)
def test_what_a_program_did_wrong_is_said(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(AccessError, match=said):
        fetched(UserExec(api_version=V1, command=program(tmp_path / "login", lines)))


def test_a_program_that_is_not_installed() -> None:
    with pytest.raises(AccessError, match="not-there cannot be run: No such file or directory; install it with apt"):
        fetched(UserExec(api_version=V1, command="not-there", install_hint="install it with apt\n"))


def test_a_program_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execcredential, "_SECONDS", 0.05)
    with pytest.raises(AccessError, match="has not ended"):
        fetched(UserExec(api_version=V1, command=program(tmp_path / "login", "exec sleep 60")))


def test_an_old_version_and_a_program_that_asks_somebody() -> None:
    with pytest.raises(AccessError, match=r"is of the version client\.authentication\.k8s\.io/v1alpha1; known are"):
        fetched(UserExec(api_version="client.authentication.k8s.io/v1alpha1", command="login"))
    with pytest.raises(AccessError, match="interactiveMode: Always"):
        fetched(UserExec(api_version=V1, command="login", interactive_mode="Always"))

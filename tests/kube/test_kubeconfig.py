"""Kubeconfig files: several at once, paths, and what is said about those that lead nowhere."""

import os
from pathlib import Path

import pytest

from tests.kube.kubeconfigs import kubeconfig
from tonnage.kube.errors import AccessError
from tonnage.kube.kubeconfig import from_files

SERVER = {"server": "https://10.0.0.1:6443"}


def test_of_several_files_the_first_that_defines_a_name_counts(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", {**SERVER, "proxy-url": "http://first"}, {"token": "first"})
    second = kubeconfig(tmp_path / "second", SERVER, {"token": "second"})
    third = kubeconfig(tmp_path / "third", {"server": "https://10.0.0.3"}, {"token": "third"}, "there")
    files = os.pathsep.join([str(tmp_path / "absent"), first, second, third])
    here, there = from_files(files, None), from_files(files, "there")
    assert (here.context, here.user.token, here.cluster.proxy_url) == ("here", "first", "http://first")
    assert (there.context, there.user.token, there.cluster.server) == ("there", "third", "https://10.0.0.3")


def test_relative_paths_begin_at_the_folder_of_their_file(tmp_path: Path) -> None:
    cluster = {**SERVER, "certificate-authority": "pki/ca.crt"}
    files = {"client-certificate": "pki/user.crt", "client-key": "/keys/user.key", "tokenFile": "token"}
    found = from_files(kubeconfig(tmp_path / "config", cluster, files), None)
    assert found.cluster.certificate_authority == str(tmp_path / "pki" / "ca.crt")
    assert found.user.client_certificate == str(tmp_path / "pki" / "user.crt")
    assert found.user.client_key == "/keys/user.key"
    assert found.user.token_file == str(tmp_path / "token")


@pytest.mark.parametrize(("command", "run"), [("login", "login"), ("bin/login", "{}/bin/login"), ("/bin/l", "/bin/l")])
def test_a_program_is_found_on_the_path_unless_a_folder_is_named(tmp_path: Path, command: str, run: str) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}
    found = from_files(kubeconfig(tmp_path / "config", SERVER, user), None)
    assert found.user.exec is not None
    assert found.user.exec.command == run.format(tmp_path)


def test_empty_texts_and_missing_users_are_no_credentials(tmp_path: Path) -> None:
    cluster = {**SERVER, "certificate-authority-data": "", "tls-server-name": ""}
    found = from_files(kubeconfig(tmp_path / "config", cluster, {"token": "", "client-certificate": None}), None)
    assert found.user.token is None
    assert found.user.client_certificate is None
    assert found.cluster.certificate_authority_data is None
    (tmp_path / "config").write_text(
        '{"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "http://c"}}],'
        ' "contexts": [{"name": "c", "context": {"cluster": "c"}}]}'
    )
    assert from_files(str(tmp_path / "config"), None).user.token is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "it is no kubeconfig file"),
        ("{", "expected the node content"),
        ("{}", "it has no current context; choose one with --context"),
        ("contexts: [{name: a, context: {cluster: c}}]", r"choose one with --context \(there are: a\)"),
        ("current-context: b\ncontexts: [{name: a, context: {cluster: c}}]", r"no context b \(there are: a\)"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]", "names the cluster c, which is not there"),
        ("clusters: {}\nusers: [7]", "users is not a list of entries with a name and a user"),
        ("users: [{name: u, user: {token: 7}}]", "Expected `str | null`, got `int`"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(AccessError, match=said):
        from_files(str(tmp_path / "config"), None)

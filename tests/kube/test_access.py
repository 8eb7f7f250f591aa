"""Which cluster, and as whom: files, environment, and what is said when that leads nowhere."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.kube.fake_server import NODES, fake_server, status
from tests.kube.live import run
from tests.scenario import node, pod
from tonnage.kube.client import MERGE_PATCH, connect
from tonnage.kube.errors import AccessError, ConnectionLostError, StatusError


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without any configuration, behind a proxy that does not exist."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def refused(match: str, kubeconfig: str | None = None, context: str | None = None) -> None:
    with pytest.raises(AccessError, match=match):
        asyncio.run(connect(kubeconfig, context))  # type: ignore[arg-type]


def test_without_any_configuration_it_is_said_what_to_give() -> None:
    refused("no cluster is configured; give --kubeconfig, set KUBECONFIG, or write ~/.kube/config")


def test_a_file_that_is_not_there() -> None:
    refused("missing: there is no such file", "missing")


def test_a_variable_that_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "missing")
    refused("KUBECONFIG names missing, and there is no such file")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "7", '{"current-context": "x"}', '{"current-context": "x", "contexts": [{"name": "x"}]}', "\0"],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    refused(f"{path} cannot be used: ", str(path))


def test_a_pod_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    refused("the pod's service account cannot be used: .* No such file or directory: .*/serviceaccount/token")


def test_the_file_is_found_by_option_variable_or_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with fake_server() as server:
            path = server.kubeconfig(tmp_path)
            (tmp_path / ".kube").mkdir()
            (tmp_path / ".kube" / "config").write_text(Path(path).read_text())
            client = await connect()
            assert client.server == server.address
            await client.close()
            monkeypatch.setenv("KUBECONFIG", path)
            client = await connect()
            assert b'"List"' in await client.get(NODES)
            await client.close()

    run(main())


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            path = Path(server.kubeconfig(tmp_path))
            config = json.loads(path.read_text())
            config["contexts"].append({"name": "other", "context": {"cluster": "fake", "user": "fake"}})
            config["current-context"] = "gone"
            path.write_text(json.dumps(config))
            client = await connect(str(path), "other")
            await client.close()
            with pytest.raises(AccessError, match=r"there is no context gone \(there are: fake, other\)"):
                await connect(str(path))

    run(main())


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(tmp_path / "authority")}
    (tmp_path / "authority").write_text("nothing of the kind")
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    refused("a certificate or key cannot be used", str(path))


def test_refusals_and_lost_answers_are_told_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            client = await connect(server.kubeconfig(tmp_path))
            server.put(node("a"))
            with pytest.raises(StatusError, match="404 NotFound") as refusal:
                await client.get("/api/v1/namespaces/default/pods/absent")
            assert refusal.value.is_definite

            async def say_nothing(_reader: object, _writer: object) -> bool:
                await asyncio.sleep(60)
                return False

            server._answer_one = say_nothing  # type: ignore[method-assign]
            server.stop_connections()
            with pytest.raises(ConnectionLostError):
                await client.request("POST", NODES, body={}, timeout=0.2)
            server.stop_connections()
        with pytest.raises(ConnectionLostError, match="Cannot connect"):
            await client.get(NODES)
        await client.close()

    run(main())


def test_connections_are_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            client = await connect(server.kubeconfig(tmp_path))
            server.put(pod("p"))
            for _ in range(5):
                await client.request("PATCH", "/api/v1/namespaces/default/pods/p", body={}, type_=MERGE_PATCH)
            assert len(server._connections) == 1
            await client.close()

    run(main())


def test_writes_are_told_to_the_observer_with_what_became_of_them(tmp_path: Path) -> None:
    told: list[tuple[str, str, str]] = []

    async def main() -> None:
        async with fake_server() as server:
            client = await connect(server.kubeconfig(tmp_path))
            client.observer = lambda method, path, seconds, outcome: told.append((method, path, outcome))
            server.put(pod("p"))
            await client.get(NODES)
            await client.request("PATCH", "/api/v1/namespaces/default/pods/p", body={}, type_=MERGE_PATCH)
            with pytest.raises(StatusError):
                await client.request("PATCH", "/api/v1/namespaces/default/pods/q", body={}, type_=MERGE_PATCH)
            server._answer = lambda path, query: (409, status(409, "Conflict"))  # type: ignore[method-assign]
            with pytest.raises(StatusError):
                await client.request("POST", "/api/v1/namespaces/default/pods/p/binding", body={})
        with pytest.raises(ConnectionLostError):
            await client.request("POST", NODES, body={})
        await client.close()

    run(main())
    assert told == [
        ("PATCH", "/api/v1/namespaces/default/pods/p", "success"),
        ("PATCH", "/api/v1/namespaces/default/pods/q", "refused"),
        ("POST", "/api/v1/namespaces/default/pods/p/binding", "conflict"),
        ("POST", NODES, "unknown"),
    ]

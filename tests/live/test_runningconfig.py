"""The configuration of a running scheduler: from its port, or by the flags of its pod."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.kube.fake_server import FakeServer
from tests.kube.live import run
from tests.live.observing import observed
from tonnage.config.notes import ConfigError
from tonnage.live.runningconfig import SchedulerFlags, deployed_scheduler, served_config

SCHEDULERS = "/api/v1/namespaces/tonnage/pods"


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything alike; its address, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_scheduler_tells_its_configuration() -> None:
    with answering(200, b"actions: allocate\n") as (address, asked):
        assert served_config(f"{address}/") == "actions: allocate\n"
        assert asked == ["/debug/config"]


def test_a_scheduler_that_answers_loopback_peers_only_says_so() -> None:
    with (
        answering(403, b"only loopback peers may ask for this; use kubectl port-forward") as (address, _),
        pytest.raises(ConfigError, match="403 only loopback peers may ask for this; use kubectl port-forward"),
    ):
        served_config(address)


def test_nobody_else_is_asked_than_the_address_says() -> None:
    with (
        answering(200, b"actions: allocate\n") as (elsewhere, asked),
        answering(302, b"", Location=elsewhere) as (address, _),
        pytest.raises(ConfigError, match="does not tell its configuration: 302"),
    ):
        served_config(address)
    assert asked == []


def test_an_answer_without_end_is_no_configuration() -> None:
    with (
        answering(200, b"x" * (2**20 + 1)) as (address, _),
        pytest.raises(ConfigError, match="larger than 1048576 bytes; is this a scheduler"),
    ):
        served_config(address)


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "file:///etc/passwd", "http://", "http://[::1", ""])
def test_what_is_no_address_is_an_error(address: str) -> None:
    with pytest.raises(ConfigError):
        served_config(address)


def test_a_scheduler_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match="does not tell its configuration"):
        served_config("http://127.0.0.1:9")


def scheduler(name: str, *args: str, **metadata: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"args": list(args)}]}}


def found(folder: Path, *pods: dict[str, Any]) -> SchedulerFlags | None:
    flags: list[SchedulerFlags | None] = []

    def prepare(server: FakeServer) -> None:
        server.served.add(SCHEDULERS)
        for pod in pods:
            server.put_plain(SCHEDULERS, pod)

    async def main() -> None:
        async with observed(folder, prepare) as now:
            flags.append(await deployed_scheduler(now.client))
            assert (SCHEDULERS, {"labelSelector": "app=tonnage-batch-scheduler"}) in now.server.asked

    run(main())
    return flags[0]


def test_the_flags_of_the_deployed_scheduler_say_what_it_goes_by(tmp_path: Path) -> None:
    config = "configmap:tonnage/tonnage-scheduler-config"
    assert found(tmp_path, scheduler("s-1", "scheduler", f"--config={config}")) == SchedulerFlags("tonnage/s-1", config)
    assert found(tmp_path, scheduler("s-1", "scheduler", "--policy", "fgd")) == SchedulerFlags(
        "tonnage/s-1", None, "fgd"
    )
    assert found(tmp_path, scheduler("s-1", "scheduler")) == SchedulerFlags("tonnage/s-1")


def test_a_pod_that_leaves_or_is_no_scheduler_does_not_count(tmp_path: Path) -> None:
    leaving = scheduler("s-1", "scheduler", "--policy=fgd", deletionTimestamp="2026-01-01T00:00:00Z")
    assert found(tmp_path, leaving, scheduler("s-2", "extender"), scheduler("s-3", "scheduler")) == SchedulerFlags(
        "tonnage/s-3"
    )
    assert found(tmp_path) is None

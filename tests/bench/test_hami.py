"""HAMi's scheduler in `bench.cluster --hami`: a program that does not answer ends the run with a message."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.hami import hami_scheduler
from bench.report import BenchmarkError

LISTENS = """\
import socket, sys
port = int(next(one for one in sys.argv if one.startswith("--http_bind")).rpartition(":")[2])
server = socket.create_server(("127.0.0.1", port))
kept = []
while True:
    kept.append(server.accept()[0])
"""
ANSWERS = """\
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Filter(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'%s')

port = int(next(one for one in sys.argv if one.startswith("--http_bind")).rpartition(":")[2])
HTTPServer(("127.0.0.1", port), Filter).serve_forever()
"""
HANG = 60.0
"""Seconds that only a program that hangs takes."""


class Plane:
    """A control plane that only remembers its pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: list[str] = []
        self.api = SimpleNamespace(create=self._create, delete=self._delete)

    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.pods.append(f"{path}/{body['metadata']['name']}")
        return body

    def _delete(self, path: str) -> None:
        self.pods.remove(path)


def program(folder: Path, text: str) -> Path:
    """A program that Python runs."""
    path = folder / "scheduler"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def failure(folder: Path, binary: Path, within: float) -> str:
    with (
        pytest.raises(BenchmarkError) as caught,
        hami_scheduler(Plane(folder), binary, ["node-00000"], within),  # type: ignore[arg-type]
    ):
        pass
    return str(caught.value).replace(str(folder), "")


def test_a_program_that_names_a_node_is_ready(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    binary = program(tmp_path, ANSWERS % '{"NodeNames": ["node-00000"]}')
    with hami_scheduler(plane, binary, ["node-00000"], HANG) as hami:  # type: ignore[arg-type]
        assert hami.port
        assert plane.pods == []


def test_a_program_that_ends_is_named_with_its_status_and_log(tmp_path: Path) -> None:
    binary = program(tmp_path, "import sys\nprint('unknown flag')\nsys.exit(3)\n")
    assert failure(tmp_path, binary, HANG) == "/scheduler ended with status 3; the end of its log:\nunknown flag"


def test_a_program_that_never_listens_is_given_up(tmp_path: Path) -> None:
    binary = program(tmp_path, "import time\ntime.sleep(1000)\n")
    said = failure(tmp_path, binary, 0.5)
    assert said.startswith("/scheduler names no node for a pod after 0.5 s; /filter gave: ")
    assert "Connection refused" in said
    assert said.endswith("; its log is empty")


def test_a_program_that_listens_and_never_answers_is_given_up(tmp_path: Path) -> None:
    assert "names no node for a pod after 1 s" in failure(tmp_path, program(tmp_path, LISTENS), 1.0)


def test_a_program_that_only_refuses_is_given_up(tmp_path: Path) -> None:
    binary = program(tmp_path, ANSWERS % '{"Error": "node unregistered"}')
    said = failure(tmp_path, binary, 1.0)
    assert "names no node for a pod after 1 s" in said


@pytest.mark.parametrize("kind", ["absent", "a folder"])
def test_what_is_no_program_is_named(tmp_path: Path, kind: str) -> None:
    binary = tmp_path if kind == "a folder" else tmp_path / "absent"
    assert "cannot be started: " in failure(tmp_path, binary, HANG)

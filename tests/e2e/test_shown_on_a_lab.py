"""The pages' commands that need a cluster, typed on a practice cluster: getting started, and lines of kubectl."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.extending import Command
from tests.e2e.labs import Lab, running
from tests.pages import DOCS, named
from tests.paths import ROOT
from tests.shown import Shown, as_pattern, shown_commands
from tests.waiting import until
from tonnage.lab.program import free_ports

GETTING_STARTED = DOCS / "getting-started.md"
CHANGES = ("kubectl apply ", "kubectl delete ", "kubectl label ")
"""Commands that are typed once; what others print is waited for."""

pytestmark = pytest.mark.kubectl


class Terminal:
    """A shell in the checkout, for a cluster."""

    def __init__(self, kubeconfig: str, port: int) -> None:
        folder = Path(sys.executable).parent
        self.environment = {**os.environ, "KUBECONFIG": kubeconfig, "PATH": f"{folder}:{os.environ['PATH']}"}
        self._port = port

    def words(self, line: str) -> str:
        """A line, with the port that is free here."""
        return line.replace("127.0.0.1:8080", f"127.0.0.1:{self._port}")

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", self.words(line)]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)

    def follow(self, shown: Shown) -> None:
        """Type a command until it prints what the page shows."""
        pattern, last = as_pattern(shown.output), ""

        def prints_it() -> bool:
            nonlocal last
            done = self.type(shown.line)
            last = done.stdout + done.stderr
            return done.returncode == 0 and (not shown.output or re.fullmatch(pattern, done.stdout) is not None)

        if shown.line.startswith(CHANGES):
            assert prints_it(), f"{shown.line}\n{last}"
        else:
            until(prints_it, f"{shown.line} does not print what the page shows", lambda: last)


@pytest.fixture(scope="module")
def started() -> Iterator[Lab]:
    """The lab of the page."""
    (line,) = [shown.line for shown in shown_commands(GETTING_STARTED) if shown.line.startswith("tonnage lab ")]
    with running(*line.split()[2:]) as found:
        yield found


def test_getting_started(started: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    terminal = Terminal(started.said["kubeconfig"], port)
    elsewhere = ("make ", "tonnage lab ")
    server, *rest = [shown for shown in shown_commands(GETTING_STARTED) if not shown.line.startswith(elsewhere)]
    flags = terminal.words(server.line).replace("examples/", f"{ROOT}/examples/").split()[1:]
    words = [sys.executable, "-m", "tonnage.cli.main", *flags]
    scheduler = Command(words, tmp_path / "log", f"http://127.0.0.1:{port}", environment=terminal.environment)
    try:
        for shown in rest:
            terminal.follow(shown)
    finally:
        scheduler.stop()


KUBECTL = [
    pytest.param(shown, id=f"{named(page)}: {shown.line[:50]}")
    for page in (DOCS / "admission-policies.md", DOCS / "agent.md")
    for shown in shown_commands(page)
    if shown.line.startswith("kubectl ") and "| tonnage" not in shown.line
]


@pytest.mark.parametrize("shown", KUBECTL)
def test_kubectl_takes_the_line(started: Lab, shown: Shown) -> None:
    terminal = Terminal(started.said["kubeconfig"], 0)
    node = started.api.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    terminal.type("kubectl create namespace team-a")
    done = terminal.type(shown.line.replace(" NODE ", f" {node} "))
    # A filter that finds nothing says so by its status.
    assert done.returncode == 0 or ("| grep" in shown.line and not done.stderr), done.stderr

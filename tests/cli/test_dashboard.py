"""`tonnage dashboard` and `tonnage up --web` as a newcomer starts them."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.cli.command import COMMAND, ROOT, tonnage
from tests.waiting import PATIENCE, until
from tonnage.lab.program import free_ports


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The address of pages that a command serves, which then ends in good order."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            found = re.search(r"The dashboard is at (http://\S+)", line)
            if found:
                yield found[1]
                break
        else:
            pytest.fail("the command ended without serving anything")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def page(address: str) -> str:
    """A page, once the address answers: it is told just before."""
    found: list[str] = []

    def answers() -> bool:
        with suppress(URLError), urlopen(address, timeout=PATIENCE) as answer:
            found.append(answer.read().decode())
        return bool(found)

    until(answers, f"{address} does not answer")
    return found[0]


def test_files_are_shown_and_ctrl_c_ends_it():
    (port,) = free_ports(1)
    with serving("dashboard", "-f", "examples/cluster.yaml", "--http-bind", f"127.0.0.1:{port}") as address:
        text = page(address)
        assert "examples/cluster.yaml" in text
        assert 'class="node' in text
        assert "As in the files" in text


def test_the_invented_cluster_is_shown_live():
    (port,) = free_ports(1)
    with serving("up", "--nodes", "3", "--web", f"127.0.0.1:{port}") as address:
        assert "Invented cluster of 3 nodes" in page(address)


def test_what_cannot_be_served_is_said(tmp_path: Path):
    nothing = tonnage("dashboard", "-f", str(tmp_path / "none.yaml"))
    assert nothing.returncode == 2
    assert "none.yaml" in nothing.stderr
    wrong = tonnage("dashboard", "-f", "examples/cluster.yaml", "--http-bind", "nowhere")
    assert wrong.returncode == 2
    assert tonnage("up", "--web", "-o", "json").returncode == 2

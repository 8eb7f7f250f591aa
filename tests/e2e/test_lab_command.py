"""`tonnage lab` as a user runs it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.command import COMMAND
from tests.lab.processes import children, is_alive
from tests.paths import ROOT
from tests.waiting import PATIENCE


@contextmanager
def lab(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs; whatever happens, it does not stay."""
    command = [*COMMAND, "lab", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_runs_until_it_is_interrupted_and_leaves_nothing_behind() -> None:
    with lab("--nodes", "3", "--gpus", "2", "--no-scheduler", "-o", "json") as process:
        assert process.stdout
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, text
            text += line
        said: dict[str, Any] = json.loads(text)
        kubeconfig = Path(said["kubeconfig"])
        assert said["nodes"] == 3
        assert said["server"] in kubeconfig.read_text()
        programs = children(process.pid)
        assert len(programs) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not kubeconfig.parent.exists()
    assert not any(is_alive(program) for program in programs)


def test_it_says_so_and_fails_when_a_program_dies() -> None:
    with lab("--nodes", "0") as process:
        assert process.stdout
        assert process.stderr
        assert "practice cluster" in process.stdout.readline()
        os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.wait(PATIENCE) == 1
        assert "etcd ended with status -9; the end of its log" in process.stderr.read()

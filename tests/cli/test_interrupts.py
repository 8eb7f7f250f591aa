"""Ctrl-C ends every command with status 130 and without a traceback, from its first line to its last."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.command import CLUSTER, COMMAND
from tests.paths import ROOT
from tests.waiting import PATIENCE

MOMENTS = 7
SCHEDULE = ("schedule", "-f", str(CLUSTER))


def interrupted(at: int, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.cli.interrupted", str(at), *arguments]
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("arguments", [SCHEDULE, ("plugins",)])
def test_amid_imports(arguments: tuple[str, ...]) -> None:
    imports = int(interrupted(0, arguments).stderr.splitlines()[-1])
    assert imports > MOMENTS
    for at in sorted({1, 2, *range(1, imports - 1, imports // MOMENTS)}):
        done = interrupted(at, arguments)
        assert (done.returncode, done.stderr) == (130, ""), at


def test_at_any_time_after_the_start() -> None:
    """Until Python has come to our first line it ends in its own way."""
    for tenths in range(6):
        with subprocess.Popen([*COMMAND, *SCHEDULE, "-f", "-"], cwd=ROOT, stdin=-1, stdout=-1, stderr=-1) as process:
            time.sleep(tenths / 10)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        if process.returncode == 130:
            assert errors == b""
        else:
            assert process.returncode != 0
            # Python's own start has a function of that name, too.
            assert not re.search(rb'cli/main\.py", line \d+, in main\n', errors), errors


def test_where_it_is_to_be_ignored_it_is(tmp_path: Path) -> None:
    ready = tmp_path / "out"
    # A shell starts what it runs in the background with SIGINT ignored.
    script = f'trap "" INT; "$@" > {ready} & kill -INT $!; wait $!'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, *SCHEDULE], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ready.read_bytes()

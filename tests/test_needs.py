"""A run in which the peers' cases or traces are missing says so in its last lines, with a number."""

import subprocess
import sys

from tests.paths import ROOT
from tests.waiting import PATIENCE

WITHOUT = """
import sys
from pathlib import Path
import pytest
from tests import paths
paths.KAI_CASES = paths.OPENB = Path("nowhere")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def last_lines(*files: str) -> list[str]:
    command = [sys.executable, "-c", WITHOUT, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_without_kais_cases() -> None:
    banner, last = last_lines("tests/plugins/test_kai_cases.py")[-2:]
    assert "NOT TESTED ON PEERS' CASES" in banner
    assert last == "16 tests on KAI's own cases were skipped: there is no file nowhere"


def test_without_recorded_traces() -> None:
    banner, last = last_lines("tests/simulator/traces/test_openb.py")[-2:]
    assert "NOT TESTED ON RECORDED TRACES" in banner
    assert last == "1 tests on the openb trace were skipped: there is no folder nowhere"

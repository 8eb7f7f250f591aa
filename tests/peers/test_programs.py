"""A short comparison with the peers' real programs, where they are built."""

import os
from pathlib import Path

import pytest

from peers.__main__ import main
from tests.paths import PEERS

pytestmark = pytest.mark.peer_programs


def report_of(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr("sys.argv", ["peers", *flags])
    return main()


def test_a_job_of_volcanos_runs_with_both_schedulers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    focus = "Job E2E Test Gang scheduling$"
    folder = Path(os.environ[PEERS]) / "volcano"
    flags = ("--volcano", str(folder), "--volcano-suites", "schedulingbase", "--volcano-focus", focus)
    assert report_of(monkeypatch, *flags, "--keep", str(tmp_path)) == 0


def test_workloads_that_kai_groups_run_with_both_schedulers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(os.environ[PEERS]) / "kai"
    assert report_of(monkeypatch, "--kai", str(folder), "--keep", str(tmp_path)) == 0

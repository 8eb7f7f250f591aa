"""`tonnage scheduler` at its command line: what is wrong is said, and how to mend it."""

import logging
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from click.testing import CliRunner

from tests.cli.command import tonnage
from tonnage.cli.scheduler import command
from tonnage.kube import client
from tonnage.kube.supervision import GaveUpError
from tonnage.observability import logs
from tonnage.scheduler.service import SchedulerService


def test_a_configuration_that_is_wrong_is_refused_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("actions: allocate, alocate\ntiers: []\n")
    done = tonnage("scheduler", "--config", config)
    assert done.returncode == 2
    assert "config.yaml:1:20" in done.stderr
    assert "there is no action alocate" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_that_is_not_configured_is_named(tmp_path: Path) -> None:
    done = tonnage("scheduler", "--kubeconfig", tmp_path / "none")
    assert done.returncode == 1
    assert "there is no such file; give the path of a kubeconfig file" in done.stderr


def test_an_address_that_is_none_is_refused() -> None:
    done = tonnage("scheduler", "--http-bind", "8080")
    assert done.returncode == 2
    assert "'8080' is no address" in done.stderr


def test_a_config_map_that_is_named_in_no_way_is_refused() -> None:
    done = tonnage("scheduler", "--config", "configmap:batch")
    assert done.returncode == 2
    assert "'configmap:batch' names no ConfigMap; expected configmap:NAMESPACE/NAME" in done.stderr


def test_durations_of_the_lease_that_do_not_go_together_are_refused() -> None:
    done = tonnage("scheduler", "--leader-elect-renew-deadline", "10s")
    assert done.returncode == 2
    assert "the renew deadline (10s) must be shorter than the lease duration (9s)" in done.stderr
    done = tonnage("scheduler", "--leader-elect-retry-period", "soon")
    assert done.returncode == 2
    assert "'soon' is no duration" in done.stderr


def test_one_that_gives_up_says_why_in_its_last_line_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def give_up(_service: SchedulerService, *besides: Any) -> None:
        for one in besides:
            one.close()
        inner = ExceptionGroup(
            "binds", [GaveUpError("cycles failed 12 times in a row in 61 s, the last time with ...")]
        )
        raise ExceptionGroup("everything", [inner])

    monkeypatch.setattr(client, "connect", AsyncMock(return_value=Mock(close=AsyncMock(), server="nowhere")))
    monkeypatch.setattr(logs, "log_to_stderr", lambda debug: None)
    monkeypatch.setattr(SchedulerService, "run", give_up)
    monkeypatch.setattr(SchedulerService, "stop", AsyncMock())
    with caplog.at_level(logging.CRITICAL):
        done = CliRunner().invoke(command, ["--no-leader-elect", "--http-bind", "127.0.0.1:0"])
    assert done.exit_code == 1
    assert done.output.splitlines()[-1] == "Error: cycles failed 12 times in a row in 61 s, the last time with ..."
    assert "the scheduler ends: GaveUpError: cycles failed 12 times in a row" in caplog.messages[-1]


def test_a_tight_limit_of_requests_is_warned_about(tmp_path: Path) -> None:
    done = tonnage("scheduler", "--kube-qps", "5", "--kubeconfig", tmp_path / "none")
    assert "warning: --kube-qps is 5: pods wait for this limit" in done.stderr
    done = tonnage("scheduler", "--kube-qps", "100", "--kube-burst", "200", "--kubeconfig", tmp_path / "none")
    assert "warning" not in done.stderr

"""The command itself: help, version, start-up, and how it ends when something is wrong."""

import subprocess

import pytest

from tests.cli.command import COMMAND, tonnage
from tests.waiting import PATIENCE
from tonnage import __version__
from tonnage.lab.parts import VERSIONS, control_plane


def test_help_says_what_tonnage_is_and_lists_its_commands() -> None:
    done = tonnage("--help")
    assert done.returncode == 0
    assert "Pack GPU pods onto the nodes and GPUs of a Kubernetes cluster, and say why." in done.stdout
    for word in ("schedule", "up", "--version", "-o json", "exit status"):
        assert word in done.stdout


def test_version() -> None:
    done = tonnage("--version")
    kubernetes = control_plane(VERSIONS[0]).version.removeprefix("v")
    expected = f"tonnage {__version__}, tested with Kubernetes {kubernetes}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_help_of_schedule_names_its_options_and_shows_examples_on_lines_of_their_own() -> None:
    lines = tonnage("schedule", "--help").stdout.splitlines()
    text = "".join("".join(lines).split())
    for option in (
        "--filename",
        "--node-scheduler-policy",
        "--gpu-scheduler-policy",
        "--numa-order",
        "--output",
        "--fail-on-unschedulable",
        "hami.io/node-scheduler-policy",
        "hami.io/gpu-scheduler-policy",
    ):
        assert option in text
    assert "  kubectl get nodes,pods -A -o json | tonnage schedule -f - -o wide" in [
        line.rstrip()[2:] for line in lines
    ]
    assert "\\b" not in text


@pytest.mark.parametrize(
    "arguments", [["--help"], ["schedule", "--help"], ["lab", "--help"], ["debug", "compare", "--help"]]
)
def test_asking_for_help_does_not_import_the_engine(arguments: list[str]) -> None:
    done = subprocess.run(
        [COMMAND[0], "-X", "importtime", *COMMAND[1:], *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "click" in imported
    heavy = {"numpy", "rich", "msgspec", "yaml", "httptools", "tonnage.cluster", "tonnage.framework"}
    assert not heavy & imported


def test_without_a_command_the_help_is_shown_and_the_status_is_that_of_wrong_usage() -> None:
    done = tonnage()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'?"),
        (["shedule"], "No such command 'shedule'. Did you mean 'schedule' or 'scheduler'?"),
        (["debug", "compar"], "No such command 'compar'. Did you mean 'compare'?"),
        (["manifests", "webhok"], "No such command 'webhok'. Did you mean 'webhook'?"),
        (["manifests", "x"], "No such command 'x'. There are policies, webhook."),
        (["schedule", "--confg"], "No such option '--confg'. Did you mean '--config'?"),
    ],
)
def test_an_unknown_command_is_wrong_usage_and_the_nearest_is_named(arguments: list[str], told: str) -> None:
    done = tonnage(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_an_unknown_flag_is_wrong_usage() -> None:
    done = tonnage("schedule", "--bogus")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option" in done.stderr
    assert "--bogus" in done.stderr

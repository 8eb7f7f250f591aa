"""Completion in the shells themselves, with the lines of docs/commands.md."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.shells import line_for, with_tonnage
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

pytestmark = pytest.mark.shells


def fish(folder: Path, line: str) -> list[str]:
    """What fish offers at the end of a line."""
    done = subprocess.run(
        ["fish", "--no-config", "-c", f'{line_for("fish")}; complete -C "{line}"'],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PATH": with_tonnage(folder, os.environ["PATH"]), "HOME": str(folder)},
    )
    assert done.stderr == ""
    return [offer.split("\t")[0] for offer in done.stdout.splitlines() if offer]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tonnage sch", ["schedule", "scheduler"]),
        ("tonnage schedule -o ", ["json", "table", "wide", "yaml"]),
        ("tonnage up --policy bin", ["binpack"]),
        ("tonnage schedule -f ex", ["examples/"]),
    ],
)
def test_fish_completes_commands_values_and_files(tmp_path: Path, line: str, offered: list[str]) -> None:
    assert fish(tmp_path, line) == offered


def test_zsh_completes_after_the_line_of_the_docs_in_a_start_up_file_with_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(f"{line_for('zsh')}\nPROMPT='ready> '\n")
    path = with_tonnage(tmp_path, os.environ["PATH"])
    terminal = Terminal(command=[str(shutil.which("zsh")), "-i"], ZDOTDIR=str(tmp_path), PATH=path, HOME=str(tmp_path))
    try:
        terminal.read("ready> ")
        terminal.press("tonnage simu\t")
        terminal.read("tonnage simulate ")
        terminal.press("--policy f\t")
        terminal.read("--policy fgd")
        assert "not found" not in terminal.text
    finally:
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.end()

"""The commands that docs/simulate.md shows, typed one after another in an empty folder."""

import re
import shlex
from pathlib import Path

from tests.cli.command import tonnage
from tests.paths import ROOT
from tests.simulator.traces.files import NODES, PODS, write

PAGE = (ROOT / "docs/simulate.md").read_text()


def shown() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def typed(command: str, folder: Path) -> str:
    """What a command prints; as in a shell, > writes that to a file."""
    words = shlex.split(command)
    assert words[0] == "tonnage"
    arguments, target = (words[1:-2], words[-1]) if ">" in words else (words[1:], None)
    done = tonnage(*arguments, cwd=folder, XDG_CACHE_HOME=str(folder / "cache"), HOME=str(folder))
    assert done.returncode == 0, done.stderr
    if target is not None:
        # The shown example is a day long; an hour shows as well that it can be used.
        (folder / target).write_text(done.stdout.replace("duration: 24h ", "duration: 1h "))
    return done.stdout


def test_the_shown_commands_work_as_typed(tmp_path: Path) -> None:
    write(tmp_path, "nodes.csv", NODES + "a,64000,99999,2,G2\nb,64000,99999,4,T4\n")
    lines = "".join(f"p{number},2000,10,1,{(1000, 500, 250)[number % 3]}\n" for number in range(20))
    write(tmp_path, "pods.csv", PODS + lines)
    commands = shown()
    assert len(commands) >= 4
    tables = [typed(command, tmp_path) for command in commands]
    assert all("POLICY" in table for table in tables[1:])
    assert "<html" in (tmp_path / "report.html").read_text()
    for command, table in zip(commands, tables, strict=True):
        policies = re.findall(r"--policy (\S+)", command)
        assert all(f"\n{name} " in table for one in policies for name in one.split(","))

"""The commands that pages show, and the output under them as an expression."""

import re
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^ *```(console|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
ANYTHING = "..."
"""On a line of its own it stands for any lines, at the end of one for the rest of it."""
_VARIES = re.compile(r"(?<=\s)\d+(?:\.\d+)?(?:ms|s|m)(?=\s|$)")
"""How long ago something was."""


class Shown(NamedTuple):
    """A command, and the lines shown under it."""

    line: str
    output: list[str]


def shown_commands(page: Path) -> list[Shown]:
    """The commands of a page's blocks; those of `sh` have no prompt and no output."""
    commands: list[Shown] = []
    for language, block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", "").splitlines():
            if language == "sh" or line.startswith("$ "):
                # As `make install` leaves it.
                commands.append(Shown(line.strip().removeprefix("$ ").replace(".venv/bin/", ""), []))
            else:
                commands[-1].output.append(line)
    return commands


def as_pattern(output: list[str]) -> str:
    """The output as an expression that what is printed has to match from its beginning to its end."""
    return "".join(r"(?:.*\n)*?" if line == ANYTHING else _line(line) + r"\n" for line in output)


def _line(line: str) -> str:
    start, dots, _ = line.partition(ANYTHING) if line.endswith(ANYTHING) else (line, "", "")
    return r"\S+".join(re.escape(part) for part in _VARIES.split(start)) + (".*" if dots else "")

"""The shells in which completion is tried, with `tonnage` on their PATH."""

import re
import shutil
import sys
from pathlib import Path

from tests.paths import ROOT

NAMES = ("zsh", "fish")


def missing() -> str | None:
    """Which shell is not installed."""
    lacking = [name for name in NAMES if shutil.which(name) is None]
    return f"{' and '.join(lacking)} cannot be found; Debian has packages of that name" if lacking else None


def line_for(shell: str) -> str:
    """The line that docs/commands.md shows for a shell."""
    row = next(row for row in (ROOT / "docs/commands.md").read_text().splitlines() if row.startswith(f"| {shell}"))
    found = re.findall(r"`([^`]+)`", row)
    return found[-1].replace(r"\|", "|")


def with_tonnage(folder: Path, path: str) -> str:
    """A PATH on which `tonnage` is the command of this checkout."""
    command = folder / "tonnage"
    script = "import sys; sys.argv[0] = 'tonnage'; from tonnage.cli.main import main; main()"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
    command.chmod(0o755)
    return f"{folder}:{path}"

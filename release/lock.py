"""The runtime lock: every package of the image at an exact version, with the hashes of its files.

`make lock` writes it anew from pyproject.toml and constraints.txt. It names no place where packages come from.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "deploy/runtime.lock"
HEADER = """\
# What the image holds beside Tonnage: exact versions, and the hashes of their files. `make lock` writes this file.
"""
EXTRAS = ("agent", "certificates")
"""What the image has of Tonnage's optional parts."""
COMPILE = (
    *("uv", "pip", "compile", "pyproject.toml", *(f"--extra={extra}" for extra in EXTRAS)),
    *("--constraints", "constraints.txt"),
    *("--generate-hashes", "--only-binary", ":all:", "--python-platform", "linux", "--python-version", "3.11"),
    *("--no-header", "--quiet"),
)
_PACKAGE = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)\n((?: {4}# .*\n)*)", re.MULTILINE)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^ {4}#(?: via| {2}) ([\w.-]+)(?: \(pyproject\.toml\))?$", re.MULTILINE)


class LockError(Exception):
    """The lock cannot be made or read; the message says why."""


class LockedPackage(NamedTuple):
    """A package of the lock; any of its files may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]
    wanted_by: tuple[str, ...]
    """The packages that depend on it."""


def parsed(text: str) -> list[LockedPackage]:
    """The packages of a lock; every line of it must belong to one or be a comment."""
    strange = [line for line in _PACKAGE.sub("", text).splitlines() if not line.startswith("#")]
    if strange:
        raise LockError(f"the runtime lock has a line that names no version with hashes: {strange[0]!r}")
    return [
        LockedPackage(name, version, tuple(_HASH.findall(hashes)), tuple(_VIA.findall(comments)))
        for name, version, hashes, comments in _PACKAGE.findall(text)
    ]


def compiled() -> str:
    """The lock as it has to be now."""
    program = Path(sys.executable).with_name(COMPILE[0])
    done = subprocess.run([program, *COMPILE[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LockError(f"uv cannot resolve the packages:\n{done.stderr.strip()}")
    return HEADER + done.stdout


def main() -> int:
    """`make lock`."""
    try:
        LOCK.write_text(compiled())
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{LOCK.relative_to(ROOT)}: {len(parsed(LOCK.read_text()))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())

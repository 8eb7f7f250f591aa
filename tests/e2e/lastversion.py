"""The version before this one: its wheel, built from the repository's history, and the manifests that it had."""

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import yaml

from tests.paths import ROOT
from tests.waiting import PATIENCE

COMMIT = "18e3b5a"
"""Kept as the last version until there is a release."""


class LastVersion:
    """An unpacked wheel and the objects of both servers."""

    def __init__(self, folder: Path) -> None:
        sources, wheels, self.code = (folder / name for name in ("sources", "wheels", "code"))
        archive = subprocess.run(
            ["git", "archive", COMMIT], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as packed:
            packed.extractall(sources, filter="data")
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--wheel-dir", str(wheels), str(sources)], check=True, timeout=PATIENCE)
        (wheel,) = wheels.glob("tonnage-*.whl")
        with ZipFile(wheel) as unpacked:
            unpacked.extractall(self.code)
        self._deploy = sources / "deploy"

    def objects(self, server: str) -> list[dict[str, Any]]:
        files = sorted((self._deploy / server).glob("*.yaml"))
        return [thing for file in files for thing in yaml.safe_load_all(file.read_text())]


def missing() -> str | None:
    """Why the last version cannot be had."""
    try:
        asked = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
        subprocess.run(asked, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return f"there is no git history with commit {COMMIT} in it"
    return None

"""Folders for logs and results."""

import shutil
from pathlib import Path


def emptied(folder: Path) -> Path:
    """The folder without what an earlier run has left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder

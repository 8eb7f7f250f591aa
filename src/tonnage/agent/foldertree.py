"""Removal of folders that containers have filled: however deep or full, without following links, with a bound.

A folder that is nested deeper than paths are long, or that a container still fills, must not stop the agent. So nested
folders are moved to the top one by one, and after many names the rest is left for the next time.
"""

import os
from itertools import islice
from pathlib import Path
from uuid import uuid4

MOST = 20_000
"""Names that are removed in one go."""


def remove_folder(folder: Path, most: int = MOST) -> bool:
    """Remove a folder with everything in it, or what has its name; False if something is left. OSError."""
    try:
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            return True
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        while names := _names(top, most):
            for name, is_folder in names:
                most -= _clear(top, name, most) if is_folder else _unlink(top, name)
                if most <= 0:
                    return False
    finally:
        os.close(top)
    folder.rmdir()
    return True


def _names(folder: int, most: int) -> list[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(entries, most)]


def _unlink(folder: int, name: str) -> int:
    os.unlink(name, dir_fd=folder)
    return 1


def _clear(top: int, name: str, most: int) -> int:
    """Remove a folder in the top one, after its folders were moved there; how many names that took."""
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        names = _names(here, most)
        for inner, is_folder in names:
            if is_folder:
                os.rename(inner, uuid4().hex, src_dir_fd=here, dst_dir_fd=top)
            else:
                _unlink(here, inner)
    finally:
        os.close(here)
    if len(names) < most:
        os.rmdir(name, dir_fd=top)
    return len(names) + 1

"""The control group under which a node of the lab keeps its pods, on machines with version 1 and with version 2."""

import os
import time
from contextlib import suppress
from pathlib import Path

from tonnage.lab.program import LabError

_MOUNTED = Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "cpuset", "memory", "pids")
_PREFIX = "tonnage-lab"
_PATIENCE = 10.0
"""Seconds that the kernel has to take leave of processes that were killed."""


def missing() -> str | None:
    """Why no control group can be made."""
    if _is_unified():
        have = set((_MOUNTED / "cgroup.controllers").read_text().split())
    else:
        have = {hierarchy.name for hierarchy in _hierarchies()}
    lacking = [name for name in _NEEDED if name not in have]
    if lacking:
        return f"there are no control groups (version 1 or 2) for {', '.join(lacking)} under {_MOUNTED}"
    if not all(os.access(hierarchy, os.W_OK) for hierarchy in _hierarchies()):
        return f"control groups under {_MOUNTED} cannot be made here"
    return None


class CgroupRoot:
    """A control group of this process, in every hierarchy; its name begins with a slash, as kubelets write it."""

    def __init__(self, name: str) -> None:
        _remove_abandoned()
        self._folder = f"{_PREFIX}-{os.getpid()}-{name}"
        self.name = f"/{self._folder}"
        for hierarchy in _hierarchies():
            try:
                self._make(hierarchy)
            except OSError as error:
                raise LabError(f"the control group {hierarchy / self._folder} cannot be made: {error}") from error

    def _make(self, hierarchy: Path) -> None:
        if _is_unified():
            (hierarchy / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _NEEDED))
        made = hierarchy / self._folder
        made.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":
            # A group of version 1 begins without CPUs and takes no process.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (made / file).write_text((hierarchy / file).read_text())

    def remove(self) -> None:
        """Remove it; its processes have been killed."""
        deadline = time.monotonic() + _PATIENCE
        while not _removed(self._folder) and time.monotonic() < deadline:
            time.sleep(0.02)


def _is_unified() -> bool:
    return (_MOUNTED / "cgroup.controllers").is_file()


def _hierarchies() -> list[Path]:
    if _is_unified():
        return [_MOUNTED]
    try:
        found = [one for one in _MOUNTED.iterdir() if not one.is_symlink() and (one / "cgroup.procs").is_file()]
    except OSError:
        return []
    return [one for one in found if not (one / "cgroup.controllers").exists()]


def _removed(folder: str) -> bool:
    """Remove a group in all hierarchies, from the bottom up; false if one is still busy."""
    left = False
    # Beside version 1 there may be an empty version 2, in which runc makes groups of its own accord.
    for hierarchy in (*_hierarchies(), _MOUNTED / "unified"):
        for path, _, _ in os.walk(hierarchy / folder, topdown=False):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                continue
            except OSError:
                left = True
    return not left


def _remove_abandoned() -> None:
    """Remove the groups of processes that were killed."""
    names = {
        path.name for hierarchy in (*_hierarchies(), _MOUNTED / "unified") for path in hierarchy.glob(f"{_PREFIX}-*")
    }
    for name in names:
        with suppress(ValueError):
            owner = int(name.removeprefix(f"{_PREFIX}-").partition("-")[0])
            if not Path(f"/proc/{owner}").exists():
                _removed(name)

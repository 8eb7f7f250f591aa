"""The namespace of a lab's node: its processes and mounts, apart from the machine's own.

The kubelet's folder of device plugins, the folders that containers mount and the places where containerd leaves sockets
are fixed paths. Inside the namespace they are folders of the lab's own. The kernel ends every process in it, containers
too, when its first process ends, and that one is tethered to this process.
"""

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tonnage.lab.program import LabError, Program

TOOLS = ("unshare", "nsenter", "setpriv", "mount", "sh")
_PLACES = "/usr/sbin:/sbin"
"""Folders of programs for administrators, which are not on everybody's PATH."""
_PATIENCE = 30.0


def tool(name: str) -> str | None:
    """The path of a program of this machine."""
    return shutil.which(name) or shutil.which(name, path=_PLACES)


class NodeSpace:
    """A namespace in which folders and files stand in place of the machine's."""

    def __init__(self, first: Path, replaced: Mapping[str, Path], shown: Iterable[Path], log: Path) -> None:
        """`first` becomes its first process; `replaced` says what stands where; `shown` stays visible all the same."""
        ready = log.with_suffix(".ready")
        script = [
            *_mounts(replaced, list(shown)),
            f"touch {shlex.quote(str(ready))}",
            f"exec {shlex.quote(str(first))}",
        ]
        options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        command = [_needed("unshare"), *options, _needed("sh"), "-e", "-c", "\n".join(script)]
        self._holder = Program(command, log, "namespace")
        self._holder.wait_until(ready.exists, "not made", _PATIENCE)
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        if len(children) != 1:
            raise LabError(f"the namespace has {len(children)} first processes")
        self._inside = f"/proc/{children[0]}/ns"

    @property
    def holder(self) -> Program:
        """The process with which everything inside ends."""
        return self._holder

    def command(self, words: Sequence[object]) -> list[str]:
        """A command that runs another one inside; that one ends with it."""
        enter = [_needed("nsenter"), f"--mount={self._inside}/mnt", f"--pid={self._inside}/pid", "--"]
        return [*enter, _needed("setpriv"), "--pdeathsig", "KILL", *map(str, words)]

    def end(self) -> None:
        """End every process inside; its mounts go with the last one."""
        self._holder.stop()


def _needed(name: str) -> str:
    found = tool(name)
    if found is None:
        raise LabError(f"{name} is not installed")
    return found


def _mounts(replaced: Mapping[str, Path], shown: Sequence[Path]) -> list[str]:
    """Commands that make the mounts; what stays visible is put into the folder that hides it first."""
    commands = []
    for place, source in replaced.items():
        for path in shown:
            if path.is_relative_to(place):
                within = source / path.relative_to(place)
                within.mkdir(parents=True, exist_ok=True)
                commands.append(_mount(path, within))
    return [*commands, *(_mount(source, place) for place, source in replaced.items())]


def _mount(source: Path, place: Path | str) -> str:
    return shlex.join(["mount", "--rbind", str(source), str(place)])

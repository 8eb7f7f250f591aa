"""Files of the node that containers get: HAMi-core's library, the preload file, the lock folder, a folder for each.

A host path that is missing when a container starts is made a directory by the runtime, and limits silently do not hold.
So everything is restored and checked before the agent registers.
"""

import re
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from tonnage.agent.core.answers import HostFiles
from tonnage.agent.core.nodesettings import AnswerSettings
from tonnage.agent.foldertree import remove_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_PLACEHOLDER = "libvgpu.so.none"
"""An empty file in place of the library, in trials."""
_ELF = b"\x7fELF"
_OPEN = 0o777
"""Containers of every user write into these folders."""


class HostFilesError(Exception):
    """The node lacks a file without which no limits hold; the message says which."""


class NodeFiles:
    """The folders and files under the hook path; `root` stands before every path of the node."""

    def __init__(
        self,
        settings: AnswerSettings,
        root: Path = Path("/"),
        library: Path | None = None,
        *,
        is_trial: bool = False,
    ) -> None:
        self._settings = settings
        self._root = root
        self._given = library
        """HAMi-core's library, to be installed; None to take the one that is there."""
        self._is_trial = is_trial
        """Whether cards are invented, so that there is nothing to limit and a library may be missing."""

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    @property
    def containers(self) -> Path:
        """The folder with a folder for each container."""
        return self._path(f"{self._settings.hook}/vgpu/containers")

    def restore(self, folders: Iterable[str] = ()) -> HostFiles:
        """Make everything that containers need, those that run included; HostFilesError without the library."""
        vgpu = self._path(f"{self._settings.hook}/vgpu")
        library, preload = self._library(vgpu), f"{self._settings.hook}/vgpu/libvgpu.so\n"
        if library is None:
            # Containers get all their mounts, and load nothing.
            library, preload = _PLACEHOLDER, ""
            _write(vgpu / library, b"")
        for folder in (self.containers, self._path(self._settings.lock_folder)):
            _make_folder(folder)
        for name in folders:
            if _is_safe(name):
                _make_folder(self.containers / name)
        _write(vgpu / "ld.so.preload", preload.encode())
        return HostFiles(
            library=f"{self._settings.hook}/vgpu/{library}",
            has_license=(vgpu / "license").is_file(),
            control_files=tuple(path for path in _CONTROL if self._path(path).exists()),
        )

    def _library(self, vgpu: Path) -> str | None:
        """The name of the library: the given one, or the newest with a version or none; None in trials."""
        if self._given is not None:
            return _installed(self._given, vgpu)
        try:
            found = [path for path in vgpu.iterdir() if path.name.startswith("libvgpu.so") and path.is_file()]
            names = [path.name for path in found if path.name != _PLACEHOLDER]
        except OSError:
            names = []
        if not names and self._is_trial:
            return None
        if not names:
            raise HostFilesError(
                f"{vgpu}/libvgpu.so is missing: install HAMi-core's library there, without it no limits hold"
            )
        return max(names, key=lambda name: (len(name) > len("libvgpu.so"), (vgpu / name).stat().st_mtime, name))

    def prepare(self, name: str, *, keep: bool) -> None:
        """Make a container's folder; a folder of that name is emptied unless its container runs."""
        if not _is_safe(name):
            raise HostFilesError(f"{name!r} is no name for a folder")
        folder = self.containers / name
        if not keep and not remove_folder(folder):
            raise HostFilesError(f"{folder} holds too much to be emptied at once")
        _make_folder(folder)


def _is_safe(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and ".." not in name


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_OPEN)


def _installed(library: Path, vgpu: Path) -> str:
    """The name of the installed library, which follows from its content: programs that run keep the file they have."""
    try:
        content = library.read_bytes()
    except OSError as error:
        raise HostFilesError(f"{library}: {error.strerror or error}; --library names HAMi-core's libvgpu.so") from error
    if not content.startswith(_ELF):
        raise HostFilesError(f"{library} is no shared library; --library names HAMi-core's libvgpu.so")
    name = f"libvgpu.so.{sha256(content).hexdigest()[:12]}"
    _write(vgpu / name, content)
    return name


def _write(path: Path, content: bytes) -> None:
    """Write a file that containers have mounted: never in place, and only if it differs."""
    if path.is_dir() and not path.is_symlink():
        # The runtime made it for a container that started without the file.
        shutil.rmtree(path)
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    made.write_bytes(content)
    made.chmod(0o644)
    made.replace(path)

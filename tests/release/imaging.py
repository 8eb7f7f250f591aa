"""The image, built from a release's context on a root folder of Debian's, and its commands as containers.

No image is pulled: mmdebstrap makes the base, buildah builds on it in a storage of its own, umoci unpacks the result,
and runc runs it as a kubelet would: as its user, with a read-only root and no capabilities.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

TOOLS = ("mmdebstrap", "buildah", "umoci", "runc")
BASE, IMAGE = "localhost/base", "localhost/tonnage:built"
_DEBIAN = (
    *("--variant=minbase", "--include=python3,python3-venv,ca-certificates"),
    *("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"),
    *("--dpkgopt=path-exclude=/usr/share/man/*", "bookworm"),
)


def missing() -> str | None:
    """Why no image can be built and run here."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"{', '.join(lacking)}: not installed (Debian's packages have these names)"
    return None if os.geteuid() == 0 else "only root can make the root folder of an image"


class BuiltImage:
    """The image of a release in a folder, which takes about 2 GB until it is removed."""

    def __init__(self, context: Path, folder: Path) -> None:
        self._folder = folder
        self._layout = folder / "layout"
        self._build(context)

    def _build(self, context: Path) -> None:
        base, unpacked = self._folder / "base.tar", self._folder / "context"
        run("mmdebstrap", *_DEBIAN, str(base))
        with tarfile.open(context) as archive:
            archive.extractall(unpacked, filter="data")
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(base), "/")
        self._buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        self._buildah("commit", "--quiet", container, BASE)
        # Packages come from where they come from here, by the certificates that are trusted here.
        there = ("--isolation=chroot", "--network=host", "--volume=/etc/ssl/certs:/etc/ssl/certs:ro")
        self._buildah("build-using-dockerfile", *there, f"--build-arg=BASE={BASE}", "--tag", IMAGE, str(unpacked))
        self._buildah("push", "--quiet", IMAGE, f"oci:{self._layout}:built")
        run("umoci", "unpack", "--image", f"{self._layout}:built", str(self.bundle))

    def _buildah(self, *arguments: str) -> str:
        storage = ("--storage-driver=vfs", f"--root={self._folder / 'storage'}", f"--runroot={self._folder / 'run'}")
        return run("buildah", *storage, *arguments)

    @property
    def bundle(self) -> Path:
        """The unpacked image: its root folder, and its configuration as runc reads it."""
        return self._folder / "bundle"

    @property
    def root(self) -> Path:
        return self.bundle / "rootfs"

    @property
    def configuration(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.bundle / "config.json").read_text())
        return found

    @property
    def compressed(self) -> int:
        """The bytes that a node fetches."""
        return sum(blob.stat().st_size for blob in (self._layout / "blobs").rglob("*") if blob.is_file())

    def container(self, name: str, *arguments: str, mounted: Path | None = None) -> list[str]:
        """The command that runs the image; a folder may be mounted under the path that it has here."""
        configuration = self.configuration
        process, linux = configuration["process"], configuration["linux"]
        process["args"] = [*process["args"], *arguments]
        process |= {"terminal": False, "noNewPrivileges": True, "capabilities": {}}
        configuration["root"]["readonly"] = True
        # The API server listens on this machine's loopback.
        linux["namespaces"] = [space for space in linux["namespaces"] if space["type"] != "network"]
        if mounted is not None:
            mount = {"destination": str(mounted), "source": str(mounted), "type": "bind", "options": ["rbind", "ro"]}
            configuration["mounts"].append(mount)
        bundle = self._folder / name
        bundle.mkdir()
        configuration["root"]["path"] = str(self.root)
        (bundle / "config.json").write_text(json.dumps(configuration))
        return ["runc", "--root", str(self._folder / "containers"), "run", "--bundle", str(bundle), name]


def run(*command: str) -> str:
    """What a program prints; an error with all that it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_release(target: Path, **environment: str) -> str:
    """Do what `make release` does, into a folder; what it said beside the list of files."""
    command = [sys.executable, "-m", "release", "--target", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stderr

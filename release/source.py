"""The source of a release: a commit, its files as they were committed, its version and its time."""

import io
import re
import subprocess
import tarfile
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_DIGEST = re.compile(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be made; the message says what is missing and what to do."""


class Source:
    """The present commit of a checkout; what is not committed is no part of it."""

    def __init__(self, checkout: Path = ROOT) -> None:
        self._checkout = checkout
        self.commit = self._git("rev-parse", "HEAD").decode().strip()
        self.time = int(self._git("show", "--no-patch", "--format=%ct", "HEAD"))
        """When it was committed, in seconds since 1970: SOURCE_DATE_EPOCH of everything that is built."""

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "-C", str(self._checkout), *arguments]
        try:
            return subprocess.run(command, capture_output=True, check=True).stdout
        except FileNotFoundError as error:
            raise ReleaseError("git is not installed, and a release is made from a commit") from error
        except subprocess.CalledProcessError as error:
            raise ReleaseError(f"{' '.join(command)}: {error.stderr.decode().strip()}") from error

    def export(self, folder: Path) -> None:
        """Write the committed files into a folder."""
        with tarfile.open(fileobj=io.BytesIO(self._git("archive", "HEAD"))) as archive:
            archive.extractall(folder, filter="data")

    def read(self, path: str) -> str:
        """A committed file."""
        return self._git("show", f"HEAD:{path}").decode()

    @cached_property
    def version(self) -> str:
        """What src/tonnage/__init__.py says."""
        found = _VERSION.search(self.read("src/tonnage/__init__.py"))
        if not found:
            raise ReleaseError('src/tonnage/__init__.py has no line __version__ = "…"')
        return found[1]

    @property
    def is_tagged(self) -> bool:
        """Whether the commit has the tag of its version; otherwise this is a rehearsal."""
        return f"v{self.version}" in self._git("tag", "--points-at", "HEAD").decode().split()

    @cached_property
    def notes(self) -> str:
        """The changelog's section of this version, or in a rehearsal of what is not released."""
        return section(self.read("CHANGELOG.md"), self.version) or section(self.read("CHANGELOG.md"), "Unreleased")

    def shortcomings(self) -> list[str]:
        """Why this commit cannot be published as a release."""
        found = []
        if not self.is_tagged:
            found.append(f"the commit has no tag v{self.version}")
        if self._git("status", "--porcelain", "--untracked-files=no"):
            found.append("the checkout has changes that are not committed")
        if not section(self.read("CHANGELOG.md"), self.version):
            found.append(f"CHANGELOG.md has no section ## {self.version}")
        if not _DIGEST.search(self.read("deploy/Dockerfile")):
            found.append("deploy/Dockerfile names its base image without a digest: ARG BASE=IMAGE@sha256:…")
        return found


def section(changelog: str, title: str) -> str:
    """What stands under the heading of a version, which may be followed by its date; nothing if there is none."""
    heading = rf"^## {re.escape(title)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() + "\n" if found else ""

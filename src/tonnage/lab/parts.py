"""The Kubernetes programs of the lab: their build from source, and the cache that keeps them.

No binary is downloaded: the Go module in `go/` pins the versions, and Go fetches and builds them with the environment's
own settings. The cache is a folder of the user's, named after the version and the module's content, so that a machine
builds the programs once.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).with_name("go")
KUBE_SCHEDULER = "kube-scheduler"
PROGRAMS = ("etcd", "kube-apiserver", KUBE_SCHEDULER)
_REQUIRED = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$", re.MULTILINE)
_TAIL = 15


class PartsError(Exception):
    """The programs are not built; the message says why."""


def version() -> tuple[str, str, str]:
    """The pinned version of Kubernetes: in full, major and minor."""
    found = _REQUIRED.search((MODULE / "go.mod").read_text())
    assert found, "go.mod requires k8s.io/kubernetes"
    return found[1], found[2], found[3]


def cache() -> Path:
    """The user's cache folder for the programs of all versions."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return base / "tonnage" / "parts"


def folder() -> Path:
    """The folder for the programs of this version, whether or not it exists."""
    digest = hashlib.sha256()
    for source in sorted(MODULE.rglob("*")):
        if source.is_file():
            digest.update(f"{source.relative_to(MODULE)}\0".encode() + source.read_bytes() + b"\0")
    return cache() / f"{version()[0]}-{sys.platform}-{platform.machine()}-{digest.hexdigest()[:12]}"


def find() -> Path:
    """The folder with all programs; PartsError if they are not built."""
    kept = folder()
    if kept.is_dir():
        return kept
    failure = _failure_of(kept)
    if failure.is_file():
        raise PartsError(f"the Kubernetes parts could not be built: {failure.read_text().strip()}")
    if shutil.which("go") is None:
        raise PartsError("the Kubernetes parts are not built, and Go, which builds them, is not installed")
    raise PartsError("the Kubernetes parts are not built; `make cluster-parts` builds them")


def build(tell: Callable[[str], None]) -> Path:
    """The folder with all programs; builds them first if need be, which takes minutes."""
    kept = folder()
    if kept.is_dir():
        return kept
    go = shutil.which("go")
    if go is None:
        raise PartsError(
            "Go is not installed; install Go 1.24 or newer, which builds the Kubernetes parts; "
            "or give a folder that has them: tonnage lab --bin-dir DIR"
        )
    cache().mkdir(parents=True, exist_ok=True)
    with _alone():
        if kept.is_dir():
            return kept
        _failure_of(kept).unlink(missing_ok=True)
        for left in cache().glob(".building-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=cache()) as scratch:
            made = Path(scratch) / "programs"
            made.mkdir()
            for program in PROGRAMS:
                tell(f"building {program} for Kubernetes {version()[0]} ...")
                try:
                    _build_one(go, program, made)
                except PartsError as error:
                    _failure_of(kept).write_text(str(error))
                    raise
            made.rename(kept)
    return kept


def _build_one(go: str, program: str, into: Path) -> None:
    full, major, minor = version()
    stamp = "k8s.io/component-base/version"
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {stamp}.{name}={value}" for name, value in values.items())])
    command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(into / program), f"./{program}"]
    # The same CGO setting for all programs, so that they share compiled packages.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=MODULE, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_TAIL:])
        raise PartsError(f"go build of {program} ended with status {done.returncode}\n{said}")


def _failure_of(kept: Path) -> Path:
    return kept.with_name(kept.name + ".failed")


@contextmanager
def _alone() -> Iterator[None]:
    """A lock for one build at a time; a second process waits and finds the programs built."""
    with open(cache() / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build the programs and print their folder; the exit status is 1 if they cannot be built."""
    try:
        sys.stdout.write(f"{build(_say)}\n")
    except PartsError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())

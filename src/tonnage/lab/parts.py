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
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).with_name("go")
KUBE_SCHEDULER = "kube-scheduler"
PROGRAMS = ("etcd", "kube-apiserver", KUBE_SCHEDULER)
_REQUIRED = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$", re.MULTILINE)
_PACKAGE = re.compile(r"[A-Za-z0-9_.~/+-]+")
"""How `go build -v` names a package that it compiles."""
_TAIL = 15
_EVERY = 10.0
"""Seconds between two lines that tell of progress."""
_CORE_MINUTES = 16
"""About how long the build takes on one core, from nothing."""


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
            tell(_announcement())
            for number, program in enumerate(PROGRAMS, 1):
                tell(f"building {program} ({number} of {len(PROGRAMS)}) ...")
                try:
                    _build_one(go, program, made, tell)
                except PartsError as error:
                    _failure_of(kept).write_text(str(error))
                    raise
            made.rename(kept)
    return kept


def _build_one(go: str, program: str, into: Path, tell: Callable[[str], None]) -> None:
    full, major, minor = version()
    stamp = "k8s.io/component-base/version"
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {stamp}.{name}={value}" for name, value in values.items())])
    options = ["-v", "-mod=readonly", "-trimpath", "-ldflags", flags]
    # The same CGO setting for all programs, so that they share compiled packages.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        [go, "build", *options, "-o", str(into / program), f"./{program}"],
        cwd=MODULE,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as building:
        try:
            said = _Said(building)
            begun = time.monotonic()
            while not said.is_over(_EVERY):
                tell(f"  {program}: {said.progress}, {_minutes(time.monotonic() - begun)}")
        except BaseException:
            building.kill()
            raise
    if building.returncode != 0:
        raise PartsError(f"go build of {program} ended with status {building.returncode}\n{said.words}")


class _Said:
    """What Go says while it builds: modules that it fetches, packages that it compiles, and errors."""

    def __init__(self, building: "subprocess.Popen[str]") -> None:
        self._fetched = self._compiled = 0
        self._others: deque[str] = deque(maxlen=_TAIL)
        self._reading = threading.Thread(target=self._read, args=(building.stdout,), daemon=True)
        self._reading.start()

    def is_over(self, seconds: float) -> bool:
        """Wait for the end, but no longer than that."""
        self._reading.join(seconds)
        return not self._reading.is_alive()

    @property
    def progress(self) -> str:
        fetched = f"{self._fetched} modules fetched, " if self._fetched else ""
        return f"{fetched}{self._compiled} packages compiled"

    @property
    def words(self) -> str:
        return "\n".join(self._others)

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith("go: downloading "):
                self._fetched += 1
            elif _PACKAGE.fullmatch(line.strip()):
                self._compiled += 1
            else:
                self._others.append(line.rstrip())


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _announcement() -> str:
    cores = os.cpu_count() or 1
    minutes = max(1, round(_CORE_MINUTES / cores))
    return (
        f"building {', '.join(PROGRAMS)} of Kubernetes {version()[0]} from source, once on this machine: "
        f"about {minutes} min on {cores} cores"
    )


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

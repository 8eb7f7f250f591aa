"""The Kubernetes programs of the lab: their build from source, and the cache that keeps them.

No binary is downloaded: Go modules pin the versions, `go/` those of the control plane and `go-kubelet/` that of the
kubelet, and Go fetches and builds them with the environment's own settings. The cache has a folder for each module,
named after the version and the module's content, so that a machine builds the programs once.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MODULE = Path(__file__).with_name("go")
KUBE_SCHEDULER = "kube-scheduler"
PROGRAMS = ("etcd", "kube-apiserver", KUBE_SCHEDULER)
_REQUIRED = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$", re.MULTILINE)
_PACKAGE = re.compile(r"[A-Za-z0-9_.~/+-]+")
"""How `go build -v` names a package that it compiles."""
_TAIL = 15
_EVERY = 10.0
"""Seconds between two lines that tell of progress."""


class PartsError(Exception):
    """The programs are not built; the message says why."""


class PartSet(NamedTuple):
    """Programs that are built and kept together."""

    what: str
    module: Path
    programs: tuple[str, ...]
    core_minutes: int
    """About how long the build takes on one core, from nothing."""
    target: str
    """What make calls it."""


CONTROL_PLANE = PartSet("Kubernetes parts", MODULE, PROGRAMS, 16, "cluster-parts")
NODE = PartSet("parts of a node", MODULE.with_name("go-kubelet"), ("kubelet", "pause", "workload"), 16, "node-parts")
"""The kubelet, and the programs of the images that its pods run."""


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


def folder(wanted: PartSet = CONTROL_PLANE) -> Path:
    """The folder for the programs of this version, whether or not it exists."""
    digest = hashlib.sha256()
    for source in sorted(wanted.module.rglob("*")):
        if source.is_file():
            digest.update(f"{source.relative_to(wanted.module)}\0".encode() + source.read_bytes() + b"\0")
    return cache() / f"{version()[0]}-{sys.platform}-{platform.machine()}-{digest.hexdigest()[:12]}"


def find(wanted: PartSet = CONTROL_PLANE) -> Path:
    """The folder with all programs; PartsError if they are not built."""
    kept = folder(wanted)
    if kept.is_dir():
        return kept
    failure = _failure_of(kept)
    if failure.is_file():
        raise PartsError(f"the {wanted.what} could not be built: {failure.read_text().strip()}")
    if shutil.which("go") is None:
        raise PartsError(f"the {wanted.what} are not built, and Go, which builds them, is not installed")
    raise PartsError(f"the {wanted.what} are not built; `make {wanted.target}` builds them")


def build(tell: Callable[[str], None], wanted: PartSet = CONTROL_PLANE) -> Path:
    """The folder with all programs; builds them first if need be, which takes minutes."""
    kept = folder(wanted)
    if kept.is_dir():
        return kept
    go = shutil.which("go")
    if go is None:
        raise PartsError(
            f"Go is not installed; install Go 1.24 or newer, which builds the {wanted.what}; "
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
            tell(_announcement(wanted))
            for number, program in enumerate(wanted.programs, 1):
                tell(f"building {program} ({number} of {len(wanted.programs)}) ...")
                try:
                    _build_one(go, wanted.module, program, made, tell)
                except PartsError as error:
                    _failure_of(kept).write_text(str(error))
                    raise
            made.rename(kept)
    return kept


def _build_one(go: str, module: Path, program: str, into: Path, tell: Callable[[str], None]) -> None:
    full, major, minor = version()
    stamp = "k8s.io/component-base/version"
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {stamp}.{name}={value}" for name, value in values.items())])
    options = ["-v", "-mod=readonly", "-trimpath", "-ldflags", flags]
    # The same CGO setting for all programs, so that they share compiled packages.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        [go, "build", *options, "-o", str(into / program), f"./{program}"],
        cwd=module,
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


def _announcement(wanted: PartSet) -> str:
    cores = os.cpu_count() or 1
    minutes = max(1, round(wanted.core_minutes / cores))
    return (
        f"building {', '.join(wanted.programs)} of Kubernetes {version()[0]} from source, once on this machine: "
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


def main(arguments: Sequence[str]) -> int:
    """Build the programs, those of a node if `node` is the argument, and print their folder; 1 if that fails."""
    try:
        sys.stdout.write(f"{build(_say, NODE if 'node' in arguments else CONTROL_PLANE)}\n")
    except PartsError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

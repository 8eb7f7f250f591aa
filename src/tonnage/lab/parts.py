"""The Kubernetes programs of the lab: their build from source, and the cache that keeps them.

No binary is downloaded: Go modules pin the versions, and Go fetches and builds them with the environment's settings.
`go/` has the programs of the control plane, `go-kubelet/` those of a node and `go-helm/` Helm; each further version of
Kubernetes has a folder of go.mod and go.sum for the same programs. The cache has a folder for each set of programs,
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
VERSIONS = ("1.34", "1.37")
"""The minor versions of Kubernetes that are pinned; the first is the default."""
CHOICE = "TONNAGE_KUBERNETES"
"""The environment variable that chooses one of them, for the tests."""
_KUBERNETES = "k8s.io/kubernetes"
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
    """The folder of the programs' sources."""
    programs: tuple[str, ...]
    core_minutes: int
    """About how long the build takes on one core, from nothing."""
    target: str
    """What make calls it."""
    product: str = "Kubernetes"
    package: str = ""
    """The Go package of its one program, if that is published as such."""
    tags: str = ""
    """Build tags of Go."""
    named_by: str = _KUBERNETES
    """The Go module whose version is that of the set."""
    pinned_in: Path | None = None
    """The folder of go.mod and go.sum, if it is not the module's own."""

    @property
    def version(self) -> str:
        """The pinned version in full, such as v1.34.1."""
        found = re.search(rf"^\s*(?:require )?{re.escape(self.named_by)} (v\S+)(?: //.*)?$", self._go_mod, re.MULTILINE)
        assert found, f"go.mod requires {self.named_by}"
        return found[1]

    @property
    def go(self) -> str:
        """The oldest Go that builds it."""
        found = re.search(r"^go (\d+\.\d+)", self._go_mod, re.MULTILINE)
        assert found, "go.mod names a version of Go"
        return found[1]

    @property
    def sources(self) -> dict[str, Path]:
        """The files that the build reads, by their names in the module."""
        folders = [self.module] + ([self.pinned_in] if self.pinned_in else [])
        return {
            str(file.relative_to(folder)): file for folder in folders for file in folder.rglob("*") if file.is_file()
        }

    @property
    def _go_mod(self) -> str:
        return self.sources["go.mod"].read_text()


PROMTOOL = PartSet(
    "tools for alerts",
    MODULE.with_name("go-promtool"),
    ("promtool",),
    12,
    "alert-parts",
    product="Prometheus",
    package="github.com/prometheus/prometheus/cmd/promtool",
    # It evaluates rules, and discovers nothing.
    tags="remove_all_sd",
    named_by="github.com/prometheus/prometheus",
)


def _pins(module: Path, minor: str) -> Path | None:
    return None if minor == VERSIONS[0] else module.with_name(f"{module.name}-{minor}")


_NODE_MODULE = MODULE.with_name("go-kubelet")
_CONTROL_PLANES = {
    minor: PartSet("Kubernetes parts", MODULE, PROGRAMS, 16, "cluster-parts", pinned_in=_pins(MODULE, minor))
    for minor in VERSIONS
}
_NODES = {
    minor: PartSet(
        "parts of a node",
        _NODE_MODULE,
        ("kubelet", "pause", "workload"),
        16,
        "node-parts",
        pinned_in=_pins(_NODE_MODULE, minor),
    )
    for minor in VERSIONS
}
CHART = PartSet(
    "programs for the chart",
    MODULE.with_name("go-helm"),
    ("helm",),
    6,
    "chart-parts",
    product="Helm",
    named_by="helm.sh/helm/v4",
)


def chosen() -> str:
    """The minor version of Kubernetes that runs here unless somebody asks for another one."""
    return os.environ.get(CHOICE, "") or VERSIONS[0]


def control_plane(minor: str | None = None) -> PartSet:
    """etcd, the API server and kube-scheduler of that minor version, by default of the chosen one."""
    return _of(_CONTROL_PLANES, minor)


def node(minor: str | None = None) -> PartSet:
    """The kubelet of that minor version, and the programs of the images that its pods run."""
    return _of(_NODES, minor)


def _of(sets: dict[str, PartSet], minor: str | None) -> PartSet:
    wanted = minor or chosen()
    if wanted not in sets:
        raise PartsError(f"Kubernetes {wanted} is not pinned here ({CHOICE}); use one of {', '.join(sets)}")
    return sets[wanted]


def cache() -> Path:
    """The user's cache folder for the programs of all versions."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return base / "tonnage" / "parts"


def folder(wanted: PartSet | None = None) -> Path:
    """The folder for the programs of this version, by default the control plane's, whether or not it exists."""
    wanted = wanted or control_plane()
    digest = hashlib.sha256()
    for name, source in sorted(wanted.sources.items()):
        digest.update(f"{name}\0".encode() + source.read_bytes() + b"\0")
    return cache() / f"{wanted.version}-{sys.platform}-{platform.machine()}-{digest.hexdigest()[:12]}"


def find(wanted: PartSet | None = None) -> Path:
    """The folder with all programs, by default the control plane's; PartsError if they are not built."""
    wanted = wanted or control_plane()
    kept = folder(wanted)
    if kept.is_dir():
        return kept
    failure = _failure_of(kept)
    if failure.is_file():
        raise PartsError(f"the {wanted.what} could not be built: {failure.read_text().strip()}")
    if shutil.which("go") is None:
        raise PartsError(f"the {wanted.what} are not built, and Go, which builds them, is not installed")
    raise PartsError(f"the {wanted.what} are not built; `make {wanted.target}` builds them")


def build(tell: Callable[[str], None], wanted: PartSet | None = None) -> Path:
    """The folder with all programs; builds them first if need be, which takes minutes."""
    wanted = wanted or control_plane()
    kept = folder(wanted)
    if kept.is_dir():
        return kept
    go = shutil.which("go")
    if go is None:
        raise PartsError(
            f"Go is not installed; install Go {wanted.go} or newer, which builds the {wanted.what}; "
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
                    _build_one(go, wanted, program, made, tell)
                except PartsError as error:
                    _failure_of(kept).write_text(str(error))
                    raise
            made.rename(kept)
    return kept


def _build_one(go: str, wanted: PartSet, program: str, into: Path, tell: Callable[[str], None]) -> None:
    options = ["-v", "-mod=readonly", "-trimpath", "-ldflags", " ".join(["-s -w", *_stamps(wanted)])]
    if wanted.tags:
        options += ["-tags", wanted.tags]
    if wanted.pinned_in:
        options.append(f"-modfile={wanted.pinned_in / 'go.mod'}")
    # The same CGO setting for all programs, so that they share compiled packages.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        [go, "build", *options, "-o", str(into / program), wanted.package or f"./{program}"],
        cwd=wanted.module,
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


def _stamps(wanted: PartSet) -> list[str]:
    """Linker flags that make the programs say their version, which Kubernetes' own build does likewise."""
    if wanted.named_by != _KUBERNETES:
        return []
    major, minor, _ = wanted.version.removeprefix("v").split(".", 2)
    values = {"gitVersion": wanted.version, "gitMajor": major, "gitMinor": minor}
    return [f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()]


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
        f"building {', '.join(wanted.programs)} of {wanted.product} {wanted.version} from source, "
        f"once on this machine: about {minutes} min on {cores} cores"
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
    """Build the programs of the set that the argument names and print their folder; 1 if that fails."""
    try:
        named = {"chart": CHART, "node": node(), "promtool": PROMTOOL}
        wanted = named[arguments[0]] if arguments else control_plane()
        sys.stdout.write(f"{build(_say, wanted)}\n")
    except PartsError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

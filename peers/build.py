"""`python -m peers.build volcano|kai FOLDER`: a peer's programs and manifests, from source, in that folder.

Go fetches each peer's module by its name and version through the module proxy of your settings. The source is copied,
because a module that is not the main one cannot replace the modules it needs. kube-controller-manager, which both
peers' clusters run, is built from a copy of the lab's module, so that the lab builds nothing that it does not run.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tonnage.lab import parts

CONTROLLER_MANAGER = "kube-controller-manager"
_MAIN = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
"""


class BuildError(Exception):
    """A program is not built; the message says which and why."""


class Peer(NamedTuple):
    """What is built of a peer."""

    module: str
    programs: Mapping[str, str]
    """Packages by the program's name."""
    files: Sequence[str]
    """Manifests that a run needs."""
    tests: Mapping[str, str] = {}
    """Packages whose tests become programs, by the program's name."""
    staged: Mapping[str, str] = {}
    """Folders with modules that the peer's published module lacks, and the published modules that fill them."""
    added: Mapping[str, str] = {}
    """Go files with what those modules lack, by path."""


_VOLCANO_SUITES = (
    *("admission", "cronjob", "dra", "gangevict", "hypernode", "jobp", "jobseq", "schedulingaction", "schedulingbase"),
    *("schedulinggates", "stress", "vcctl"),
)
_NEWER_CONSTANT = """\
package v1beta1

// QueueAllocationGateKey came after the last version of this module that proxies have.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
"""
_CHART = "installer/helm/chart/volcano"
PEERS = {
    "volcano": Peer(
        "volcano.sh/volcano@v1.15.1",
        {
            "vc-scheduler": "./cmd/scheduler",
            "vc-controller-manager": "./cmd/controller-manager",
            "vc-webhook-manager": "./cmd/webhook-manager",
            "vcctl": "./cmd/cli",
        },
        (
            "installer/volcano-development.yaml",
            f"{_CHART}/templates/webhooks.yaml",
            f"{_CHART}/config/volcano-scheduler-ci.conf",
        ),
        {f"e2e/{suite}.test": f"./test/e2e/{suite}" for suite in _VOLCANO_SUITES},
        {"staging/src/volcano.sh/apis": "volcano.sh/apis@v1.14.0"},
        {"staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/added.go": _NEWER_CONSTANT},
    ),
    "kai": Peer(
        "github.com/NVIDIA/KAI-scheduler@v0.12.0",
        {
            name: f"./cmd/{name}"
            for name in ("scheduler", "podgrouper", "podgroupcontroller", "queuecontroller", "binder")
        },
        ("deployments/kai-scheduler/crds",),
    ),
}


def build(peer: Peer, folder: Path) -> None:
    """Build what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tonnage-peers-") as scratch:
        source = Path(scratch) / "peer"
        _copy_source(peer.module, source)
        for place, module in peer.staged.items():
            _copy_source(module, source / place)
        for place, text in peer.added.items():
            (source / place).write_text(text)
        for name in peer.files:
            _copy(source / name, folder / Path(name).name)
        for name, package in peer.programs.items():
            _build(source, folder / name, ["build"], package)
        _build_controller_manager(Path(scratch) / "controller-manager", folder)
        for name, package in peer.tests.items():
            _build(source, folder / name, ["test", "-c"], package)


def _build_controller_manager(source: Path, folder: Path) -> None:
    shutil.copytree(parts.MODULE, source)
    (source / CONTROLLER_MANAGER).mkdir()
    (source / CONTROLLER_MANAGER / "main.go").write_text(_MAIN)
    full, major, minor = parts.version()
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    stamps = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()]
    _build(source, folder / CONTROLLER_MANAGER, ["build"], f"./{CONTROLLER_MANAGER}", stamps)


def _build(source: Path, program: Path, command: Sequence[str], package: str, stamps: Sequence[str] = ()) -> None:
    if program.is_file():
        return
    print(f"building {program.name} ...", file=sys.stderr, flush=True)
    program.parent.mkdir(exist_ok=True)
    _go(source, *command, "-trimpath", "-ldflags", " ".join(["-s -w", *stamps]), "-o", str(program), package)


def _copy_source(module: str, target: Path) -> None:
    said = _go(Path.cwd(), "mod", "download", "-json", module)
    shutil.copytree(json.loads(said)["Dir"], target)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def _go(folder: Path, *words: str) -> str:
    """Run Go in that folder; BuildError with what it says if it fails."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("Go is not installed; install Go 1.25 or newer, which builds the peers' programs")
    # The peers' own lists of modules lack what is replaced, so Go completes them.
    flags = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=mod -buildvcs=false"}
    done = subprocess.run(
        [go, *words], cwd=folder, env={**os.environ, **flags}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise BuildError(f"go {' '.join(words)} in {folder} ended with status {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m peers.build", description=__doc__)
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        build(PEERS[arguments.peer], arguments.folder.resolve())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

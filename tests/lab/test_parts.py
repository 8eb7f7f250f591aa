"""Building the Kubernetes parts, with a Go that is played by a script; and what is said where they are missing."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.waiting import PATIENCE
from tonnage.lab import parts

PLAYED_GO = """#!/bin/sh
echo "$@" >> "$CALLS"
while [ "$1" != -o ]; do shift; done
{effect}
echo program > "$2"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and no Go."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path


def install_go(machine: Path, effect: str = "") -> None:
    go = machine / "bin" / "go"
    go.write_text(PLAYED_GO.format(effect=effect))
    go.chmod(0o755)


def silent(_line: str) -> None:
    pass


def test_the_programs_are_built_once_into_the_cache(machine: Path) -> None:
    install_go(machine)
    told: list[str] = []
    built = parts.build(told.append)
    assert built.is_relative_to(machine / "cache" / "tonnage")
    assert sorted(program.name for program in built.iterdir()) == sorted(parts.PROGRAMS)
    assert parts.find() == parts.build(told.append) == built
    assert len((machine / "calls").read_text().splitlines()) == len(told) - 1 == len(parts.PROGRAMS)


def test_the_folder_is_named_after_the_pinned_version(machine: Path) -> None:
    assert parts.folder().name.startswith(f"{parts.control_plane().version}-")


@pytest.mark.parametrize("minor", parts.VERSIONS)
def test_each_version_pins_all_parts_and_is_kept_apart(
    machine: Path, monkeypatch: pytest.MonkeyPatch, minor: str
) -> None:
    monkeypatch.setenv(parts.CHOICE, minor)
    assert parts.control_plane().version == parts.node().version
    assert parts.control_plane().version.startswith(f"v{minor}.")
    install_go(machine)
    built = parts.build(silent)
    assert built.name.startswith(f"v{minor}.")
    pinned = parts.control_plane().sources["go.mod"]
    is_own = pinned.parent == parts.MODULE
    assert all((f"-modfile={pinned}" in call) != is_own for call in (machine / "calls").read_text().splitlines())
    monkeypatch.delenv(parts.CHOICE)
    assert (parts.folder() == built) == (minor == parts.VERSIONS[0])


def test_a_version_that_is_not_pinned_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(parts.CHOICE, "1.2")
    with pytest.raises(parts.PartsError, match=r"Kubernetes 1\.2 is not pinned here .* use one of 1\.34, 1\.37"):
        parts.find()


def test_a_long_build_says_what_it_takes_and_how_far_it_is(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_EVERY", 0.05)
    monkeypatch.setattr(parts.os, "cpu_count", lambda: 2)
    until_told = machine / "told"
    lines = "go: downloading k8s.io/api v1\nk8s.io/api/core/v1\nk8s.io/api/apps/v1\n"
    install_go(machine, f"printf '{lines}' >&2; while [ ! -e {until_told} ]; do sleep 0.01; done")
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "2 packages compiled" in line:
            until_told.touch()

    parts.build(tell)
    assert "from source, once on this machine: about 8 min on 2 cores" in told[0]
    assert told[1] == "building etcd (1 of 3) ..."
    assert any(line.startswith("  etcd: 1 modules fetched, 2 packages compiled, 0 min ") for line in told)
    assert "building kube-scheduler (3 of 3) ..." in told


def test_without_go_it_is_said_what_to_install(machine: Path) -> None:
    with pytest.raises(parts.PartsError, match="Go is not installed; install Go"):
        parts.build(silent)
    with pytest.raises(parts.PartsError, match="not built, and Go, which builds them, is not installed"):
        parts.find()


def test_with_go_it_is_said_how_to_build(machine: Path) -> None:
    install_go(machine)
    with pytest.raises(parts.PartsError, match="make cluster-parts"):
        parts.find()


def test_a_build_that_fails_is_remembered_with_what_go_said_until_one_works(machine: Path) -> None:
    install_go(machine, "echo 'no such module' >&2; exit 3")
    with pytest.raises(parts.PartsError, match="go build of etcd ended with status 3\nno such module"):
        parts.build(silent)
    with pytest.raises(parts.PartsError, match=r"could not be built: .*\nno such module"):
        parts.find()
    install_go(machine)
    assert parts.build(silent) == parts.find()


def test_a_build_that_is_killed_leaves_nothing_half_done(machine: Path) -> None:
    install_go(machine, "sleep 30")
    process = subprocess.Popen([sys.executable, "-m", "tonnage.lab.parts"], cwd=ROOT, stderr=subprocess.PIPE)
    assert process.stderr
    process.stderr.readline()
    process.kill()
    process.wait()
    process.stderr.close()
    with pytest.raises(parts.PartsError):
        parts.find()
    install_go(machine)
    built = parts.build(silent)
    assert sorted(kept.name for kept in built.parent.iterdir()) == [".lock", built.name]


def test_of_two_builds_at_once_the_second_waits_and_finds_it_done(machine: Path) -> None:
    install_go(machine, "sleep 0.1")
    other = threading.Thread(target=parts.build, args=(silent,))
    other.start()
    while not (machine / "calls").exists():
        time.sleep(0.01)
    assert parts.build(silent) == parts.find()
    other.join()
    assert len((machine / "calls").read_text().splitlines()) == len(parts.PROGRAMS)


def test_a_run_without_the_parts_says_in_its_last_lines_what_was_not_tested(machine: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/e2e"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    banner, last = done.stdout.splitlines()[-2:]
    assert "NOT TESTED ON KUBERNETES" in banner
    assert "tests on real Kubernetes parts were skipped: the Kubernetes parts are not built, and Go" in last


def test_the_parts_of_a_node_are_kept_apart_and_built_only_for_those_who_ask(machine: Path) -> None:
    install_go(machine)
    parts.build(silent)
    with pytest.raises(parts.PartsError, match="the parts of a node are not built; `make node-parts` builds them"):
        parts.find(parts.node())
    built = parts.build(silent, parts.node())
    assert sorted(program.name for program in built.iterdir()) == sorted(parts.node().programs)
    assert parts.find(parts.node()) == built != parts.find()

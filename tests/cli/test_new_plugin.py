"""`tonnage plugins new`: the package that it writes works as it stands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import tonnage
from tests.paths import ROOT
from tests.waiting import PATIENCE

SOURCE = str(ROOT / "src")


def python(*arguments: str | Path, cwd: Path, path: str = SOURCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    done = tonnage("plugins", "new", "night-shift", "--folder", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'night-shift'} has pyproject.toml, night_shift.py, test_night_shift.py" in done.stdout
    return tmp_path / "night-shift"


def test_its_test_passes_and_tests_the_plugin(package: Path) -> None:
    passed = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert passed.returncode == 0, passed.stdout
    assert "2 passed" in passed.stdout
    module = package / "night_shift.py"
    module.write_text(module.read_text().replace("return self.args.bonus if", "return 0.0 if"))
    failed = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert "1 failed, 1 passed" in failed.stdout


def test_installed_it_is_known_by_its_name(package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "-q")
    installed = python("-m", "pip", "install", *options, "--target", site, package, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    listed = python("-m", "tonnage", "plugins", "-o", "json", cwd=tmp_path, path=f"{SOURCE}{os.pathsep}{site}")
    found = {about["name"]: about for about in json.loads(listed.stdout)}
    assert found["night-shift"]["class"] == "night_shift:NightShift"
    assert found["night-shift"]["points"] == ["predicate", "node order"]


def test_nothing_is_overwritten(package: Path) -> None:
    before = {file: file.read_bytes() for file in package.iterdir()}
    done = tonnage("plugins", "new", "night-shift", "--folder", package.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert "night-shift is there already" in done.stderr
    assert {file: file.read_bytes() for file in package.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Night", "'Night' is no name for a plugin; write lower-case words with - between"),
        ("../away", "is no name for a plugin"),
        ("binpack", "there is a plugin binpack already"),
        ("json", "would hide the module json of Python"),
        ("import", "would hide the module import of Python"),
    ],
)
def test_names_that_cannot_be_used_are_refused(tmp_path: Path, name: str, words: str) -> None:
    done = tonnage("plugins", "new", name, "--folder", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = tonnage("plugins", "new", "mine", "--folder", tmp_path / "none")
    assert done.returncode == 2
    assert "give a --folder that is there" in done.stderr


def test_machines_are_told_what_was_written(tmp_path: Path) -> None:
    done = tonnage("plugins", "new", "mine", "--folder", tmp_path, "-o", "json")
    assert json.loads(done.stdout) == {
        "folder": str(tmp_path / "mine"),
        "files": ["pyproject.toml", "mine.py", "test_mine.py", "cluster.yaml"],
    }

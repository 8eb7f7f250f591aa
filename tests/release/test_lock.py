"""The runtime lock and the Dockerfile: exact versions by hash, no development tools, no place named."""

import re
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.lock import EXTRAS, LOCK, LockError, parsed
from tests.paths import ROOT

PACKAGES = {package.name: package for package in parsed(LOCK.read_text())}
WRITE_ANEW = "make lock writes it anew"


def wanted(name: str, extra: str = "") -> set[str]:
    """The packages that an installed one asks for on Linux, directly."""
    requirements = [Requirement(text) for text in requires(name) or []]
    place = {"sys_platform": "linux", "extra": extra}
    return {canonicalize_name(one.name) for one in requirements if not one.marker or one.marker.evaluate(place)}


def test_the_versions_are_those_that_tonnage_is_tested_with() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in tested.items()}
    assert {name: package.version for name, package in PACKAGES.items()} == {
        name: versions[name] for name in PACKAGES
    }, WRITE_ANEW


def test_it_has_all_that_the_image_imports_and_nothing_else() -> None:
    found = left = set().union(*(wanted("tonnage", extra) for extra in ("", *EXTRAS)))
    while left:
        left = {dependency for name in left for dependency in wanted(name)} - found
        found = found | left
    assert set(PACKAGES) == found, WRITE_ANEW


def test_every_package_says_who_asks_for_it() -> None:
    assert all(set(package.wanted_by) <= {"tonnage", *PACKAGES} and package.wanted_by for package in PACKAGES.values())


def test_it_names_no_place_and_every_file_by_its_hash() -> None:
    assert "://" not in LOCK.read_text()
    assert all(package.hashes for package in PACKAGES.values())
    with pytest.raises(LockError, match="'numpy==2'"):
        parsed("numpy==2\n")


def test_the_dockerfile_has_two_stages_and_leaves_the_tools_behind() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text()
    instructions = re.findall(r"^([A-Z]+) (.*(?:\\\n.*)*)", text, re.MULTILINE)
    assert [rest for name, rest in instructions if name == "FROM"] == ["${BASE} AS build", "${BASE}"]
    assert instructions[0][0] == "ARG"
    last = text.rpartition("\nFROM ")[2]
    assert "pip install" not in last
    assert "--require-hashes" in text
    assert instructions[-2:] == [("USER", "65534:65534"), ("ENTRYPOINT", '["tonnage"]')]

"""`make release`: the same bytes from the same commit, complete, and each file what it says it is."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from hashlib import sha256
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from readme_renderer import markdown

from release.lock import parsed
from release.source import ReleaseError, Source, section
from tests.chart.rendering import CHART, helm, profile
from tests.paths import ROOT
from tests.release.imaging import make_release
from tonnage import __version__
from tonnage.lab import parts

VERSION = Source().version
"""That of the commit, of which releases are made."""
NAME = f"tonnage-{VERSION}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the present commit."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    said = make_release(folder)
    assert f"no tag v{VERSION}" in said or said == ""
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_two_runs_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_release(tmp_path / "again", TZ="Asia/Tokyo", PYTHONHASHSEED="7", LC_ALL="C")
    finally:
        os.umask(before)
    assert contents(tmp_path / "again") == contents(made)


def test_the_sums_are_those_of_all_files(made: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=made, check=True)
    listed = {line.split()[1] for line in (made / "SHA256SUMS").read_text().splitlines()}
    assert listed | {"SHA256SUMS"} == contents(made).keys()
    assert listed >= {
        f"{NAME}-py3-none-any.whl",
        f"{NAME}.tar.gz",
        f"{NAME}.tgz",
        f"{NAME}.cdx.json",
        f"{NAME}.notes.md",
    }


def test_the_image_context_has_the_wheel_and_what_is_committed(made: Path) -> None:
    wheel = f"{NAME}-py3-none-any.whl"
    with tarfile.open(made / f"tonnage-image-{VERSION}.tar.gz") as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}  # type: ignore[union-attr]
    assert found.keys() == {"Dockerfile", "runtime.lock", wheel}
    assert found[wheel] == (made / wheel).read_bytes()
    assert found["runtime.lock"].decode() == Source().read("deploy/runtime.lock")


def test_the_bill_of_materials_is_valid_and_lists_the_lock(made: Path) -> None:
    text = (made / f"{NAME}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    locked = parsed(Source().read("deploy/runtime.lock"))
    assert {(one["name"], one["version"]) for one in document["components"]} == {one[:2] for one in locked}
    wheel = contents(made)[f"{NAME}-py3-none-any.whl"]
    assert document["metadata"]["component"]["externalReferences"][0]["hashes"][0]["content"] == wheel
    graph = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    assert any("numpy" in ref for ref in graph[f"pkg:pypi/tonnage@{VERSION}"])


def test_the_provenance_names_the_commit_and_every_file(made: Path) -> None:
    statement = json.loads((made / f"{NAME}.provenance.json").read_text())
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    sums = {"SHA256SUMS", f"{NAME}.provenance.json"}
    assert subjects == {name: digest for name, digest in contents(made).items() if name not in sums}
    commit = Source().commit
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["commit"] == commit
    assert {"name": "source", "digest": {"gitCommit": commit}} in definition["resolvedDependencies"]


def test_the_package_page_renders_and_leads_nowhere_that_is_not_there(made: Path) -> None:
    with zipfile.ZipFile(made / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
    assert metadata["Version"] == VERSION
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = markdown.render(metadata.get_payload(decode=True).decode())
    assert page is not None
    assert "<h2" in page
    assert re.findall(r'(?:href|src)="(?!https?://|#)([^"]*)"', page) == []
    assert "<code>docs/reading.md</code>" in page


# -- the chart


@pytest.mark.helm
def test_helm_reads_the_packed_chart_as_it_does_the_folder(made: Path, tmp_path: Path) -> None:
    packed = made / f"{NAME}.tgz"
    Source().export(tmp_path)
    chart = tmp_path / CHART.relative_to(ROOT)
    place = ("template", "tonnage", "--kube-version", parts.control_plane().version, "--values", profile("full"))
    assert helm(*place, packed) == helm(*place, chart)
    helm("package", chart, "--destination", tmp_path)
    with tarfile.open(packed) as ours, tarfile.open(tmp_path / packed.name) as theirs:
        assert set(ours.getnames()) == set(theirs.getnames())


# -- the version


def test_manifests_and_pages_name_the_image_by_the_version() -> None:
    files = [*(ROOT / "deploy").rglob("*.yaml"), *(ROOT / "docs").rglob("*.md")]
    named = {version for path in files for version in re.findall(r"\btonnage:(\d[\w.]*\d)", path.read_text())}
    assert named == {__version__}


# -- notes, and what stands against publishing


def test_notes_are_the_section_of_the_version() -> None:
    text = "# Changelog\n\n## Unreleased\n\n* New.\n\n## 0.2.0 (2027-01-05)\n\n* Old.\n\n## 0.1.0\n\n* First.\n"
    assert section(text, "0.2.0") == "* Old.\n"
    assert section(text, "0.1.0") == "* First.\n"
    assert section(text, "0.2") == ""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit with what a release is judged by."""
    for path in ("src/tonnage/__init__.py", "deploy/Dockerfile", "CHANGELOG.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "A commit")


def test_a_release_needs_a_tag_a_section_and_the_digest_of_the_base_image(checkout: Path) -> None:
    assert len(Source(checkout).shortcomings()) == 3
    dockerfile, changelog = checkout / "deploy/Dockerfile", checkout / "CHANGELOG.md"
    dockerfile.write_text(
        re.sub(r"^ARG BASE=.*", f"ARG BASE=python@sha256:{'0' * 64}", dockerfile.read_text(), flags=re.M)
    )
    changelog.write_text(f"# Changelog\n\n## {VERSION}\n\n* First.\n")
    assert any("not committed" in said for said in Source(checkout).shortcomings())
    commit(checkout)
    git(checkout, "tag", f"v{VERSION}")
    source = Source(checkout)
    assert source.shortcomings() == []
    assert source.is_tagged
    assert source.notes == "* First.\n"


def test_a_folder_without_a_commit_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="not a git repository"):
        Source(tmp_path)

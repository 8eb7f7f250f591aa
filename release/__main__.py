"""`make release`: wheel, source distribution, image context, chart, SBOM, notes, provenance and sums of a commit."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from release.archives import chart_files, write_archive
from release.lock import LockError, parsed
from release.provenance import provenance
from release.sbom import bill_of_materials
from release.source import ROOT, ReleaseError, Source

INPUTS = ("constraints.txt", "deploy/runtime.lock", "deploy/Dockerfile")
"""Committed files that name what goes into a release beside the source."""


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def build(source: Source, tree: Path, target: Path) -> None:
    """Make all files of a release in an empty folder, from the committed files in another."""
    name = f"tonnage-{source.version}"
    wheel = _distributions(source, tree, target)
    deploy = tree / "deploy"
    context = {file: (deploy / file).read_bytes() for file in ("Dockerfile", "runtime.lock")}
    context[wheel.name] = wheel.read_bytes()
    write_archive(target / f"tonnage-image-{source.version}.tar.gz", context, source.time)
    write_archive(target / f"{name}.tgz", chart_files(deploy / "chart"), source.time)
    packages = parsed((deploy / "runtime.lock").read_text())
    sbom = bill_of_materials(source.version, digest(wheel), packages, source.time)
    (target / f"{name}.cdx.json").write_text(sbom)
    (target / f"{name}.notes.md").write_text(source.notes)
    subjects = {path.name: digest(path) for path in target.iterdir()}
    inputs = {path: digest(tree / path) for path in INPUTS}
    statement = provenance(subjects, source.commit, source.version, source.is_tagged, inputs)
    (target / f"{name}.provenance.json").write_text(statement)
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("".join(sums))


def _distributions(source: Source, tree: Path, target: Path) -> Path:
    """Build the wheel and the source distribution with the pinned hatchling; the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.time)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"hatchling cannot build the wheel:\n{done.stderr.strip()}")
    (wheel,) = target.glob("*.whl")
    return wheel


def release(target: Path) -> Source:
    """Replace a folder by the release of the present commit; the source of it."""
    source = Source()
    shortcomings = source.shortcomings()
    if source.is_tagged and shortcomings:
        raise ReleaseError(f"{source.version} is tagged and cannot be published: {'; '.join(shortcomings)}")
    with tempfile.TemporaryDirectory(prefix="tonnage-release-") as folder:
        tree, made = Path(folder, "tree"), Path(folder, "dist")
        made.mkdir()
        source.export(tree)
        build(source, tree, made)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    if shortcomings:
        print(f"A rehearsal, not to be published: {'; '.join(shortcomings)}.", file=sys.stderr)
    return source


def main() -> int:
    """Build into dist/ and list what was made."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--target", type=Path, default=ROOT / "dist", help="the folder to replace")
    target = parser.parse_args().target
    try:
        release(target)
    except (ReleaseError, LockError) as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.write((target / "SHA256SUMS").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

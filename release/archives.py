"""Archives that hold the same bytes whenever, wherever and by whomever they are made."""

import gzip
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from pathspec import GitIgnoreSpec

_MODE = 0o644


def write_archive(target: Path, files: Mapping[str, bytes], time: int) -> None:
    """A gzipped tar of files by their paths: in the order of names, of one time, owned by nobody in particular."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, _MODE
            archive.addfile(member, BytesIO(content))


def chart_files(chart: Path) -> dict[str, bytes]:
    """The files of a chart as `helm package` lays them out: under its name, without what .helmignore leaves out."""
    ignored = GitIgnoreSpec.from_lines((chart / ".helmignore").read_text().splitlines())
    paths = {path.relative_to(chart).as_posix(): path for path in chart.rglob("*") if path.is_file()}
    return {f"tonnage/{name}": path.read_bytes() for name, path in paths.items() if not ignored.match_file(name)}

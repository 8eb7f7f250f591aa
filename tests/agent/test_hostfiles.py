"""The files that containers mount are there, of the right kind, and never changed under a program that uses them."""

from pathlib import Path

import pytest

from tonnage.agent.core.nodesettings import AnswerSettings
from tonnage.agent.hostfiles import HostFilesError, NodeFiles

LIBRARY = b"\x7fELF and more"


def given(folder: Path, content: bytes = LIBRARY) -> Path:
    made = folder / "given" / "libvgpu.so"
    made.parent.mkdir(exist_ok=True)
    made.write_bytes(content)
    return made


def test_a_given_library_is_installed_under_a_name_of_its_own(tmp_path: Path) -> None:
    files = NodeFiles(AnswerSettings(), tmp_path, given(tmp_path))
    first = files.restore().library
    assert (tmp_path / first.lstrip("/")).read_bytes() == LIBRARY
    before = (tmp_path / first.lstrip("/")).stat()
    assert files.restore().library == first
    assert (tmp_path / first.lstrip("/")).stat() == before


def test_a_newer_library_leaves_the_older_one_to_programs_that_run(tmp_path: Path) -> None:
    first = NodeFiles(AnswerSettings(), tmp_path, given(tmp_path)).restore().library
    second = NodeFiles(AnswerSettings(), tmp_path, given(tmp_path, LIBRARY + b"2")).restore().library
    assert first != second
    assert (tmp_path / first.lstrip("/")).read_bytes() == LIBRARY


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", None])
def test_what_is_no_library_is_not_installed(content: bytes | None, tmp_path: Path) -> None:
    file = given(tmp_path, content) if content is not None else tmp_path / "nowhere"
    with pytest.raises(HostFilesError, match="--library names HAMi-core's"):
        NodeFiles(AnswerSettings(), tmp_path, file).restore()


def test_in_trials_containers_get_all_mounts_and_load_nothing(tmp_path: Path) -> None:
    with pytest.raises(HostFilesError, match="is missing"):
        NodeFiles(AnswerSettings(), tmp_path).restore()
    trial = NodeFiles(AnswerSettings(), tmp_path, is_trial=True)
    assert trial.restore().library == "/usr/local/vgpu/libvgpu.so.none"
    preload = tmp_path / "usr/local/vgpu/ld.so.preload"
    assert preload.read_text() == ""
    with pytest.raises(HostFilesError, match="is missing"):
        NodeFiles(AnswerSettings(), tmp_path).restore()
    preload.with_name("libvgpu.so").write_bytes(LIBRARY)
    assert trial.restore().library == "/usr/local/vgpu/libvgpu.so"
    assert preload.read_text() == "/usr/local/vgpu/libvgpu.so\n"


def test_what_the_runtime_made_a_directory_becomes_a_file_again(tmp_path: Path) -> None:
    """A container that starts while a mounted file is missing gets an empty directory in its place."""
    files = NodeFiles(AnswerSettings(), tmp_path, given(tmp_path))
    library = tmp_path / files.restore().library.lstrip("/")
    preload = library.with_name("ld.so.preload")
    for path in (library, preload):
        path.unlink()
        path.mkdir()
    files.restore()
    assert library.read_bytes() == LIBRARY
    assert preload.read_text() == "/usr/local/vgpu/libvgpu.so\n"

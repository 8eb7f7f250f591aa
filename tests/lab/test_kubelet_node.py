"""What is said where no real node can run, and the images that its pods have."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from tonnage.lab import cgroups, kubelet_node, nodespace, parts
from tonnage.lab.images import WORKLOAD, write_image
from tonnage.lab.kubelet_node import missing


def test_without_root_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "a kubelet needs root"


def test_programs_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nodespace, "_PLACES", str(tmp_path))
    said = missing()
    assert said is not None
    assert said.startswith("containerd, ctr, runc, unshare, ")
    assert "needs the packages containerd and runc" in said


@pytest.mark.parametrize(
    "files", [{}, {"cpu/cgroup.procs": "", "memory/cgroup.procs": ""}, {"cgroup.controllers": "cpu"}]
)
def test_control_groups_that_lack_something_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cgroups, "_MOUNTED", tmp_path)
    said = cgroups.missing()
    assert said is not None
    assert "cpuset" in said
    assert "pids" in said


def test_a_kubelet_that_is_not_built_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(kubelet_node, "tool", lambda name: f"/bin/{name}")
    monkeypatch.setattr(cgroups, "missing", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert missing() in {
        "the parts of a node are not built; `make node-parts` builds them",
        "the parts of a node are not built, and Go, which builds them, is not installed",
    }
    parts.folder(parts.node()).mkdir(parents=True)
    assert missing() is None


def test_an_image_is_one_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"a program")
    write_image(program, WORKLOAD, tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        content = archive.extractfile("manifest.json")
        assert content is not None
        (image,) = json.load(content)
        assert image["RepoTags"] == [WORKLOAD]
        assert set(archive.getnames()) == {image["Config"], "layer.tar", "manifest.json"}

"""Folders of pods that have ended are removed after five minutes, and nothing outside them is touched."""

import os
from pathlib import Path

import pytest

from tests.agent.scenes import VENDOR, pod, use
from tonnage.agent.core.nodepod import NodePod, node_pod
from tonnage.agent.foldertree import remove_folder
from tonnage.agent.monitor.folders import FolderCleaner, pods_with_folders


def living(*pods: NodePod) -> frozenset[str]:
    return pods_with_folders(pods)


def seen(phase: str = "Running", deleted: bool = False) -> NodePod:
    watched = pod("p", [use(0)], phase=phase)
    found = node_pod(watched, VENDOR)
    return found if not deleted else NodePod(found.uid, "team", "p", (), is_over=found.is_over, is_terminating=True)


def test_a_folder_goes_five_minutes_after_its_pod_is_gone() -> None:
    cleaner = FolderCleaner()
    assert cleaner.due(["uid-p_c0"], living(seen()), 0.0) == []
    assert cleaner.due(["uid-p_c0"], living(), 1000.0) == []
    assert cleaner.due(["uid-p_c0"], living(), 1299.9) == []
    assert cleaner.due(["uid-p_c0"], living(), 1300.0) == ["uid-p_c0"]
    assert cleaner.due([], living(), 1301.0) == []


def test_a_finished_pod_that_still_exists_loses_its_folder_and_a_terminating_one_keeps_it() -> None:
    cleaner = FolderCleaner()
    for now in (0.0, 300.0, 10_000.0):
        assert cleaner.due(["uid-p_c0"], living(seen(deleted=True)), now) == []
        assert cleaner.due(["uid-p_c0"], living(seen("Failed", deleted=True)), now) == []
    assert cleaner.due(["uid-p_c0"], living(seen("Succeeded")), 10_000.0) == []
    assert cleaner.due(["uid-p_c0"], living(seen("Succeeded")), 10_300.0) == ["uid-p_c0"]


def test_a_pod_that_comes_back_to_view_starts_anew() -> None:
    cleaner = FolderCleaner()
    cleaner.due(["uid-p_c0"], living(), 0.0)
    assert cleaner.due(["uid-p_c0"], living(seen()), 200.0) == []
    assert cleaner.due(["uid-p_c0"], living(), 400.0) == []
    assert cleaner.due(["uid-p_c0"], living(), 700.0) == ["uid-p_c0"]


def test_names_that_no_pod_has_stay() -> None:
    cleaner = FolderCleaner()
    cleaner.due(["lost+found"], living(), 0.0)
    assert cleaner.due(["lost+found"], living(), 1000.0) == []


# -- removal


def filled(folder: Path) -> Path:
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "a/b/file").write_text("x")
    (folder / "file").write_text("x")
    os.mkfifo(folder / "a/pipe")
    return folder


def test_a_folder_is_removed_and_what_its_links_name_stays(tmp_path: Path) -> None:
    outside = filled(tmp_path / "outside")
    folder = filled(tmp_path / "containers/u_c")
    for place in (folder, folder / "a", folder / "a/b"):
        (place / "link").symlink_to(outside)
        (place / "up").symlink_to("..")
    os.link(outside / "file", folder / "hard")
    assert remove_folder(folder)
    assert list((tmp_path / "containers").iterdir()) == []
    assert (outside / "a/b/file").read_text() == (outside / "file").read_text() == "x"


def test_a_folder_that_is_a_link_is_removed_alone(tmp_path: Path) -> None:
    outside = filled(tmp_path / "outside")
    (tmp_path / "u_c").symlink_to(outside)
    assert remove_folder(tmp_path / "u_c")
    assert not (tmp_path / "u_c").is_symlink()
    assert (outside / "a/b/file").exists()
    assert remove_folder(tmp_path / "never there")


def test_a_folder_that_is_nested_deeper_than_paths_are_long_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "u_c"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert remove_folder(folder)
    assert not folder.exists()


@pytest.mark.parametrize("nested", [True, False])
def test_of_a_flood_of_files_a_part_is_removed_each_time(nested: bool, tmp_path: Path) -> None:
    folder = tmp_path / "u_c"
    place = folder / "in" if nested else folder
    place.mkdir(parents=True)
    for number in range(100):
        (place / str(number)).touch()
    times = 1
    while not remove_folder(folder, most=30):
        times += 1
    assert 3 < times < 6
    assert not folder.exists()

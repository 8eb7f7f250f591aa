"""Shared regions are read in all layouts; whatever else a container puts there is left out and nothing is touched."""

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.monitor.regionfiles import V0, V1, A, Process, region_bytes, words, write_region
from tests.agent.scenes import uuid
from tonnage.agent.monitor.layouts import LAYOUTS, RegionLayout
from tonnage.agent.monitor.regions import (
    FOREIGN,
    MOST_NAMES,
    NO_FILE,
    SEVERAL,
    WRONG_SIZE,
    DeviceUsage,
    RegionError,
    SharedRegion,
    open_region,
)

ids = {"ids": lambda layout: layout.name}


def alive(_: int) -> bool:
    return True


def read(
    containers: Path, folder: str = "u_c", is_alive: Callable[[int], bool] = alive
) -> tuple[SharedRegion, tuple[DeviceUsage, ...]] | None:
    with open_region(containers, folder) as file:
        if file is None:
            return None
        region = file.read()
        return region, file.usage(region, is_alive)


def fault(containers: Path, folder: str = "u_c") -> str:
    with pytest.raises(RegionError) as found:
        read(containers, folder)
    return found.value.kind


@pytest.mark.parametrize("layout", LAYOUTS, **ids)
def test_every_layout_is_read(layout: RegionLayout, tmp_path: Path) -> None:
    used = [(1, 2, 3, 4, 10), (10, 20, 30, 40, 100)]
    processes = [Process(used, (7, 8)), Process(used, (70, 80), status=0), Process(used, (1, 1), status=2)]
    content = region_bytes(
        layout, [uuid(0), uuid(1)], limits=(4 << 30, 8 << 30), processes=processes, priority=0, last_kernel=1234
    )
    write_region(tmp_path, "u_c", content)
    found = read(tmp_path)
    assert found is not None
    region, usage = found
    assert (region.uuids, region.limits) == ((uuid(0), uuid(1)), (4 << 30, 8 << 30))
    assert (region.processes, region.switch, region.recent, region.priority) == (3, 1, 2, 0)
    assert region.last_kernel == (1234 if layout.has_kernel_time else 0)
    shares = (8, 9) if layout.utilization is not None else (0, 0)
    assert usage == (DeviceUsage(2, 4, 6, 8, 20, shares[0]), DeviceUsage(20, 40, 60, 80, 200, shares[1]))


def test_processes_that_were_killed_do_not_count(tmp_path: Path) -> None:
    processes = [Process([(0, 0, 0, 0, 10)], host_pid=pid) for pid in (11, 12, 0)]
    write_region(tmp_path, "u_c", region_bytes(V1, [uuid(0)], processes=processes))
    found = read(tmp_path, is_alive=lambda pid: pid == 12)
    assert found is not None
    assert found[1][0].total == 20


@pytest.mark.parametrize("layout", LAYOUTS, **ids)
def test_words_are_written_and_nothing_else(layout: RegionLayout, tmp_path: Path) -> None:
    file = write_region(tmp_path, "u_c", region_bytes(layout, [uuid(0)], priority=3, last_kernel=9))
    with open_region(tmp_path, "u_c", writable=True) as region:
        assert region is not None
        region.write(recent=-1, switch=0)
    assert words(file, layout) == (-1, 0)
    with open_region(tmp_path, "u_c", writable=True) as region:
        assert region is not None
        region.write(recent=2, switch=1)
    assert file.read_bytes() == region_bytes(layout, [uuid(0)], priority=3, last_kernel=9)


def test_a_container_without_a_region_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "u_c").mkdir()
    (tmp_path / "u_c" / "libvgpu.so").write_bytes(b"")
    assert read(tmp_path) is None


@pytest.mark.parametrize("change", [-1, 1, -2, 4096], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, **ids)
def test_a_file_of_another_size_is_left_out(layout: RegionLayout, change: int, tmp_path: Path) -> None:
    file = write_region(tmp_path, "u_c", region_bytes(layout, [uuid(0)]))
    os.truncate(file, layout.file_size + change)
    assert fault(tmp_path) == WRONG_SIZE


def test_a_huge_sparse_file_and_an_empty_one_are_left_out(tmp_path: Path) -> None:
    file = write_region(tmp_path, "u_c", b"")
    assert fault(tmp_path) == WRONG_SIZE
    os.truncate(file, 1 << 40)
    assert fault(tmp_path) == WRONG_SIZE


def test_a_file_that_shrinks_while_it_is_open_is_left_out(tmp_path: Path) -> None:
    file = write_region(tmp_path, "u_c", region_bytes(V1, [uuid(0)], processes=[Process()] * 9))
    with open_region(tmp_path, "u_c") as region:
        assert region is not None
        seen = region.read()
        os.truncate(file, V1.slots + 5)
        with pytest.raises(RegionError, match="cut short"):
            region.usage(seen, alive)


def test_a_link_to_a_region_elsewhere_is_left_out_and_its_target_untouched(tmp_path: Path) -> None:
    content = region_bytes(V1, [uuid(0)])
    elsewhere = write_region(tmp_path / "elsewhere", "x", content)
    (tmp_path / "u_c").mkdir()
    for link in (os.symlink, os.link):
        link(elsewhere, tmp_path / "u_c" / "a.cache")
        with pytest.raises(RegionError), open_region(tmp_path, "u_c", writable=True):
            raise AssertionError("it was opened")
        assert fault(tmp_path) == NO_FILE
        (tmp_path / "u_c" / "a.cache").unlink()
    assert elsewhere.read_bytes() == content


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    write_region(tmp_path / "elsewhere", "x", region_bytes(V1, [uuid(0)]))
    (tmp_path / "u_c").symlink_to(tmp_path / "elsewhere" / "x")
    with pytest.raises(RegionError):
        read(tmp_path)


def test_pipes_folders_and_sockets_are_left_out_without_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "u_c"
    folder.mkdir()
    os.mkfifo(folder / "a.cache")
    assert fault(tmp_path) == NO_FILE
    (folder / "a.cache").unlink()
    (folder / "a.cache").mkdir()
    assert fault(tmp_path) == NO_FILE
    (folder / "a.cache").rmdir()
    os.mknod(folder / "a.cache", stat.S_IFSOCK | 0o666)
    assert fault(tmp_path) == NO_FILE


def test_several_regions_or_a_flood_of_names_are_left_out(tmp_path: Path) -> None:
    write_region(tmp_path, "u_c", region_bytes(A, [uuid(0)]))
    write_region(tmp_path, "u_c", region_bytes(V0, [uuid(0)]), "b.cache")
    assert fault(tmp_path) == SEVERAL
    for number in range(MOST_NAMES + 1):
        write_region(tmp_path, "v_c", b"", f"{number}")
    assert fault(tmp_path, "v_c") == SEVERAL


@pytest.mark.parametrize("name", ["", "GPU-", "gpu-1", "GPU-\n", "GPU-\xff", 'GPU-"} 1', "MIG-" + "a" * 92])
def test_names_that_are_no_devices_are_left_out(name: str, tmp_path: Path) -> None:
    write_region(tmp_path, "u_c", region_bytes(V1, [name]))
    assert fault(tmp_path) == FOREIGN


def test_memory_that_no_card_has_is_not_believed(tmp_path: Path) -> None:
    write_region(tmp_path, "u_c", region_bytes(V1, [uuid(0)], limits=[2**63]))
    assert fault(tmp_path) == FOREIGN
    write_region(tmp_path, "u_c", region_bytes(V1, [uuid(0)], processes=[Process([(0, 0, 0, 0, 2**63)])]))
    assert fault(tmp_path) == FOREIGN


def test_numbers_of_processes_and_devices_are_kept_within_bounds(tmp_path: Path) -> None:
    for processes, expected in ((2**31 - 1, 1024), (-5, 0)):
        content = bytearray(region_bytes(V1, [uuid(0)] * 16))
        struct.pack_into("<i", content, V1.processes, processes)
        struct.pack_into("<Q", content, V1.count, 2**64 - 1)
        write_region(tmp_path, "u_c", bytes(content))
        found = read(tmp_path)
        assert found is not None
        assert (found[0].processes, len(found[0].uuids)) == (expected, 16)


_places = st.one_of(st.integers(0, 2000), st.integers(-70, -1), st.integers(0, 800_000))


@given(st.sampled_from(LAYOUTS), st.lists(st.tuples(_places, st.binary(min_size=1, max_size=64)), max_size=6))
def test_random_bytes_give_a_region_or_a_fault(layout: RegionLayout, patches: list[tuple[int, bytes]]) -> None:
    content = bytearray(region_bytes(layout, [uuid(0)], processes=[Process([(1, 1, 1, 1, 1)])] * 3))
    for place, piece in patches:
        start = place % len(content)
        content[start : start + len(piece)] = piece[: len(content) - start]
    with TemporaryDirectory() as made:
        write_region(Path(made), "u_c", bytes(content))
        try:
            found = read(Path(made))
        except RegionError:
            return
    assert found is not None
    region, usage = found
    assert len(region.uuids) == len(usage) <= 16
    assert all(name.startswith(("GPU-", "MIG-")) for name in region.uuids)
    assert all(0 <= one.total <= 2**48 for one in usage)

"""Tasks on a Dask cluster of separate processes: in order, told as they come, and the same when workers are killed."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster

from tests.simulator.studies.workers import start
from tests.simulator.tasks import Sources, deadly, fail, product, slow_product, unpacked
from tonnage.simulator.studies.distributed import DaskError, run_on_dask

SOURCES = Sources(7)


def ignore(number: int, result: object) -> None:
    pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    yield from start(2)


@pytest.fixture
def lone_worker() -> Iterator[LocalCluster]:
    yield from start(1)


def test_results_come_in_order_and_each_is_told_once(cluster: LocalCluster):
    told: dict[int, int] = {}
    results = run_on_dask(cluster.scheduler_address, product, SOURCES, range(20), told.__setitem__)
    assert results == [7 * number for number in range(20)]
    assert told == {number: 7 * number for number in range(20)}


def test_equal_arguments_are_tasks_of_their_own(cluster: LocalCluster):
    told: list[int] = []
    results = run_on_dask(cluster.scheduler_address, product, SOURCES, [3, 3], lambda number, _: told.append(number))
    assert results == [21, 21]
    assert sorted(told) == [0, 1]


def test_what_is_shared_reaches_each_worker_once(cluster: LocalCluster):
    first = dict(run_on_dask(cluster.scheduler_address, unpacked, SOURCES, range(6), ignore))
    results = run_on_dask(cluster.scheduler_address, unpacked, SOURCES, range(40), ignore)
    assert len({worker for worker, _ in results}) == 2
    assert all(count <= first.get(worker, 0) + 1 for worker, count in results)


def test_no_tasks_have_no_results(cluster: LocalCluster):
    assert run_on_dask(cluster.scheduler_address, product, SOURCES, [], ignore) == []


def test_what_a_task_raises_is_raised_here(cluster: LocalCluster):
    with pytest.raises(ValueError, match="7 is not to be had"):
        run_on_dask(cluster.scheduler_address, fail, SOURCES, [7], ignore)


@pytest.mark.parametrize("workers", ["cluster", "lone_worker"])
def test_a_worker_killed_in_the_middle_changes_nothing(workers: str, request: pytest.FixtureRequest, tmp_path: Path):
    cluster: LocalCluster = request.getfixturevalue(workers)
    killed: list[int] = []
    told: list[int] = []

    def kill_one(number: int, _: int) -> None:
        told.append(number)
        if not killed:
            worker = next(iter(cluster.workers.values()))
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    tasks = [(number, str(tmp_path)) for number in range(16)]
    results = run_on_dask(cluster.scheduler_address, slow_product, SOURCES, tasks, kill_one)
    assert results == [7 * number for number in range(16)]
    assert sorted(told) == list(range(16))
    begun = [int(note.name.split("-")[1]) for note in tmp_path.iterdir()]
    assert killed[0] in begun
    assert len(begun) > len(tasks), "no task was begun twice, so none was lost"


def test_a_task_that_kills_every_worker_is_given_up(lone_worker: LocalCluster):
    with pytest.raises(DaskError, match="lost several workers to one task"):
        run_on_dask(lone_worker.scheduler_address, deadly, SOURCES, [1], ignore)


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tonnage.simulator.studies.distributed.PATIENCE", 1.0)
    with pytest.raises(DaskError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        run_on_dask("tcp://127.0.0.1:1", product, SOURCES, [1], ignore)


def test_an_address_that_is_none_is_an_error():
    with pytest.raises(DaskError, match="no Dask scheduler answers at nonsense://x"):
        run_on_dask("nonsense://x", product, SOURCES, [1], ignore)


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DaskError, match=r"pip install 'tonnage\[dask\]'"):
        run_on_dask("tcp://127.0.0.1:1", product, SOURCES, [1], ignore)

"""A Dask cluster of separate processes."""

import os
from collections.abc import Iterator

import dask
import pytest
from distributed import LocalCluster

from tests.paths import ROOT
from tests.waiting import PATIENCE


def start(workers: int) -> Iterator[LocalCluster]:
    # What a killed worker had finished is asked of it in vain for a while; a task may kill one worker by chance.
    settings = dask.config.set({"distributed.comm.timeouts.connect": "2s", "distributed.scheduler.allowed-failures": 1})
    with settings, pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as running:
            running.wait_for_workers(workers, timeout=PATIENCE)
            yield running

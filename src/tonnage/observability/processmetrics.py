"""Metrics of the process as every Prometheus client tells them, for a process that is too small for the library."""

import os
import resource
from pathlib import Path

from tonnage.observability.catalog import COUNTER, GAUGE, MetricSpec

_SELF = Path("/proc/self")
PROCESS_METRICS = {
    "process_virtual_memory_bytes": MetricSpec(GAUGE, "Virtual memory size in bytes."),
    "process_resident_memory_bytes": MetricSpec(GAUGE, "Resident memory size in bytes."),
    "process_start_time_seconds": MetricSpec(GAUGE, "Start time of the process in unix seconds."),
    "process_cpu_seconds_total": MetricSpec(COUNTER, "User and system CPU time in seconds."),
    "process_open_fds": MetricSpec(GAUGE, "Open file descriptors."),
    "process_max_fds": MetricSpec(GAUGE, "Most file descriptors that may be open."),
}


def process_figures() -> dict[str, float]:
    """The values, by name."""
    # The name of the program, in brackets, may hold anything.
    fields = (_SELF / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    values = (
        int(fields[20]),
        int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        _boot_time() + int(fields[19]) / ticks,
        (int(fields[11]) + int(fields[12])) / ticks,
        len(os.listdir(_SELF / "fd")),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )
    return dict(zip(PROCESS_METRICS, map(float, values), strict=True))


def _boot_time() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)

"""Recorder measurements: metrics, Events and log lines per decision, and scrapes of /metrics."""

import asyncio
import logging
import os
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import msgspec
import uvloop
from starlette.types import ASGIApp, Message

from bench.workload import bench_pod
from tonnage.binder.handover import HandoverQueue
from tonnage.cluster.cluster import Cluster
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.protocol import BindArgs, FilterArgs
from tonnage.extender.recorder import BOUND, ExtenderRecorder
from tonnage.extender.replicas import Replicas
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.kube.client import Client
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.watch import Backoff
from tonnage.model.pod import Pod
from tonnage.observability.events import EventRecorder
from tonnage.observability.logs import JsonLines
from tonnage.observability.scrapes import PATH
from tonnage.plugins.defaults import default_plugins

_NO_CLIENT = cast("Client", None)
"""These benchmarks write nothing."""
_PACKED = [(b"accept-encoding", b"gzip")]


class RecordingCost(NamedTuple):
    """Microseconds of CPU time per decision."""

    metrics: float
    placed: float
    bound: float
    unschedulable: float
    line: float


class Scrape(NamedTuple):
    """Milliseconds of CPU time, because wall time is noisy."""

    whole: float
    longest_block: float
    """The longest time for which the scrape keeps the event loop."""


class OfflineExtender:
    """The parts of an extender that metrics read, without an API server."""

    def __init__(self, cluster: Cluster) -> None:
        plugins = default_plugins()
        self.cluster = cluster
        self.session = Session(cluster, plugins)
        self.reservations = Reservations(self.session, plugins)
        self.handovers = HandoverQueue(time.monotonic)
        self.informer = ClusterInformer(_NO_CLIENT, cluster, Backoff(draw=lambda: 0.5))
        self.binder = Binder(_NO_CLIENT, cluster, self.reservations, self.handovers, time.time, time.monotonic)
        self.handshakes = Handshakes(_NO_CLIENT, cluster, time.time, lambda: 0.5)
        self.replicas: Replicas | None = None


@contextmanager
def _discarded_log(name: str) -> Iterator[logging.Logger]:
    logger = logging.getLogger(name)
    with open(os.devnull, "w") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(JsonLines())
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO)
        try:
            yield logger
        finally:
            logger.removeHandler(handler)
            logger.propagate = True


def _microseconds(function: Callable[[], Any], number: int) -> float:
    return min(timeit.repeat(function, timer=time.thread_time, number=number, repeat=15)) / number * 1e6


def _recorded_pod(memory: int) -> Pod:
    made = bench_pod(f"recorded-{memory}", 1, memory, 5)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid="1"))


def recording(cluster: Cluster, number: int) -> RecordingCost:
    """Cost of recording a decision, with thousands of other Events in the queue."""
    parts, metrics = OfflineExtender(cluster), ExtenderMetrics()
    recorder = ExtenderRecorder(metrics, EventRecorder(_NO_CLIENT, time.time))
    metrics.app(parts)
    names = list(cluster.nodes)
    good, bad = (FilterArgs(_recorded_pod(memory), None, names) for memory in (1024, 10**7))
    placed, failed = parts.reservations.filter(good, 0.0), parts.reservations.filter(bad, 0.0)
    decision = placed.decision
    assert decision is not None
    assert decision.node is not None
    args = BindArgs("recorded-1024", "bench", "", decision.node)
    observe, count = metrics.filter_seconds.observe, recorder._counts["bind", BOUND].inc
    request = metrics.timings.request_seconds.labels("filter").observe
    with _discarded_log("tonnage.extender.recorder") as logger:
        counting = _microseconds(lambda: (observe(0.0003), count(), request(0.0004)), number)
        filtered = _microseconds(lambda: recorder.filtered(good, placed, 0.0003), number)
        with_line = _microseconds(lambda: recorder.bound(args, decision, 0.01), number)
        unschedulable = _microseconds(lambda: recorder.filtered(bad, failed, 0.0003), number)
        logger.setLevel(logging.ERROR)
        line = with_line - _microseconds(lambda: recorder.bound(args, decision, 0.01), number)
    parts.reservations.release(decision.task.key)
    return RecordingCost(counting, filtered, with_line, unschedulable, line)


def scrape(cluster: Cluster, runs: int) -> Scrape:
    """The median time of a gzip scrape and the longest block of the event loop in any of them.

    Each scrape is the first of its extender, which learns the typical pods. The first scrape of the process does not
    count, because the web library then loads its modules.
    """
    found = [uvloop.run(_scrape(ExtenderMetrics().app(OfflineExtender(cluster)))) for _ in range(1 + runs)][1:]
    return Scrape(statistics.median(one.whole for one in found), max(one.longest_block for one in found))


async def _scrape(app: ASGIApp) -> Scrape:
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    async def receive() -> Message:
        # The client stays connected.
        await asyncio.Event().wait()
        return {}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": PATH, "query_string": b"", "headers": _PACKED}
    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    begun = time.thread_time()
    await app(scope, receive, send)
    whole = time.thread_time() - begun
    # One more turn, in which `others` measures the last block.
    await asyncio.sleep(0)
    task.cancel()
    return Scrape(whole * 1e3, longest * 1e3)

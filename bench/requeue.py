"""Requeue measurements: the search for pending pods that fit a freed card."""

import time

import msgspec

from tests.scenario import node, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.extender.pending import PendingPods
from tonnage.extender.protocol import FilterArgs, FilterResult
from tonnage.extender.reservations import Filtered, Reservations
from tonnage.extender.service import without_kube_schedulers_own
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins

CARDS = 8


def full_cluster(count: int) -> Cluster:
    """Nodes whose cards are all taken whole."""
    nodes = [node(f"n{number}", gpus=CARDS, nvidia__com__gpu=80) for number in range(count)]
    holders = [
        running(f"r{number}-{card}", on=f"n{number}", gpu=card, memory=8000)
        for number in range(count)
        for card in range(CARDS)
    ]
    return scenario(*nodes, *holders)


class PendingBenchmark:
    """Pending pods of some pod classes on a full cluster."""

    def __init__(self, cluster: Cluster, count: int, classes: int) -> None:
        self._cluster = cluster
        self._now = 0.0
        plugins = without_kube_schedulers_own(default_plugins())
        self._session = Session(cluster, plugins)
        self._pending = PendingPods(self._session, Reservations(self._session, plugins), time.perf_counter)
        for number in range(count):
            made = pod(f"p{number}", 1, memory=7000 + number % classes)
            cluster.upsert_pod(msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid="1")))
        self._pending.adopt("")
        self._settle()

    def close(self) -> None:
        for key in list(self._cluster.waiting):
            self._cluster.remove_pod(key)
        self._session.close()

    def _settle(self) -> tuple[float, float]:
        """Seconds until every pod that fits is requeued and placed, and seconds of the longest pass."""
        spent, longest, quiet = 0.0, 0.0, 0
        while quiet < 3:
            started = time.perf_counter()
            requeued = self._pending.to_requeue(self._now)
            took = time.perf_counter() - started
            spent, longest = spent + took, max(longest, took)
            quiet = 0 if requeued or self._pending.is_unfinished else quiet + 1
            self._now += self._pending.pause
            for task in requeued:
                decision = self._session.place(task)
                assert decision.node is not None
                came = FilterArgs(pod=task.pod, node_names=[decision.node])
                self._pending.filtered(came, Filtered(FilterResult(node_names=[decision.node])))
        return spent, longest

    def seconds_per_freed_card(self, runs: int = 20) -> tuple[float, float]:
        """The fastest of several freed cards, and the longest pass in it."""
        found = []
        for _ in range(runs):
            self._cluster.remove_pod(next(iter(self._cluster.running)))
            found.append(self._settle())
        return min(found)

    def seconds_per_idle_pass(self, runs: int = 1000) -> float:
        """Time of a pass when nothing has changed."""
        started = time.perf_counter()
        for _ in range(runs):
            self._pending.to_requeue(self._now)
        return (time.perf_counter() - started) / runs

"""Explanation measurements: a pod that waits on a full cluster, with and without what would help."""

import time
from typing import NamedTuple

from msgspec.structs import replace

from bench.workload import CARD_MEMORY, GPUS, bench_node, bench_pod, running_pod
from tests.config.texts import KAI_DEFAULT
from tonnage.cluster.cluster import Cluster
from tonnage.config.load import load_text
from tonnage.devices.catalog import default_vendors
from tonnage.explain.record import ExplainedKind
from tonnage.framework.plugin import Plugin
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.plan.defrag.moves import make_explainer
from tonnage.plugins.defaults import default_plugins

WAITING_SHARE = 10
"""One pod in so many waits."""
NOW = 1_800_000_000.0
ALL = ("allocate", "consolidation", "reclaim", "preempt")


class ExplainCost(NamedTuple):
    """CPU seconds of the slowest question."""

    why: float
    helps: float
    suggestions: int
    """How many changes were proven, over all questions."""


def full_cluster(nodes: int, pods: int) -> Cluster:
    """Nodes on which every card is in use, so that no whole card is free, and pods that want whole cards."""
    cluster = Cluster(default_vendors())
    cluster.now = NOW
    for number in range(nodes):
        cluster.upsert_node(bench_node(number))
    waiting = pods // WAITING_SHARE
    running = pods - waiting
    for number in range(running):
        cluster.upsert_pod(_spread(running_pod(number, nodes), number, nodes))
    shapes = ((8, 0, 100), (1, 0, 100), (2, 70000, 50), (4, 0, 0), (1, 90000, 10))
    for number in range(waiting):
        cluster.upsert_pod(bench_pod(f"waiting-{number}", *shapes[number % len(shapes)]))
    cluster.settle()
    return cluster


def _spread(pod: Pod, number: int, nodes: int) -> Pod:
    """A running pod of a controller's with half of a card, one card after the other."""
    node, card = number % nodes, number // nodes % GPUS
    held = {"hami.io/vgpu-devices-allocated": f"GPU-{node:05d}-{card},NVIDIA,{CARD_MEMORY // 2},45:;"}
    owners = [OwnerReference(f"owner-{number}", controller=True, kind="ReplicaSet")]
    metadata = ObjectMeta(pod.metadata.name, pod.metadata.namespace, annotations=held, ownerReferences=owners)
    return Pod(metadata, pod.spec, replace(pod.status, startTime=rfc3339(NOW - number % 1000 * 3600.0)))


def cost_of_explaining(cluster: Cluster, plugins: list[Plugin], actions: tuple[str, ...]) -> ExplainCost:
    """The cost of explaining pods of every shape."""
    why = helps = 0.0
    suggestions = 0
    for number in range(5):
        name = f"waiting-{number}"
        for suggests in (False, True):
            start = time.process_time()
            explainer = make_explainer(cluster, plugins, actions)
            found = explainer.explain(ExplainedKind.POD, name, "bench", suggests=suggests)
            spent = time.process_time() - start
            if suggests:
                helps, suggestions = max(helps, spent), suggestions + len(found.suggestions)
            else:
                why = max(why, spent)
    return ExplainCost(why, helps, suggestions)


def with_defaults(nodes: int, pods: int) -> ExplainCost:
    """With HAMi's policies."""
    return cost_of_explaining(full_cluster(nodes, pods), default_plugins(), ("allocate",))


def with_kai(nodes: int, pods: int) -> ExplainCost:
    """With KAI's plugins and all actions that evict."""
    return cost_of_explaining(full_cluster(nodes, pods), list(load_text(KAI_DEFAULT, "KAI").plugins), ALL)

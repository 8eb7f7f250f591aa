"""Expected fill and places by their definitions, in plain recursion and loops, to compare tables and arrays with."""

from collections.abc import Sequence
from functools import cache
from math import sqrt

from tests.plugins.fragmentation.typicalpods import free_shares
from tonnage.cluster.cluster import Cluster
from tonnage.plugins.fragmentation._cardfill import END
from tonnage.plugins.fragmentation._nodevalues import EMPTY
from tonnage.plugins.fragmentation._places import RESERVE, STEEPNESS
from tonnage.plugins.fragmentation.typicalpods import PodKind, TypicalPod, TypicalPods
from tonnage.plugins.helpers.cardshares import WHOLE


class SlowNode:
    """A node in plain numbers."""

    def __init__(self, free: Sequence[int], types: Sequence[str], cpu: int, names: Sequence[str] = ()) -> None:
        self.free = list(free)
        self.types = types
        self.cpu = cpu
        self.names = list(names or types)
        """The types of all cards of the cluster: a model that is the whole name of one means no other."""

    def accepts(self, kind: PodKind, card: int) -> bool:
        return dict(zip(self.names, kind.accepted(self.names), strict=True))[self.types[card]]


def slow_fill(node: SlowNode, usual: TypicalPods) -> float:
    """What usual pods will fill of a node, in cards."""
    fill = cpu = 0.0
    for card, share in enumerate(node.free):
        fitting = [p for p in usual if p.kind.gpus == 1 and p.kind.cpu <= node.cpu and node.accepts(p.kind, card)]
        card_fill, card_cpu = _poured(share * 1000 // WHOLE, tuple(fitting))
        fill, cpu = fill + card_fill, cpu + card_cpu
    if not cpu:
        return fill
    return float(fill * node.cpu / (node.cpu**4 + cpu**4) ** 0.25)


@cache
def _poured(free: int, usual: tuple[TypicalPod, ...]) -> tuple[float, float]:
    """The expected fill of one card with so many thousandths free, and the CPU of the pods."""
    chance = fill = cpu = 0.0
    for pod in usual:
        share = max(1, -(-pod.kind.share * 1000 // WHOLE))
        if share <= free:
            later_fill, later_cpu = _poured(free - share, usual)
            chance += pod.popularity
            fill += pod.popularity * (share / 1000 + later_fill)
            cpu += pod.popularity * (pod.kind.cpu + later_cpu)
    return (fill / (chance + END), cpu / (chance + END)) if chance else (0.0, 0.0)


def slow_room(node: SlowNode, kind: PodKind) -> int:
    """How many pods of a kind alone the node has places for."""
    pieces = sum(share // kind.share for card, share in enumerate(node.free) if node.accepts(kind, card))
    return min(pieces // kind.gpus, node.cpu // kind.cpu) if kind.cpu else pieces // kind.gpus


def slow_worths(nodes: Sequence[SlowNode], usual: TypicalPods) -> dict[PodKind, float]:
    """What a place for each scarce kind is worth, in cards."""
    mean = sum(pod.popularity * pod.kind.gpus * pod.kind.share / WHOLE for pod in usual)
    free, cards = sum(sum(node.free) for node in nodes) / WHOLE, sum(len(node.free) for node in nodes)
    result: dict[PodKind, float] = {}
    for pod in usual:
        kind = pod.kind
        if kind.gpus and (kind.gpus > 1 or kind.share == WHOLE or kind.models):
            places = sum(slow_room(node, kind) for node in nodes)
            wanted = pod.popularity * free / mean + RESERVE * sqrt(pod.popularity * cards / mean)
            worth = kind.gpus * kind.share / WHOLE * min(1, wanted / places) ** STEEPNESS if places else 0
            result[kind] = worth if worth > 1e-3 else 0.0
    return result


def slow_places(node: SlowNode, worths: dict[PodKind, float]) -> float:
    """What the places of a node are worth, and its emptiness, in cards."""
    places = sum(worth * slow_room(node, kind) for kind, worth in worths.items())
    return places + EMPTY * (sum(node.free) / WHOLE) ** 2 / 8


def slow_nodes(cluster: Cluster) -> dict[str, SlowNode]:
    """All nodes of a cluster."""
    names = sorted({device.type for state in cluster.nodes.values() for device in state.devices})
    return {
        name: SlowNode(
            free_shares(cluster, name),
            [device.type for device in state.devices],
            max(0, int(cluster.columns.free[0, state.row])),
            names,
        )
        for name, state in cluster.nodes.items()
    }

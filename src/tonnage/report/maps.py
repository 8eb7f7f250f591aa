"""Maps of the cluster at one moment: every card of every node, by its used part."""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from tonnage.report.measures import fills
from tonnage.report.pages import text
from tonnage.report.pages.heatmap import Column, heat_map
from tonnage.simulator.studies.results import NodeFrame, Results

_NAMED = 100
"""Up to so many nodes each one is named."""
_FEW, _SOME = 30, 100
"""Up to so many nodes cells are drawn at triple and double size."""


@dataclass(frozen=True, slots=True)
class ModelMap:
    """The nodes with cards of one model."""

    model: str
    nodes: str
    drawing: Markup


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """The cluster under one policy."""

    policy: str
    look: int
    models: list[ModelMap]


def cluster_maps(results: Results) -> list[ClusterMap]:
    """A map for each policy that has a picture."""
    maps = []
    for look, (name, policy) in enumerate(results.policies.items()):
        nodes = [node for node in policy.picture.nodes if node.cards] if policy.picture else []
        if nodes:
            maps.append(ClusterMap(name, look, model_maps(name, nodes)))
    return maps


def map_moment(results: Results) -> str:
    """The checkpoint of the pictures."""
    moments = {policy.picture.checkpoint for policy in results.policies.values() if policy.picture}
    words = [
        f"at {text.percent(float(at), 0)} arrived demand" if fills(results) else f"after {text.duration(float(at))}"
        for at in sorted(moments, key=float)
    ]
    return text.listed(words) if words else ""


def model_maps(title: str, nodes: list[NodeFrame]) -> list[ModelMap]:
    """A map for each model: those with the most cards first, and of each the largest nodes first."""
    groups: dict[tuple[str, int], list[NodeFrame]] = {}
    sizes: Counter[str] = Counter()
    for node in nodes:
        groups.setdefault((node.model, len(node.cards)), []).append(node)
        sizes[node.model] += len(node.cards)
    named = len(nodes) <= _NAMED
    zoom = 3 if len(nodes) <= _FEW else 2 if len(nodes) <= _SOME else 1
    return [
        _model(title, model, cards, groups[model, cards], named, zoom)
        for model, cards in sorted(groups, key=lambda key: (-sizes[key[0]], key[0], -key[1]))
    ]


def _model(title: str, model: str, cards: int, nodes: list[NodeFrame], named: bool, zoom: int) -> ModelMap:
    """Nodes by their used part, cards too."""
    nodes = sorted(nodes, key=lambda node: (-sum(node.cards), node.cpu, node.name))
    columns = [Column(sorted(node.cards), node.cpu) for node in nodes]
    used = sum(sum(node.cards) for node in nodes)
    size = f"{text.counted(len(nodes), 'node')} × {text.counted(cards, 'GPU')}"
    described = f"{title}, {model}: {size}, {text.percent(100 * used / (cards * len(nodes)))} in use"
    titles = [f"{node.name}: {text.number(sum(node.cards), 2)} GPUs in use" for node in nodes] if named else []
    return ModelMap(model, size, heat_map(described, columns, titles, zoom))

"""Questions about scenarios."""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.framework.plugin import Plugin
from tonnage.plan.defrag.moves import make_explainer
from tonnage.plugins.defaults import default_plugins

KAI = """
actions: allocate, reclaim, preempt
tiers:
- plugins: [{name: predicates}, {name: proportion}, {name: priority}, {name: nodeplacement}]
"""
VOLCANO = """
actions: allocate, preempt
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def ask(
    cluster: Cluster,
    name: str,
    kind: str = "pod",
    *,
    plugins: Sequence[Plugin] | None = None,
    actions: Sequence[str] = ("allocate",),
    suggests: bool = True,
) -> Explanation:
    """The explanation by HAMi's policies, unless there are others."""
    explainer = make_explainer(cluster, default_plugins() if plugins is None else plugins, actions)
    return explainer.explain(ExplainedKind(kind), name, suggests=suggests)


def sentences(found: Explanation, kind: str) -> list[str]:
    """What is suggested of one kind."""
    return [one.sentence for one in found.suggestions if one.kind == kind]

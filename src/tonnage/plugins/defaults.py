"""The plugins that run when no configuration is given: HAMi's rules and policies."""

from tonnage.framework.plugin import Plugin
from tonnage.model.wire import convert
from tonnage.plugins.catalog import ALWAYS, LAST, plugins_named
from tonnage.plugins.gpus.gpupolicy import GpuPolicy
from tonnage.plugins.jobs.priority import Priority
from tonnage.plugins.scoring.nodepolicy import NodePolicy


def default_plugins(node_policy: str = "binpack", gpu_policy: str = "spread", numa_order: str = "tie") -> list[Plugin]:
    """HAMi's defaults pack nodes and spread over the cards of a node; pods of higher priority go first."""
    nodes = convert({"policy": node_policy}, NodePolicy.Arguments)
    cards = convert({"policy": gpu_policy, "numa_order": numa_order}, GpuPolicy.Arguments)
    return [*plugins_named(ALWAYS), Priority(), *plugins_named(LAST), NodePolicy(nodes), GpuPolicy(cards)]

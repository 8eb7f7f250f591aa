"""The plugins that doors use when no configuration is given: HAMi's rules and policies."""

from tonnage.framework.plugin import Plugin
from tonnage.plugins.devices import Devices
from tonnage.plugins.gpupolicy import NUMA_TIE, SPREAD, GpuPolicy
from tonnage.plugins.nodepolicy import BINPACK, NodePolicy
from tonnage.plugins.noderesources import NodeResources
from tonnage.plugins.nodeselection import NodeSelection


def stock_plugins(node_policy: str = BINPACK, gpu_policy: str = SPREAD, numa_order: str = NUMA_TIE) -> list[Plugin]:
    """HAMi's defaults: nodes are packed, the cards of a node are spread over."""
    return [NodeResources(), NodeSelection(), Devices(), NodePolicy(node_policy), GpuPolicy(gpu_policy, numa_order)]

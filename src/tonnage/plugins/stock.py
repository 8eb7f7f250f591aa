"""The plugins that doors use when no configuration is given: HAMi's rules and policies."""

from tonnage.framework.plugin import Plugin
from tonnage.model.wire import convert
from tonnage.plugins.devicequota import DeviceQuota
from tonnage.plugins.devices import Devices
from tonnage.plugins.gang import Gang
from tonnage.plugins.gpupolicy import GpuPolicy
from tonnage.plugins.nodepolicy import NodePolicy
from tonnage.plugins.noderesources import NodeResources
from tonnage.plugins.nodeselection import NodeSelection
from tonnage.plugins.predicates import Predicates
from tonnage.plugins.priority import Priority
from tonnage.plugins.topology import Topology


def stock_plugins(node_policy: str = "binpack", gpu_policy: str = "spread", numa_order: str = "tie") -> list[Plugin]:
    """HAMi's defaults: nodes are packed, the cards of a node are spread over; important pods go first."""
    nodes = convert({"policy": node_policy}, NodePolicy.Arguments)
    cards = convert({"policy": gpu_policy, "numa_order": numa_order}, GpuPolicy.Arguments)
    rules = [NodeResources(), NodeSelection(), Predicates(), Devices(), DeviceQuota()]
    return [*rules, Priority(), Gang(), Topology(), NodePolicy(nodes), GpuPolicy(cards)]

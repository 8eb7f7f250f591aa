"""The plugins that doors use when no configuration is given: HAMi's rules and policies."""

from tonnage.framework.plugin import Plugin
from tonnage.model.wire import convert
from tonnage.plugins.filters.noderesources import NodeResources
from tonnage.plugins.filters.nodeselection import NodeSelection
from tonnage.plugins.filters.predicates import Predicates
from tonnage.plugins.gpus.devicequota import DeviceQuota
from tonnage.plugins.gpus.devices import Devices
from tonnage.plugins.gpus.gpupolicy import GpuPolicy
from tonnage.plugins.jobs.gang import Gang
from tonnage.plugins.jobs.priority import Priority
from tonnage.plugins.scoring.nodepolicy import NodePolicy
from tonnage.plugins.topology.topology import JobTopology


def default_plugins(node_policy: str = "binpack", gpu_policy: str = "spread", numa_order: str = "tie") -> list[Plugin]:
    """HAMi's defaults: nodes are packed, the cards of a node are spread over; important pods go first."""
    nodes = convert({"policy": node_policy}, NodePolicy.Arguments)
    cards = convert({"policy": gpu_policy, "numa_order": numa_order}, GpuPolicy.Arguments)
    rules = [NodeResources(), NodeSelection(), Predicates(), Devices(), DeviceQuota()]
    return [*rules, Priority(), Gang(), JobTopology(), NodePolicy(nodes), GpuPolicy(cards)]

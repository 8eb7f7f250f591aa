"""KAI's placement plugins as KAI combines them, and sessions with some of them."""

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.model.wire import convert
from tonnage.plugins.filters.noderesources import NodeResources
from tonnage.plugins.filters.nodeselection import NodeSelection
from tonnage.plugins.gpus.devices import Devices
from tonnage.plugins.gpus.gpupack import GpuPack
from tonnage.plugins.gpus.gpusharingorder import GpuSharingOrder
from tonnage.plugins.scoring.nodeplacement import NodePlacement
from tonnage.plugins.scoring.nominatednode import NominatedNode
from tonnage.plugins.scoring.resourcetype import ResourceType


def placement(**arguments: str) -> NodePlacement:
    return NodePlacement(convert(arguments, NodePlacement.Arguments))


def kai() -> list[Plugin]:
    """KAI's own choice of them."""
    return [GpuSharingOrder(), GpuPack(), ResourceType(), NominatedNode(), placement()]


def session(cluster: Cluster, *plugins: Plugin) -> Session:
    return Session(cluster, [NodeResources(), NodeSelection(), Devices(), *plugins])


def place(cluster: Cluster, wanted: Pod, *plugins: Plugin) -> Decision:
    with session(cluster, *plugins) as opened:
        return opened.place(make_task(wanted, cluster.vendors))

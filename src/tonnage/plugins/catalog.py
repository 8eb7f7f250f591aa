"""The plugins that come with Tonnage, by name; a plugin's module is imported when it is asked for."""

from importlib import import_module

from tonnage.framework.plugin import Plugin

BUILT_IN = {
    "priority": "tonnage.plugins.jobs.priority:Priority",
    "gang": "tonnage.plugins.jobs.gang:Gang",
    "topology": "tonnage.plugins.topology.topology:JobTopology",
    "proportion": "tonnage.plugins.queues.proportion:Proportion",
    "capacity": "tonnage.plugins.queues.capacity:Capacity",
    "drf": "tonnage.plugins.queues.drf:Drf",
    "conformance": "tonnage.plugins.jobs.conformance:Conformance",
    "overcommit": "tonnage.plugins.queues.overcommit:Overcommit",
    "elastic": "tonnage.plugins.jobs.elastic:Elastic",
    "minruntime": "tonnage.plugins.jobs.minruntime:MinRuntime",
    "taskorder": "tonnage.plugins.jobs.taskorder:TaskOrder",
    "kubeflow": "tonnage.plugins.jobs.kubeflow:Kubeflow",
    "ray": "tonnage.plugins.jobs.ray:Ray",
    "noderesources": "tonnage.plugins.filters.noderesources:NodeResources",
    "nodeselection": "tonnage.plugins.filters.nodeselection:NodeSelection",
    "predicates": "tonnage.plugins.filters.predicates:Predicates",
    "devices": "tonnage.plugins.gpus.devices:Devices",
    "devicequota": "tonnage.plugins.gpus.devicequota:DeviceQuota",
    "binpack": "tonnage.plugins.scoring.binpack:Binpack",
    "nodeorder": "tonnage.plugins.scoring.nodeorder:NodeOrder",
    "noderesourcesfit": "tonnage.plugins.scoring.noderesourcesfit:NodeResourcesFit",
    "resource-strategy-fit": "tonnage.plugins.scoring.resourcestrategyfit:ResourceStrategyFit",
    "network-topology-aware": "tonnage.plugins.topology.networktopologyaware:NetworkTopologyAware",
    "nodepolicy": "tonnage.plugins.scoring.nodepolicy:NodePolicy",
    "podaffinity": "tonnage.plugins.scoring.podaffinity:PreferredPodAffinity",
    "gpupolicy": "tonnage.plugins.gpus.gpupolicy:GpuPolicy",
    "nodeplacement": "tonnage.plugins.scoring.nodeplacement:NodePlacement",
    "gpusharingorder": "tonnage.plugins.gpus.gpusharingorder:GpuSharingOrder",
    "resourcetype": "tonnage.plugins.scoring.resourcetype:ResourceType",
    "nominatednode": "tonnage.plugins.scoring.nominatednode:NominatedNode",
    "gpupack": "tonnage.plugins.gpus.gpupack:GpuPack",
    "gpuspread": "tonnage.plugins.gpus.gpuspread:GpuSpread",
    "fragmentation": "tonnage.plugins.fragmentation.fragmentation:FragmentationGradient",
    "best-fit": "tonnage.plugins.baselines.bestfit:BestFit",
    "dot-product": "tonnage.plugins.baselines.dotproduct:DotProduct",
    "gpu-packing": "tonnage.plugins.baselines.gpupacking:GpuPacking",
    "gpu-clustering": "tonnage.plugins.baselines.gpuclustering:GpuClustering",
    "random": "tonnage.plugins.baselines.random:RandomPlacement",
}
ALWAYS = ("noderesources", "nodeselection", "predicates", "devices", "devicequota")
"""Plugins without which a placement could be wrong: they run in every session, before all others."""
LAST = ("gang", "topology")
"""Keep groups whole, and together; run in every session, after all others unless they are named.

KAI has no name for the first, and pods ask for the second by annotations of their own.
"""
BASELINES = ("best-fit", "dot-product", "gpu-packing", "gpu-clustering", "random")
"""Policies that the literature compares others with; each scores nodes and orders cards."""
NODE_SCORERS = (
    "binpack",
    "nodeorder",
    "noderesourcesfit",
    "resource-strategy-fit",
    "network-topology-aware",
    "nodepolicy",
    "podaffinity",
    "nodeplacement",
    "fragmentation",
    *BASELINES,
)
"""Plugins that score nodes."""
CARD_ORDERS = ("gpupolicy", "gpupack", "gpuspread", "fragmentation", *BASELINES)
"""Plugins that say in which order a node's cards are taken; one is enough, the first unless another is named."""


def plugin_class(name: str) -> type[Plugin] | None:
    """The plugin of that name; nothing if there is none."""
    if name not in BUILT_IN:
        return None
    module, _, attribute = BUILT_IN[name].partition(":")
    kind: type[Plugin] = getattr(import_module(module), attribute)
    return kind

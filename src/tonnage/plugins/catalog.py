"""The plugins that come with Tonnage, by name; a plugin's module is imported when it is asked for."""

from importlib import import_module

from tonnage.framework.plugin import Plugin

BUILT_IN = {
    "priority": "tonnage.plugins.priority:Priority",
    "gang": "tonnage.plugins.gang:Gang",
    "topology": "tonnage.plugins.topology:Topology",
    "proportion": "tonnage.plugins.proportion:Proportion",
    "capacity": "tonnage.plugins.capacity:Capacity",
    "drf": "tonnage.plugins.drf:Drf",
    "conformance": "tonnage.plugins.conformance:Conformance",
    "overcommit": "tonnage.plugins.overcommit:Overcommit",
    "elastic": "tonnage.plugins.elastic:Elastic",
    "minruntime": "tonnage.plugins.minruntime:MinRuntime",
    "taskorder": "tonnage.plugins.taskorder:TaskOrder",
    "kubeflow": "tonnage.plugins.kubeflow:Kubeflow",
    "ray": "tonnage.plugins.ray:Ray",
    "noderesources": "tonnage.plugins.noderesources:NodeResources",
    "nodeselection": "tonnage.plugins.nodeselection:NodeSelection",
    "predicates": "tonnage.plugins.predicates:Predicates",
    "devices": "tonnage.plugins.devices:Devices",
    "devicequota": "tonnage.plugins.devicequota:DeviceQuota",
    "binpack": "tonnage.plugins.binpack:Binpack",
    "nodeorder": "tonnage.plugins.nodeorder:NodeOrder",
    "noderesourcesfit": "tonnage.plugins.noderesourcesfit:NodeResourcesFit",
    "resource-strategy-fit": "tonnage.plugins.resourcestrategyfit:ResourceStrategyFit",
    "network-topology-aware": "tonnage.plugins.networktopologyaware:NetworkTopologyAware",
    "nodepolicy": "tonnage.plugins.nodepolicy:NodePolicy",
    "podaffinity": "tonnage.plugins.podaffinity:PodAffinity",
    "gpupolicy": "tonnage.plugins.gpupolicy:GpuPolicy",
    "nodeplacement": "tonnage.plugins.nodeplacement:NodePlacement",
    "gpusharingorder": "tonnage.plugins.gpusharingorder:GpuSharingOrder",
    "resourcetype": "tonnage.plugins.resourcetype:ResourceType",
    "nominatednode": "tonnage.plugins.nominatednode:NominatedNode",
    "gpupack": "tonnage.plugins.gpupack:GpuPack",
    "gpuspread": "tonnage.plugins.gpuspread:GpuSpread",
    "fragmentation": "tonnage.plugins.fragmentation:FragmentationGradient",
    "best-fit": "tonnage.plugins.bestfit:BestFit",
    "dot-product": "tonnage.plugins.dotproduct:DotProduct",
    "gpu-packing": "tonnage.plugins.gpupacking:GpuPacking",
    "gpu-clustering": "tonnage.plugins.gpuclustering:GpuClustering",
    "random": "tonnage.plugins.atrandom:AtRandom",
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

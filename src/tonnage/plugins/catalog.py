"""The catalog of plugins that come with Tonnage: one entry each, from which every other list of them follows.

A plugin's module is imported when the plugin is first asked for.
"""

from collections.abc import Iterable
from enum import Flag, auto
from importlib import import_module
from typing import NamedTuple

from tonnage.framework.plugin import Plugin


class PluginRole(Flag):
    """What a configuration must know about a plugin before it opens it."""

    ALWAYS = auto()
    """A placement could be wrong without it: it runs in every session, before all others."""
    LAST = auto()
    """It runs in every session, after all others unless the configuration names it."""
    SCORES_NODES = auto()
    """Its scores are enough to choose a node."""
    ORDERS_CARDS = auto()
    """It orders a node's cards."""
    BASELINE = auto()
    """The literature compares other policies with it."""


class CatalogEntry(NamedTuple):
    """A plugin of the catalog."""

    name: str
    path: str
    """Its family's folder, module and class, as `jobs.priority:Priority`."""
    role: PluginRole = PluginRole(0)

    def load(self) -> type[Plugin]:
        """The plugin's class."""
        module, _, attribute = self.path.partition(":")
        kind: type[Plugin] = getattr(import_module(f"tonnage.plugins.{module}"), attribute)
        return kind


_BASELINE = PluginRole.BASELINE | PluginRole.SCORES_NODES | PluginRole.ORDERS_CARDS
# KAI has no plugin named gang, and pods ask for topology by annotations, so that both run unnamed.
_CATALOG = (
    CatalogEntry("priority", "jobs.priority:Priority"),
    CatalogEntry("gang", "jobs.gang:Gang", PluginRole.LAST),
    CatalogEntry("topology", "topology.topology:JobTopology", PluginRole.LAST),
    CatalogEntry("proportion", "queues.proportion:Proportion"),
    CatalogEntry("capacity", "queues.capacity:Capacity"),
    CatalogEntry("drf", "queues.drf:Drf"),
    CatalogEntry("conformance", "jobs.conformance:Conformance"),
    CatalogEntry("overcommit", "queues.overcommit:Overcommit"),
    CatalogEntry("elastic", "jobs.elastic:Elastic"),
    CatalogEntry("minruntime", "jobs.minruntime:MinRuntime"),
    CatalogEntry("sla", "jobs.sla:Sla"),
    CatalogEntry("taskorder", "jobs.taskorder:TaskOrder"),
    CatalogEntry("kubeflow", "jobs.kubeflow:Kubeflow"),
    CatalogEntry("ray", "jobs.ray:Ray"),
    CatalogEntry("noderesources", "filters.noderesources:NodeResources", PluginRole.ALWAYS),
    CatalogEntry("nodeselection", "filters.nodeselection:NodeSelection", PluginRole.ALWAYS),
    CatalogEntry("predicates", "filters.predicates:Predicates", PluginRole.ALWAYS),
    CatalogEntry("devices", "gpus.devices:Devices", PluginRole.ALWAYS),
    CatalogEntry("devicequota", "gpus.devicequota:DeviceQuota", PluginRole.ALWAYS),
    CatalogEntry("binpack", "scoring.binpack:Binpack", PluginRole.SCORES_NODES),
    CatalogEntry("nodeorder", "scoring.nodeorder:NodeOrder", PluginRole.SCORES_NODES),
    CatalogEntry("noderesourcesfit", "scoring.noderesourcesfit:NodeResourcesFit", PluginRole.SCORES_NODES),
    CatalogEntry("resource-strategy-fit", "scoring.resourcestrategyfit:ResourceStrategyFit", PluginRole.SCORES_NODES),
    CatalogEntry(
        "network-topology-aware", "topology.networktopologyaware:NetworkTopologyAware", PluginRole.SCORES_NODES
    ),
    CatalogEntry("nodepolicy", "scoring.nodepolicy:NodePolicy", PluginRole.SCORES_NODES),
    CatalogEntry("podaffinity", "scoring.podaffinity:PreferredPodAffinity", PluginRole.SCORES_NODES),
    CatalogEntry("gpupolicy", "gpus.gpupolicy:GpuPolicy", PluginRole.ORDERS_CARDS),
    CatalogEntry("nodeplacement", "scoring.nodeplacement:NodePlacement", PluginRole.SCORES_NODES),
    CatalogEntry("gpusharingorder", "gpus.gpusharingorder:GpuSharingOrder"),
    CatalogEntry("resourcetype", "scoring.resourcetype:ResourceType"),
    CatalogEntry("nominatednode", "scoring.nominatednode:NominatedNode"),
    CatalogEntry("gpupack", "gpus.gpupack:GpuPack", PluginRole.ORDERS_CARDS),
    CatalogEntry("gpuspread", "gpus.gpuspread:GpuSpread", PluginRole.ORDERS_CARDS),
    CatalogEntry(
        "fragmentation",
        "fragmentation.fragmentation:FragmentationGradient",
        PluginRole.SCORES_NODES | PluginRole.ORDERS_CARDS,
    ),
    CatalogEntry(
        "expectedfill",
        "fragmentation.expectedfill:ExpectedFill",
        PluginRole.SCORES_NODES | PluginRole.ORDERS_CARDS,
    ),
    CatalogEntry("best-fit", "baselines.bestfit:BestFit", _BASELINE),
    CatalogEntry("dot-product", "baselines.dotproduct:DotProduct", _BASELINE),
    CatalogEntry("gpu-packing", "baselines.gpupacking:GpuPacking", _BASELINE),
    CatalogEntry("gpu-clustering", "baselines.gpuclustering:GpuClustering", _BASELINE),
    CatalogEntry("random", "baselines.random:RandomPlacement", _BASELINE),
)
BUILT_IN = {entry.name: entry for entry in _CATALOG}


def _with(role: PluginRole) -> tuple[str, ...]:
    return tuple([entry.name for entry in _CATALOG if role in entry.role])


ALWAYS, LAST = _with(PluginRole.ALWAYS), _with(PluginRole.LAST)
BASELINES, NODE_SCORERS = _with(PluginRole.BASELINE), _with(PluginRole.SCORES_NODES)
CARD_ORDERS = _with(PluginRole.ORDERS_CARDS)
"""One of them is enough; the first is used unless another is named."""


def plugin_class(name: str) -> type[Plugin] | None:
    """The plugin of that name; nothing if there is none."""
    return BUILT_IN[name].load() if name in BUILT_IN else None


def plugins_named(names: Iterable[str]) -> list[Plugin]:
    """Plugins of the catalog, each with its default arguments."""
    return [BUILT_IN[name].load()() for name in names]

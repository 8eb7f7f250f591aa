"""The catalog of plugins that come with Tonnage: one entry each, from which every other list of them follows.

A plugin's module is imported when the plugin is first asked for.
"""

from collections.abc import Iterable
from enum import Flag, auto
from importlib import import_module
from typing import NamedTuple

from tonnage.framework.plugin import Plugin


class Role(Flag):
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


class Entry(NamedTuple):
    """A plugin of the catalog."""

    name: str
    path: str
    """Its family's folder, module and class, as `jobs.priority:Priority`."""
    role: Role = Role(0)

    def load(self) -> type[Plugin]:
        """The plugin's class."""
        module, _, attribute = self.path.partition(":")
        kind: type[Plugin] = getattr(import_module(f"tonnage.plugins.{module}"), attribute)
        return kind


_BASELINE = Role.BASELINE | Role.SCORES_NODES | Role.ORDERS_CARDS
# KAI has no plugin named gang, and pods ask for topology by annotations, so that both run unnamed.
_ENTRIES = (
    Entry("priority", "jobs.priority:Priority"),
    Entry("gang", "jobs.gang:Gang", Role.LAST),
    Entry("topology", "topology.topology:JobTopology", Role.LAST),
    Entry("proportion", "queues.proportion:Proportion"),
    Entry("capacity", "queues.capacity:Capacity"),
    Entry("drf", "queues.drf:Drf"),
    Entry("conformance", "jobs.conformance:Conformance"),
    Entry("overcommit", "queues.overcommit:Overcommit"),
    Entry("elastic", "jobs.elastic:Elastic"),
    Entry("minruntime", "jobs.minruntime:MinRuntime"),
    Entry("taskorder", "jobs.taskorder:TaskOrder"),
    Entry("kubeflow", "jobs.kubeflow:Kubeflow"),
    Entry("ray", "jobs.ray:Ray"),
    Entry("noderesources", "filters.noderesources:NodeResources", Role.ALWAYS),
    Entry("nodeselection", "filters.nodeselection:NodeSelection", Role.ALWAYS),
    Entry("predicates", "filters.predicates:Predicates", Role.ALWAYS),
    Entry("devices", "gpus.devices:Devices", Role.ALWAYS),
    Entry("devicequota", "gpus.devicequota:DeviceQuota", Role.ALWAYS),
    Entry("binpack", "scoring.binpack:Binpack", Role.SCORES_NODES),
    Entry("nodeorder", "scoring.nodeorder:NodeOrder", Role.SCORES_NODES),
    Entry("noderesourcesfit", "scoring.noderesourcesfit:NodeResourcesFit", Role.SCORES_NODES),
    Entry("resource-strategy-fit", "scoring.resourcestrategyfit:ResourceStrategyFit", Role.SCORES_NODES),
    Entry("network-topology-aware", "topology.networktopologyaware:NetworkTopologyAware", Role.SCORES_NODES),
    Entry("nodepolicy", "scoring.nodepolicy:NodePolicy", Role.SCORES_NODES),
    Entry("podaffinity", "scoring.podaffinity:PreferredPodAffinity", Role.SCORES_NODES),
    Entry("gpupolicy", "gpus.gpupolicy:GpuPolicy", Role.ORDERS_CARDS),
    Entry("nodeplacement", "scoring.nodeplacement:NodePlacement", Role.SCORES_NODES),
    Entry("gpusharingorder", "gpus.gpusharingorder:GpuSharingOrder"),
    Entry("resourcetype", "scoring.resourcetype:ResourceType"),
    Entry("nominatednode", "scoring.nominatednode:NominatedNode"),
    Entry("gpupack", "gpus.gpupack:GpuPack", Role.ORDERS_CARDS),
    Entry("gpuspread", "gpus.gpuspread:GpuSpread", Role.ORDERS_CARDS),
    Entry("fragmentation", "fragmentation.fragmentation:FragmentationGradient", Role.SCORES_NODES | Role.ORDERS_CARDS),
    Entry("best-fit", "baselines.bestfit:BestFit", _BASELINE),
    Entry("dot-product", "baselines.dotproduct:DotProduct", _BASELINE),
    Entry("gpu-packing", "baselines.gpupacking:GpuPacking", _BASELINE),
    Entry("gpu-clustering", "baselines.gpuclustering:GpuClustering", _BASELINE),
    Entry("random", "baselines.random:RandomPlacement", _BASELINE),
)
BUILT_IN = {entry.name: entry for entry in _ENTRIES}


def _with(role: Role) -> tuple[str, ...]:
    return tuple([entry.name for entry in _ENTRIES if role in entry.role])


ALWAYS, LAST = _with(Role.ALWAYS), _with(Role.LAST)
BASELINES, NODE_SCORERS = _with(Role.BASELINE), _with(Role.SCORES_NODES)
CARD_ORDERS = _with(Role.ORDERS_CARDS)
"""One of them is enough; the first is used unless another is named."""


def plugin_class(name: str) -> type[Plugin] | None:
    """The plugin of that name; nothing if there is none."""
    return BUILT_IN[name].load() if name in BUILT_IN else None


def plugins_named(names: Iterable[str]) -> list[Plugin]:
    """Plugins of the catalog, each with its default arguments."""
    return [BUILT_IN[name].load()() for name in names]

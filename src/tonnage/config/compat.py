"""Names of Volcano and KAI: their actions, plugins, keys and switches, and what each means in Tonnage."""

_NO_EVICTION = "Tonnage does not evict yet; nothing is evicted"
_ABSENT = "Tonnage does not have it yet; jobs are placed as if it were absent"

ALLOCATE = "allocate"
ACTIONS = {
    ALLOCATE: "",
    "enqueue": "",
    "backfill": "",
    "preempt": "",
    "reclaim": "",
    "shuffle": "running pods are stopped only for others that start in their place; nothing is stopped by it",
    "gangpreempt": "",
    "gangreclaim": "",
    "consolidation": "",
    "stalegangeviction": "",
}
"""Actions of Volcano and KAI, with the reason if one has no effect."""

ALWAYS_ON = {
    "deviceshare": "sharing cards is always on, with HAMi's resource names; gpupolicy says how cards are chosen",
    "nodeavailability": "pods are placed only where they fit now",
    "subgrouporder": "what each subgroup lacks is placed first, then the others in the order of pods",
}
"""Plugins of Volcano and KAI whose work the engine always does."""

ABSENT = {
    # Volcano
    "numa-aware": _ABSENT,
    "task-topology": _ABSENT,
    "tdm": _ABSENT,
    "cdp": _NO_EVICTION,
    "rescheduling": _NO_EVICTION,
    "usage": _ABSENT,
    "pdb": _NO_EVICTION,
    "nodegroup": _ABSENT,
    "resourcequota": "Tonnage does not have it yet; of namespace quotas only those on cards are looked at",
    "extender": "Tonnage does not have it yet; nothing is asked over HTTP",
    # KAI
    "dynamicresources": "Tonnage does not have it yet; resource claims are not looked at",
    "numa": _ABSENT,
    "snapshot": "it changes no decision; `tonnage schedule` replays manifests instead",
    "reflectjoborder": "it changes no decision",
    "sg-nodelocalgreedy": _NO_EVICTION,
    "sg-multinodegang": _NO_EVICTION,
}
"""Plugins of Volcano and KAI that Tonnage does not have."""

WITHOUT_EFFECT = {
    "configurations": "arguments of actions",
    "metrics": "where Volcano reads measured load",
    "queueDepthPerAction": "how many jobs of a queue KAI looks at",
    "usageDBConfig": "where KAI reads past usage",
    "scenarioSearchBudgets": "how long KAI searches for victims",
}
"""Keys besides actions and tiers, and what they set."""
TOP_LEVEL = ("actions", "tiers", *WITHOUT_EFFECT)

SWITCHES = (
    "enableJobOrder",
    "enableHierarchy",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enableJobStarving",
    "enabledClusterOrder",
    "enabledVictim",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)
SWITCHED = {
    "enableQueueOrder": ("queue order",),
    "enableJobOrder": ("job order",),
    "enableTaskOrder": ("task order",),
    "enablePredicate": ("pre-predicate", "predicate", "batch predicate", "grant predicate"),
    "enableNodeOrder": ("node order", "batch node order"),
    "enableJobReady": ("job ready",),
    "enableJobPipelined": ("job pipelined",),
    "enableJobStarving": ("job starving",),
    "enableJobEnqueued": ("job enqueueable",),
    "enablePreemptable": ("preemptable",),
    "enableReclaimable": ("reclaimable",),
    "enablePreemptive": ("reclaimer",),
    "enabledHyperNodeGradient": ("node sets", "subgroup node sets"),
    "enabledOverused": ("overused",),
    "enabledAllocatable": ("allocatable",),
}
"""The extension points that a switch turns off."""
NODE_ORDER = "enableNodeOrder"
OFF_BY_DEFAULT = ("enableHierarchy", "enabledClusterOrder")
_BY_POINT = {name.removeprefix("enable").removeprefix("d"): name for name in SWITCHES}


def volcano_spelling(switch: str) -> str | None:
    """Volcano's spelling of a switch that begins with `enable` instead of `enabled` or vice versa; None if unknown."""
    for prefix in ("enabled", "enable"):
        if switch.startswith(prefix):
            return _BY_POINT.get(switch.removeprefix(prefix))
    return None


def is_kai_switch(switch: str) -> bool:
    """Whether KAI accepts a switch; KAI's switches begin with `disable`, and KAI reads none of them."""
    return switch.startswith("disable") and switch.removeprefix("disable") in _BY_POINT

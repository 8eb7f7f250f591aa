"""Configurations of kube-scheduler: KubeSchedulerConfiguration, and the former Policy.

A profile's score plugins become `noderesourcesfit` and `nodeorder` with their weights; its filters are always on here.
A Policy's priorities are read, including the proposed Resource Bin Packing function.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tonnage.config.arguments import ArgumentReader, position_of
from tonnage.config.document import Part
from tonnage.config.notes import Notes, Position, advice
from tonnage.config.strict import read
from tonnage.framework.plugin import ArgumentError, Plugin
from tonnage.plugins.jobs.priority import Priority
from tonnage.plugins.scoring.nodeorder import NodeOrder
from tonnage.plugins.scoring.noderesourcesfit import RATIO, FitArguments, NodeResourcesFit, from_policy

CONFIGURATION, POLICY = "KubeSchedulerConfiguration", "Policy"
FIT = "NodeResourcesFit"
SCORES = {
    FIT: (1, ""),
    "NodeResourcesBalancedAllocation": (1, "balanced_resource"),
    "ImageLocality": (1, "image_locality"),
    "NodeAffinity": (2, "node_affinity"),
    "InterPodAffinity": (2, "pod_affinity"),
    "PodTopologySpread": (2, "pod_topology_spread"),
    "TaintToleration": (3, "taint_toleration"),
}
"""Kubernetes' score plugins: their default weight, and the argument of nodeorder that sets it."""
PRIORITIES = {
    "LeastRequestedPriority": "least_requested",
    "MostRequestedPriority": "most_requested",
    "BalancedResourceAllocation": "balanced_resource",
    "ImageLocalityPriority": "image_locality",
    "NodeAffinityPriority": "node_affinity",
    "InterPodAffinityPriority": "pod_affinity",
    "EvenPodsSpreadPriority": "pod_topology_spread",
    "TaintTolerationPriority": "taint_toleration",
}
"""The priorities of a Policy, and the argument of nodeorder that sets their weight."""
_NOTHING = {"least_requested": 0, "most_requested": 0, **{part: 0 for _, part in SCORES.values() if part}}
_ANY = "*"
_WITHOUT_EFFECT = {
    "percentageOfNodesToScore": "all nodes are always scored",
    "extenders": "nothing is asked over HTTP",
}

Make = Callable[[Part, Notes], list[Plugin]]


class _Strict(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the structs that list a document's keys."""


class _Plugin(_Strict, frozen=True):
    name: str
    weight: int = 0


class _Plugins(_Strict, frozen=True):
    enabled: list[_Plugin] = []
    disabled: list[_Plugin] = []


class _Points(_Strict, frozen=True):
    pre_enqueue: _Plugins = _Plugins()
    queue_sort: _Plugins = _Plugins()
    pre_filter: _Plugins = _Plugins()
    filter: _Plugins = _Plugins()
    post_filter: _Plugins = _Plugins()
    pre_score: _Plugins = _Plugins()
    score: _Plugins = _Plugins()
    reserve: _Plugins = _Plugins()
    permit: _Plugins = _Plugins()
    pre_bind: _Plugins = _Plugins()
    bind: _Plugins = _Plugins()
    post_bind: _Plugins = _Plugins()
    multi_point: _Plugins = _Plugins()


class _PluginConfig(_Strict, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _Profile(_Strict, frozen=True):
    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None
    plugins: _Points = _Points()
    plugin_config: list[_PluginConfig] = []


class _Configuration(_Strict, frozen=True):
    api_version: str = ""
    kind: str = ""
    parallelism: int = 0
    leader_election: dict[str, Any] = {}
    client_connection: dict[str, Any] = {}
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 0
    pod_max_backoff_seconds: int = 0
    delay_cache_until_active: bool = False
    extenders: list[dict[str, Any]] = []
    profiles: list[_Profile] = []


class _Policy(_Strict, frozen=True):
    api_version: str = ""
    kind: str = ""
    predicates: list[dict[str, Any]] = []
    priorities: list[dict[str, Any]] = []
    extenders: list[dict[str, Any]] = []
    hard_pod_affinity_symmetric_weight: int = 0
    always_check_all_predicates: bool = False


def reader_of(root: Part) -> Make | None:
    """The reader for a document of kube-scheduler; None if the document is none."""
    fields = root.fields() or {}
    kind = fields["kind"][1].text() if "kind" in fields else None
    if kind == CONFIGURATION:
        return read_configuration
    is_policy = kind == POLICY or ("priorities" in fields and not {"tiers", "actions"} & fields.keys())
    return read_policy if is_policy else None


def read_configuration(root: Part, notes: Notes) -> list[Plugin]:
    """The plugins that score like the first profile of a KubeSchedulerConfiguration."""
    found = read(root, _Configuration, "the configuration", notes)
    if found is None:
        return []
    _say_without_effect(root, notes)
    profile, part = (found.profiles or [_Profile()])[0], _first_profile(root)
    if len(found.profiles) > 1:
        names = ", ".join(other.scheduler_name for other in found.profiles[1:])
        notes.warn(root.position, f"only the first profile, {profile.scheduler_name}, is used; not {names}")
    _say_without_effect(part, notes)
    weights = {name: weight for name, (weight, _) in SCORES.items()}
    for point, plugins in (("multiPoint", profile.plugins.multi_point), ("score", profile.plugins.score)):
        for one in plugins.disabled:
            weights = {} if one.name == _ANY else {name: w for name, w in weights.items() if name != one.name}
        for one in plugins.enabled:
            if one.name in SCORES:
                weights[one.name] = one.weight or 1
            elif point == "score":
                told = f"{one.name} is no score plugin of Kubernetes{advice(one.name, SCORES)}; nothing is scored by it"
                notes.warn(part.position, told)
    args = _fit_arguments(profile, part, notes)
    if args is None:
        return []
    made: list[Plugin] = [Priority()]
    if FIT in weights:
        made.append(NodeResourcesFit(msgspec.structs.replace(args, weight=weights[FIT])))
    parts = {SCORES[name][1]: weight for name, weight in weights.items() if name != FIT}
    if parts:
        made.append(NodeOrder(NodeOrder.Arguments(**{**_NOTHING, **parts})))
    return made


def read_policy(root: Part, notes: Notes) -> list[Plugin]:
    """The plugins that score like the priorities of a Policy."""
    found = read(root, _Policy, "the Policy", notes)
    if found is None:
        return []
    _say_without_effect(root, notes)
    if found.predicates:
        notes.warn(_key(root, "predicates"), "predicates have no effect: what keeps pods off nodes is always on here")
    parts = dict(_NOTHING)
    fits: list[FitArguments] = []
    listed = _value(root, "priorities")
    for number, (priority, item) in enumerate(
        zip(found.priorities, listed.items() or () if listed else (), strict=True)
    ):
        name, weight = str(priority.get("name", "")), priority.get("weight") or 1
        try:
            if priority.get("argument"):
                fits.append(_with_argument(priority))
            elif name in PRIORITIES and type(weight) is int:
                parts[PRIORITIES[name]] = weight
            else:
                message = f"{name or 'a priority without a name'} is not known here{advice(name, PRIORITIES)}"
                notes.warn(item.position, f"{message}; nodes are scored as if it were absent")
        except ArgumentError as error:
            path = error.key.removeprefix("priorities[0]").removeprefix(".")
            notes.error(position_of(item, path, item.position), f"priorities[{number}]: {error.message}")
    if len(fits) > 1:
        notes.error(_key(root, "priorities"), "more than one priority has an argument; one is possible")
    made: list[Plugin] = [Priority(), *(NodeResourcesFit(args) for args in fits[:1])]
    return [*made, NodeOrder(NodeOrder.Arguments(**parts))] if any(parts.values()) else made


def _with_argument(priority: Mapping[str, Any]) -> FitArguments:
    """The scoring strategy of a priority with an argument."""
    argument = priority["argument"]
    ratio = argument.get("requestedToCapacityRatioArguments") if isinstance(argument, Mapping) else None
    if ratio is None:
        return from_policy({"priorities": [priority]})
    given = dict(ratio) if isinstance(ratio, Mapping) else {}
    strategy = {
        "type": RATIO,
        "resources": given.get("resources") or [],
        "requestedToCapacityRatio": {"shape": given.get("shape") or []},
    }
    weight = priority.get("weight") or 1
    return NodeResourcesFit.read_arguments({"scoringStrategy": strategy, "weight": weight}, lambda key, text: None)


def _fit_arguments(profile: _Profile, part: Part, notes: Notes) -> FitArguments | None:
    """The arguments of NodeResourcesFit; None if they are invalid."""
    found = FitArguments()
    configs = _value(part, "pluginConfig")
    for config, item in zip(profile.plugin_config, configs.items() or () if configs else (), strict=True):
        if config.name != FIT:
            notes.warn(item.position, f"the arguments of {config.name} have no effect here")
            continue
        reader = ArgumentReader(NodeResourcesFit, item.position, _value(item, "args"), notes)
        args = reader.read(config.args)
        if not isinstance(args, FitArguments):
            return None
        found = args
    return found


def _first_profile(root: Part) -> Part:
    profiles = _value(root, "profiles")
    items = profiles.items() if profiles is not None else None
    return items[0] if items else root


def _say_without_effect(part: Part, notes: Notes) -> None:
    for name, told in _WITHOUT_EFFECT.items():
        if _value(part, name) is not None:
            notes.warn(_key(part, name), f"{name} has no effect: {told}")


def _value(part: Part, name: str) -> Part | None:
    fields = part.fields() or {}
    return fields[name][1] if name in fields and not fields[name][1].is_null else None


def _key(part: Part, name: str) -> Position:
    return (part.fields() or {})[name][0].position

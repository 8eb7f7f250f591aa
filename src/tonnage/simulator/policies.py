"""Policies: named plugin configurations, and configurations from files.

A name stands for plugins that score nodes and order cards; NODE/GPU, such as binpack/spread, for HAMi's policies of
nodes and cards. Filters, priority and gang always run with them, and proportion runs if there may be queues. The
typical pods of `fgd` and `expectedfill` are those of the workload, if there is one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tonnage.config.finder import PluginFinder
from tonnage.config.load import SchedulerConfig, load_text
from tonnage.config.notes import ConfigError, Note, advice
from tonnage.config.source import text_of_file
from tonnage.plugins.baselines.random import RandomPlacement
from tonnage.plugins.catalog import BASELINES
from tonnage.plugins.fragmentation.expectedfill import ExpectedFill
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.plugins.fragmentation.typicalpods import written
from tonnage.plugins.gpus import gpupolicy
from tonnage.plugins.scoring import nodepolicy
from tonnage.simulator.objects import GPU
from tonnage.simulator.scene import Scene

PluginSection = dict[str, Any]
FRAGMENTATION, EXPECTED_FILL, RANDOM = FragmentationGradient.name, ExpectedFill.name, RandomPlacement.name
_COVERED = {plugin.name: plugin.covered for plugin in (FragmentationGradient, ExpectedFill)}
"""The plugins that know the workload, with the part of its pods that they need to know."""
_CARDS_PACKED: PluginSection = {"name": "gpupolicy", "arguments": {"policy": "binpack"}}
_RESOURCES = [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]


def _hami(node: str, gpu: str) -> list[PluginSection]:
    policies = {"nodepolicy": node, "gpupolicy": gpu}
    return [{"name": name, "arguments": {"policy": policy}} for name, policy in policies.items()]


def _fit(strategy: str, **more: object) -> list[PluginSection]:
    scoring = {"type": strategy, "resources": _RESOURCES, **more}
    return [{"name": "noderesourcesfit", "arguments": {"scoringStrategy": scoring}}, _CARDS_PACKED]


_SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
POLICIES: dict[str, list[PluginSection]] = {
    "expectedfill": [{"name": EXPECTED_FILL}],
    "fgd": [{"name": FRAGMENTATION}],
    **{name: [{"name": name}] for name in BASELINES},
    **{name: _hami(name, name) for name in nodepolicy.POLICIES},
    "volcano-binpack": [
        {"name": "binpack", "arguments": {"binpack.resources": GPU, f"binpack.resources.{GPU}": 1}},
        _CARDS_PACKED,
    ],
    "most-allocated": _fit("MostAllocated"),
    "requested-to-capacity-ratio": _fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": _SHAPE}),
    "gpupack": [{"name": name} for name in ("nodeplacement", "resourcetype", "gpusharingorder", "gpupack")],
}
"""The plugins of each named policy."""
DEFAULTS = ("expectedfill", "fgd", "best-fit", "binpack", "spread")
"""The policies that are compared by default."""


class Policy(msgspec.Struct, frozen=True):
    """A configuration with a name; plain data, so that it can be sent to other processes."""

    name: str
    text: str = ""
    """The text of the configuration; empty for a named policy, which depends on the scene."""
    source: str = ""
    plugin_files: tuple[str, ...] = ()

    def settings(self, scene: Scene | None, seed: int = 0) -> SchedulerConfig:
        """The loaded configuration; ConfigError if it is invalid. Without a scene it fits any cluster."""
        text = self.text or _document(self.name, scene, seed)
        return load_text(text, self.source or f"policy {self.name}", PluginFinder(self.plugin_files))


def hami_policies(name: str) -> tuple[str, str] | None:
    """HAMi's policies of nodes and of cards, from NODE/GPU or one word for both; nothing for other policies."""
    node, slash, gpu = name.partition("/")
    gpu = gpu if slash else node
    return (node, gpu) if node in nodepolicy.POLICIES and gpupolicy.is_policy(gpu) else None


def is_policy(name: str) -> bool:
    """Whether there is a policy of that name."""
    return name in POLICIES or hami_policies(name) is not None


def _document(name: str, scene: Scene | None, seed: int) -> str:
    """The configuration of a named policy, with what it needs to know of the scene."""
    plugins = [{"name": "priority"}, {"name": "gang"}]
    plugins += [{"name": "proportion"}] if scene is None or scene.queues else []
    for plugin in POLICIES.get(name) or _hami(*(hami_policies(name) or ())):
        arguments = dict(plugin.get("arguments", {}))
        if plugin["name"] in _COVERED and scene is not None:
            workload = scene.typical_pods(_COVERED[plugin["name"]])
            arguments["workload"] = msgspec.to_builtins(written(workload))
        elif plugin["name"] == RANDOM:
            arguments["seed"] = seed
        plugins.append({"name": plugin["name"]} | ({"arguments": arguments} if arguments else {}))
    return yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": plugins}]}, sort_keys=False)


def policy_named(name: str, plugin_files: Sequence[str] = ()) -> Policy:
    """The policy of a name; ConfigError if there is none."""
    if not is_policy(name):
        nearest = advice(name, POLICIES)
        if "/" in name or "did you mean" not in nearest:
            nodes, cards = " or ".join(nodepolicy.POLICIES), ", ".join(gpupolicy.POLICIES)
            nearest = f"; known are {', '.join(POLICIES)}, and NODE/GPU with {nodes} for nodes and {cards} for GPUs"
        message = f"there is no policy {name}{nearest}"
        raise ConfigError("--policy", [Note(None, message)], [])
    return Policy(name, plugin_files=tuple(plugin_files))


def policy_of_file(path: str, plugin_files: Sequence[str] = ()) -> Policy:
    """The policy of a configuration file, named after the file; ConfigError if it cannot be read."""
    return Policy(Path(path).stem, text_of_file(path), path, tuple(plugin_files))

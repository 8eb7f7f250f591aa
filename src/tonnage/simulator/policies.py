"""Policies by name, each a configuration as one would write it, and policies from files.

A name stands for the plugins that score nodes and order cards. What keeps placements right, priorities and gangs are
always with them; shares of queues are if the workload has queues. The usual pods of `fgd` are those of the workload.
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
from tonnage.plugins.fragmentation._workloads import written
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.simulator.objects import GPU
from tonnage.simulator.scene import Scene

Named = dict[str, Any]
FRAGMENTATION, RANDOM = FragmentationGradient.name, RandomPlacement.name
_CARDS_PACKED: Named = {"name": "gpupolicy", "arguments": {"policy": "binpack"}}
_RESOURCES = [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]


def _hami(policy: str) -> list[Named]:
    return [{"name": name, "arguments": {"policy": policy}} for name in ("nodepolicy", "gpupolicy")]


def _fit(strategy: str, **more: object) -> list[Named]:
    scoring = {"type": strategy, "resources": _RESOURCES, **more}
    return [{"name": "noderesourcesfit", "arguments": {"scoringStrategy": scoring}}, _CARDS_PACKED]


_SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
POLICIES: dict[str, list[Named]] = {
    "fgd": [{"name": FRAGMENTATION}],
    **{name: [{"name": name}] for name in BASELINES},
    "binpack": _hami("binpack"),
    "spread": _hami("spread"),
    "volcano-binpack": [
        {"name": "binpack", "arguments": {"binpack.resources": GPU, f"binpack.resources.{GPU}": 1}},
        _CARDS_PACKED,
    ],
    "most-allocated": _fit("MostAllocated"),
    "requested-to-capacity-ratio": _fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": _SHAPE}),
    "gpupack": [{"name": name} for name in ("nodeplacement", "resourcetype", "gpusharingorder", "gpupack")],
}
"""The plugins that each name stands for."""
DEFAULTS = ("fgd", "best-fit", "binpack", "spread")
"""What is compared unless policies are named."""


class Policy(msgspec.Struct, frozen=True):
    """A configuration with a name; plain data, so that it can be sent to other processes."""

    name: str
    text: str = ""
    """What the configuration says; nothing for a policy by name, which depends on what is simulated."""
    source: str = ""
    plugin_files: tuple[str, ...] = ()

    def settings(self, scene: Scene, seed: int = 0) -> SchedulerConfig:
        """Plugins ready for sessions, and actions; ConfigError if the configuration cannot be used."""
        text = self.text or _document(self.name, scene, seed)
        return load_text(text, self.source or f"policy {self.name}", PluginFinder(self.plugin_files))


def _document(name: str, scene: Scene, seed: int) -> str:
    """A policy by name as a configuration: what it needs to know of the scene is written into it."""
    plugins = [{"name": "priority"}, {"name": "gang"}]
    plugins += [{"name": "proportion"}] if scene.queues else []
    for plugin in POLICIES[name]:
        arguments = dict(plugin.get("arguments", {}))
        if plugin["name"] == FRAGMENTATION:
            arguments["workload"] = msgspec.to_builtins(written(scene.usual_pods()))
        elif plugin["name"] == RANDOM:
            arguments["seed"] = seed
        plugins.append({"name": plugin["name"]} | ({"arguments": arguments} if arguments else {}))
    return yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": plugins}]}, sort_keys=False)


def policy_named(name: str, plugin_files: Sequence[str] = ()) -> Policy:
    """The policy of a name; ConfigError if there is none."""
    if name not in POLICIES:
        known = advice(name, POLICIES)
        known = known if "did you mean" in known else f"; known are {', '.join(POLICIES)}"
        message = f"there is no policy {name}{known}, or give a configuration file"
        raise ConfigError("--policy", [Note(None, message)], [])
    return Policy(name, plugin_files=tuple(plugin_files))


def policy_of_file(path: str, plugin_files: Sequence[str] = ()) -> Policy:
    """The policy that a configuration file describes, named after the file; ConfigError if it cannot be read."""
    return Policy(Path(path).stem, text_of_file(path), path, tuple(plugin_files))

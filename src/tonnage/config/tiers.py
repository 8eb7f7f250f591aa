"""The tiers of a configuration: plugins from their names, switches and arguments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.config.arguments import ArgumentReader
from tonnage.config.compat import (
    ABSENT,
    ALWAYS_ON,
    NODE_ORDER,
    OFF_BY_DEFAULT,
    SWITCHED,
    SWITCHES,
    is_kai_switch,
    volcano_spelling,
)
from tonnage.config.contradictions import warn_of_cancelling
from tonnage.config.document import Part
from tonnage.config.finder import PluginError, PluginFinder
from tonnage.config.notes import Notes, Position, advice
from tonnage.config.omissions import warn_of_broken_gangs, warn_of_unordered_jobs
from tonnage.devices.catalog import default_vendors
from tonnage.framework.failures import failure
from tonnage.framework.plugin import ArgumentError, Plugin
from tonnage.framework.points import JOB_ORDER
from tonnage.framework.session import Session, SessionError
from tonnage.plugins.catalog import ALWAYS, BUILT_IN, CARD_ORDERS, NODE_SCORERS

_NAME, _ARGUMENTS = "name", "arguments"
Fields = dict[str, tuple[Part, Part]]


class _Named(NamedTuple):
    """A plugin that the file names; `plugin` is None if Tonnage does not have it or its arguments are invalid."""

    name: str
    position: Position
    plugin: Plugin | None
    scores: bool


class _Switch(NamedTuple):
    """A switch of a plugin and its position."""

    on: bool
    position: Position


class TiersReader:
    """Reads the plugins of all tiers, in their order."""

    def __init__(self, notes: Notes, finder: PluginFinder, folder: Path) -> None:
        self._notes = notes
        self._folder = folder
        self._finder = finder
        self._named: dict[str, _Named] = {}
        self._lines: dict[str, int] = {}

    def read(self, tiers: Part, actions: Sequence[str]) -> list[Plugin]:
        """The plugins that the tiers name and that Tonnage has; some warnings are about the actions with them."""
        for number, tier in enumerate(self._items(tiers, "a list of tiers"), start=1):
            fields = self._fields(tier, "a map with plugins")
            for name, (key, value) in fields.items():
                if name != "plugins":
                    self._notes.error(key.position, f"a tier has no key {name}{advice(name, ['plugins'])}")
                elif not value.is_null:
                    for plugin in self._items(value, "a list of plugins"):
                        self._plugin(plugin, number)
        named = self._named.values()
        plugins = [(one.plugin, one.position) for one in named if one.plugin is not None]
        warn_of_cancelling([(one.plugin, one.position) for one in named if one.plugin and one.scores], self._notes)
        orders = [one for one in named if one.name in CARD_ORDERS]
        for one in orders[1:]:
            what = f"{orders[0].name} and {one.name} both order the cards of a node, and their scores are added up"
            self._notes.warn(one.position, f"{what}; keep one of them")
        # A third-party plugin may score nodes too.
        may_score = [one for one in named if one.plugin is not None and one.name not in BUILT_IN]
        may_score += [one for one in named if one.scores and one.name in NODE_SCORERS]
        if self._notes.errors:
            return [plugin for plugin, _ in plugins]
        ordering = [plugin.name for plugin, _ in plugins if JOB_ORDER.name in registered_points(plugin)]
        warn_of_unordered_jobs(ordering, tiers.position, self._notes)
        warn_of_broken_gangs(plugins, actions, tiers.position, self._notes)
        if not may_score:
            what = "no plugin scores nodes, so that a pod goes to the first node by name that it fits on"
            self._notes.warn(tiers.position, f"{what}; these plugins score nodes: {', '.join(NODE_SCORERS)}")
        return [plugin for plugin, _ in plugins]

    def _plugin(self, part: Part, tier: int) -> None:
        fields = self._fields(part, "a map with a plugin's name")
        if not fields:
            if part.fields() is not None:
                self._notes.error(part.position, "a plugin without a name")
            return
        name = self._name(part, fields)
        switches = self._switches(name, fields)
        if name is None:
            return
        position = fields[_NAME][1].position
        if name in self._lines:
            self._notes.error(position, f"the plugin {name} is named twice; the first is on line {self._lines[name]}")
        self._lines.setdefault(name, position.line)
        written = fields[_ARGUMENTS][1] if _ARGUMENTS in fields and not fields[_ARGUMENTS][1].is_null else None
        given = written.plain() if written is not None else {}
        if not isinstance(given, dict):
            self._notes.error(fields[_ARGUMENTS][1].position, f"expected a map of arguments, got {_words(written)}")
            written, given = None, {}
        plugin = self._build(name, position, written, given)
        if plugin is not None:
            plugin = self._switched(plugin.with_options(tier=tier, is_named=True), switches, position)
        elif name in ALWAYS_ON:
            self._say_without_effect(name, switches)
        scores = switches[NODE_ORDER].on if NODE_ORDER in switches else True
        self._named.setdefault(name, _Named(name, position, plugin, scores))

    def _switched(self, plugin: Plugin, switches: dict[str, "_Switch"], position: Position) -> Plugin:
        """The plugin with its switches as the file has them, and a warning about each that has no effect."""
        try:
            registers = set(registered_points(plugin))
        except SessionError as error:
            self._notes.error(position, str(error))
            return plugin
        if plugin.name in ALWAYS:
            registers = set()
        effective = {name for name in switches if registers.intersection(SWITCHED.get(name, ()))}
        effective |= plugin.switches
        self._say_without_effect(plugin.name, {n: s for n, s in switches.items() if n not in effective})
        off = [SWITCHED[name] for name in effective - plugin.switches if not switches[name].on]
        return plugin.with_options(
            switched_off=frozenset(point for points in off for point in points),
            switched_on=frozenset(name for name in plugin.switches if name in switches and switches[name].on),
        )

    def _say_without_effect(self, plugin: str, switches: dict[str, "_Switch"]) -> None:
        for name, switch in switches.items():
            if switch.on == (name in OFF_BY_DEFAULT):
                text = f"{name}: {str(switch.on).lower()} has no effect on {plugin} here"
                self._notes.warn(switch.position, text)

    def _build(self, name: str, position: Position, written: Part | None, given: dict[str, Any]) -> Plugin | None:
        try:
            kind = self._finder.find(name)
        except PluginError as error:
            self._notes.error(position, str(error))
            return None
        if kind is None:
            told = ALWAYS_ON.get(name) or ABSENT.get(name)
            if told is None:
                nearest = advice(name, [*self._finder.names(), *ALWAYS_ON, *ABSENT])
                self._notes.error(position, f"there is no plugin {name}{nearest}")
            else:
                self._notes.warn(position, f"{name}: {told}")
            return None
        arguments = ArgumentReader(kind, position, written, self._notes, self._folder).read(given)
        if arguments is None:
            return None
        try:
            return kind(arguments)
        except ArgumentError as error:
            self._notes.error(position, str(error))
        except Exception as error:
            self._notes.error(position, f"the plugin {name} cannot be made: {failure(error)}")
        return None

    def _name(self, part: Part, fields: Fields) -> str | None:
        if _NAME not in fields:
            self._notes.error(part.position, "a plugin without a name")
            return None
        value = fields[_NAME][1]
        name = value.text()
        if not name:
            self._notes.error(value.position, f"expected the name of a plugin, got {'' if name == '' else value.words}")
        return name or None

    def _switches(self, plugin: str | None, fields: Fields) -> dict[str, "_Switch"]:
        """The plugin's switches by Volcano's spelling."""
        found: dict[str, _Switch] = {}
        for name, (key, value) in fields.items():
            if name in (_NAME, _ARGUMENTS):
                continue
            switch = name if name in SWITCHES else volcano_spelling(name)
            if switch is None and not is_kai_switch(name):
                nearest = advice(name, [_NAME, _ARGUMENTS, *SWITCHES])
                self._notes.error(key.position, f"a plugin has no key {name}{nearest}")
                continue
            on = value.plain()
            if not isinstance(on, bool):
                self._notes.error(value.position, f"{name}: expected true or false, got {value.words}")
            elif switch is None:
                self._notes.warn(key.position, f"{name} has no effect: KAI accepts it and does not read it")
            else:
                if switch != name:
                    self._notes.warn(key.position, f"{name} is read as {switch}, which is how Volcano spells it")
                found[switch] = _Switch(on, key.position)
        return found

    def _items(self, part: Part, expected: str) -> list[Part]:
        items = part.items()
        if items is None:
            self._notes.error(part.position, f"expected {expected}, got {part.words}")
        return items or []

    def _fields(self, part: Part, expected: str) -> Fields:
        fields = part.fields()
        if fields is None:
            self._notes.error(part.position, f"expected {expected}, got {part.words}")
        return fields or {}


def registered_points(plugin: Plugin) -> list[str]:
    """The extension points at which a plugin registers something; SessionError if it cannot be opened."""
    with Session(Cluster(default_vendors()), [plugin]) as session:
        return list(dict.fromkeys(point for _, point in session.registered))


def _words(part: Part | None) -> str:
    return part.words if part is not None else "nothing"

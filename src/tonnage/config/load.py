"""The scheduler configuration: plugins and actions from a document, or every error in it."""

from pathlib import Path
from typing import NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.config.argumentfiles import folder_of
from tonnage.config.compat import ACTIONS, ALLOCATE, TOP_LEVEL, WITHOUT_EFFECT
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.config.document import Part, read_document
from tonnage.config.finder import PluginFinder
from tonnage.config.kubescheduler import reader_of
from tonnage.config.notes import ConfigError, Note, Notes, Position, advice, in_order
from tonnage.config.source import place_of, text_of, text_of_file
from tonnage.config.tiers import TiersReader
from tonnage.devices.catalog import default_vendors
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session, SessionError
from tonnage.manifests.written import TextError
from tonnage.plugins.catalog import ALWAYS, CARD_ORDERS, LAST, plugins_named
from tonnage.plugins.defaults import default_plugins


class SchedulerConfig(NamedTuple):
    """A valid configuration: plugins ready for a session, actions in their order, and warnings."""

    source: str
    plugins: list[Plugin]
    actions: list[str]
    warnings: list[Note]


def load_file(path: str, finder: PluginFinder | None = None) -> SchedulerConfig:
    """The configuration in a file; ConfigError with every error."""
    return load_text(text_of_file(path), path, finder)


def load_bytes(data: bytes, source: str, finder: PluginFinder | None = None) -> SchedulerConfig:
    """The configuration in bytes of UTF-8 or UTF-16; messages name them by `source`."""
    return load_text(text_of(data, source), source, finder)


def load_text(text: str, source: str, finder: PluginFinder | None = None) -> SchedulerConfig:
    """The configuration in a text; the finder resolves third-party plugins."""
    notes = Notes()
    plugins, actions = default_plugins(), list(DEFAULT_ACTIONS)
    try:
        root = read_document(text, source, notes)
        if root is not None:
            plugins, actions = _Reader(notes, finder or PluginFinder(), folder_of(source)).read(root)
    except TextError as error:
        notes.error(place_of(error), error.message)
    warnings = in_order(notes.warnings)
    if notes.errors:
        raise ConfigError(source, in_order(notes.errors), warnings)
    return SchedulerConfig(source, plugins, actions, warnings)


class _Reader:
    """Reads the top level of a document."""

    def __init__(self, notes: Notes, finder: PluginFinder, folder: Path) -> None:
        self._notes = notes
        self._finder = finder
        self._folder = folder

    def read(self, root: Part) -> tuple[list[Plugin], list[str]]:
        of_kubernetes = reader_of(root)
        if of_kubernetes is not None:
            return complete(of_kubernetes(root, self._notes)), list(DEFAULT_ACTIONS)
        fields = root.fields()
        if not fields:
            got = "an empty map" if fields is not None else root.words
            self._notes.error(root.position, f"expected a map with actions and tiers, got {got}")
            return [], []
        for name, (key, value) in fields.items():
            if name in WITHOUT_EFFECT:
                self._notes.warn(key.position, f"{name} ({WITHOUT_EFFECT[name]}) has no effect here yet")
                self._check_without_effect(name, value)
            elif name not in TOP_LEVEL:
                self._notes.error(key.position, f"a configuration has no key {name}{advice(name, TOP_LEVEL)}")
        given = {name: fields[name][1] for name in ("actions", "tiers") if name in fields}
        given = {name: part for name, part in given.items() if not part.is_null}
        for name, default in (
            ("actions", ", ".join(DEFAULT_ACTIONS)),
            ("tiers", "those of `tonnage check --defaults`"),
        ):
            if name not in given:
                self._notes.warn(root.position, f"no {name} given; the default is used: {default}")
        actions = self._actions(given["actions"]) if "actions" in given else list(DEFAULT_ACTIONS)
        if "tiers" not in given:
            return default_plugins(), actions
        plugins = complete(TiersReader(self._notes, self._finder, self._folder).read(given["tiers"], actions))
        if not self._notes.errors:
            try:
                Session(Cluster(default_vendors()), plugins).close()
            except SessionError as error:
                self._notes.error(given["tiers"].position, str(error))
        return plugins, actions

    def _actions(self, part: Part) -> list[str]:
        found: list[str] = []
        for name, position in self._names(part):
            if name not in ACTIONS:
                self._notes.error(position, f"there is no action {name}{advice(name, ACTIONS)}")
            elif name in found:
                self._notes.warn(position, f"the action {name} stands twice; it runs once")
            else:
                found.append(name)
                if ACTIONS[name]:
                    self._notes.warn(position, f"the action {name} has no effect here yet: {ACTIONS[name]}")
        if not self._notes.errors and ALLOCATE not in found:
            self._notes.warn(
                part.position, f"{ALLOCATE} is not among the actions, so that pods which ask for anything stay waiting"
            )
        return found

    def _names(self, part: Part) -> list[tuple[str, Position]]:
        """The names in a comma-separated text or in a list, with their positions."""
        text, items = part.text(), part.items()
        names: list[tuple[str, Position]] = []
        if text is not None:
            offset = 0
            for piece in text.split(","):
                start = offset + len(piece) - len(piece.lstrip())
                names += [(piece.strip(), part.inside(start))] if piece.strip() else []
                offset += len(piece) + 1
        for item in items or ():
            name = item.text()
            if name is None:
                self._notes.error(item.position, f"expected the name of an action, got {item.words}")
            else:
                names.append((name.strip(), item.position))
        if text is None and items is None:
            expected = "names of actions with commas between, or a list of them"
            self._notes.error(part.position, f"expected {expected}, got {part.words}")
        elif not names and not items:
            self._notes.error(part.position, "no actions; write at least allocate")
        return names

    def _check_without_effect(self, name: str, value: Part) -> None:
        """Check keys without effect as far as Volcano and KAI agree on their content."""
        if value.is_null:
            return
        if name == "configurations":
            for item in value.items() or ():
                action = (item.fields() or {}).get("name")
                self._check_action(action[1].text() if action else None, action[1] if action else item)
            wrong = value.items() is None
        else:
            fields = value.fields()
            wrong = fields is None
            for action_name, (key, depth) in (fields or {}).items() if name == "queueDepthPerAction" else ():
                self._check_action(action_name, key)
                if type(depth.plain()) is not int:
                    self._notes.error(depth.position, f"{action_name}: expected a whole number, got {depth.words}")
        if wrong:
            expected = "a list" if name == "configurations" else "a map"
            self._notes.error(value.position, f"{name}: expected {expected}, got {value.words}")

    def _check_action(self, name: str | None, part: Part) -> None:
        if name is None:
            self._notes.error(part.position, "expected a map with the name of an action")
        elif name not in ACTIONS:
            self._notes.error(part.position, f"there is no action {name}{advice(name, ACTIONS)}")


def complete(named: list[Plugin]) -> list[Plugin]:
    """The plugins of a file with those that always run: first those that placements depend on, last the rest."""
    by_name = {plugin.name: plugin for plugin in named}
    always = [by_name.get(plugin.name, plugin) for plugin in plugins_named(ALWAYS)]
    last = [] if any(name in by_name for name in CARD_ORDERS) else plugins_named(CARD_ORDERS[:1])
    last += plugins_named(name for name in LAST if name not in by_name)
    return [*always, *(plugin for plugin in named if plugin.name not in ALWAYS), *last]

"""The plugin finder: built-in and third-party plugins by name.

A third-party plugin comes from a file given on the command line, from an installed package's entry point of the group
`tonnage.plugins`, from `register_plugin`, or from `module:Class` in place of its name.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tonnage.framework.failures import failure
from tonnage.framework.plugin import Plugin
from tonnage.plugins.catalog import BUILT_IN, plugin_class

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "tonnage.plugins"
_BASE = f"{Plugin.__module__}.{Plugin.__name__}"

_registered: dict[str, type[Plugin]] = {}


class PluginError(Exception):
    """A plugin that cannot be used, with the reason."""


def register_plugin(name: str, kind: type[Plugin]) -> None:
    """Register a plugin under a name, for programs that use Tonnage from Python."""
    _check(kind, f"plugin {name}")
    if name in BUILT_IN or _registered.get(name, kind) is not kind:
        raise PluginError(f"there is a plugin {name} already")
    _registered[name] = kind


class PluginFinder:
    """Finds plugins by name; it loads files at once and packages on demand."""

    def __init__(self, files: Sequence[str] = ()) -> None:
        self.from_files: dict[str, type[Plugin]] = {}
        """The plugins of the files, in their order."""
        for file in files:
            for kind in _plugins_of(_load_file(file), file):
                if kind.name in self.from_files or kind.name in BUILT_IN:
                    raise PluginError(
                        f"{file}: there is a plugin {kind.name} already; give {kind.__name__} another name"
                    )
                self.from_files[kind.name] = kind

    def find(self, name: str) -> type[Plugin] | None:
        """The plugin of that name; None if there is none, PluginError if it cannot be used."""
        known = plugin_class(name) or self.from_files.get(name) or _registered.get(name)
        if known is not None:
            return known
        if ":" in name:
            return _load_object(name)
        return next((_load_object(entry.value) for entry in _entry_points() if entry.name == name), None)

    def names(self) -> list[str]:
        """Every name that can be found, built-in plugins first."""
        others = {*self.from_files, *_registered, *(entry.name for entry in _entry_points())}
        return [*BUILT_IN, *sorted(others - BUILT_IN.keys())]


def _entry_points() -> "EntryPoints":
    """The plugins that installed packages offer."""
    # Imported here: it takes as long as a third of all other modules, and few configurations name such a plugin.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _load_object(name: str) -> type[Plugin]:
    """The class that `module:Class` names."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except AttributeError as error:
        raise PluginError(f"module {module} has no {attribute}") from error
    except Exception as error:
        raise PluginError(f"{name} cannot be imported: {failure(error)}") from error
    return _check(found, name)


def _load_file(file: str) -> ModuleType:
    path = Path(file)
    # A prefixed name, so that a file called json.py does not shadow the module json.
    name = f"tonnage_plugin_file_{path.stem}"
    if not path.is_file():
        raise PluginError(f"{file}: there is no such file; give the Python file that holds the plugin")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{file} is not a Python file; its name must end with .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PluginError(f"{file} cannot be loaded: {failure(error)}") from error
    return module


def _plugins_of(module: ModuleType, file: str) -> Iterator[type[Plugin]]:
    """The plugins that a module defines, in the order of their definition."""
    found = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Plugin) and thing.__module__ == module.__name__
    ]
    if not found:
        raise PluginError(f"{file} defines no plugin; write a class that inherits from {_BASE}")
    for kind in found:
        yield _check(kind, f"{file}: {kind.__name__}")


def _check(found: object, what: str) -> type[Plugin]:
    """Raise PluginError for a plugin that would fail later, in the middle of a cycle."""
    if not isinstance(found, type) or not issubclass(found, Plugin):
        raise PluginError(
            f"{what} is not a plugin; it must be a class that inherits from tonnage.framework.plugin.Plugin"
        )
    if not isinstance(getattr(found, "name", None), str) or not found.name:
        raise PluginError(f"{what} has no name; write `name = ...` in its class")
    if getattr(found.on_session_open, "__isabstractmethod__", False):
        raise PluginError(f"{what} has no on_session_open; that is where it registers what it does")
    return found

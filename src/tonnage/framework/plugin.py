"""Plugin: the base class of policies, with its typed arguments and the options that a configuration gives it."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import msgspec

from tonnage.model.wire import WireError, convert

if TYPE_CHECKING:
    from tonnage.framework.session import Session


class ArgumentError(ValueError):
    """A plugin's argument is wrong: which one, and why."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message


class PluginArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A plugin's arguments, with their defaults; each plugin declares its own as a subclass."""


class Pull(NamedTuple):
    """A score that rises or falls with how full a node is: 100 × (base + slope × share in use)."""

    label: str
    slope: float
    base: float
    weights: Mapping[str, float]
    """How much each resource counts."""

    def at(self, full: float) -> float:
        """The score of a node of which that share is in use."""
        return 100 * (self.base + self.slope * full)


class FileContent(NamedTuple):
    """The content of a file that an argument names: rows by column for CSV, else plain data."""

    path: str
    value: Any
    is_table: bool


class PluginOptions(msgspec.Struct, kw_only=True, frozen=True):
    """How a configuration uses a plugin, beside the plugin's own arguments."""

    tier: int = 1
    """The tier that names it."""
    switched_off: frozenset[str] = frozenset()
    """The extension points at which it registers nothing."""
    switched_on: frozenset[str] = frozenset()
    """Those of the plugin's own switches that are on."""
    is_named: bool = False
    """Whether a configuration names it, and it is not only there because it always is."""


class Plugin(ABC):
    """A policy. In `on_session_open` it registers callbacks at the session's extension points."""

    name: ClassVar[str]
    Arguments: ClassVar[type[PluginArguments]] = PluginArguments
    file_arguments: ClassVar[frozenset[str]] = frozenset()
    """Arguments that are paths of files; the plugin gets each as FileContent."""
    switches: ClassVar[frozenset[str]] = frozenset()
    """Switches of a configuration that it knows beside those of extension points; they are off unless turned on."""
    options = PluginOptions()
    """How the configuration uses it; `with_options` makes a plugin with others."""
    trusted: ClassVar[bool] = False
    """Whether its answers are used unchecked, and the cluster's events keep what it knows current between cycles.

    Built-in plugins say so as `class Gang(Plugin, trusted=True)`. A subclass of one must say it again.
    """

    def __init_subclass__(cls, *, trusted: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.trusted = trusted

    def __init__(self, args: PluginArguments | None = None) -> None:
        self.args: Any = self.Arguments() if args is None else args

    def with_options(self, **changes: Any) -> Self:
        """The same plugin with some options changed; this one stays as it is."""
        plugin = copy.copy(self)
        plugin.options = msgspec.structs.replace(self.options, **changes)
        return plugin

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """Typed arguments from a configuration's map of them.

        `warn(key, sentence)` is for values that are valid but do not do what one might think.
        """
        try:
            return convert(dict(given), cls.Arguments)
        except WireError as error:
            raise ArgumentError(error.path, error.message) from error

    def written_arguments(self) -> dict[str, Any]:
        """The arguments as one would write them in a configuration."""
        arguments: dict[str, Any] = msgspec.to_builtins(self.args)
        return arguments

    def pull(self) -> Pull | None:
        """How it packs or spreads pods, for warnings about plugins that cancel each other out."""
        return None

    @abstractmethod
    def on_session_open(self, session: "Session") -> None:
        """Register callbacks."""

    def on_session_close(self, session: "Session") -> None:  # noqa: B027 -- most plugins have nothing to tidy up
        """Tidy up."""

"""The flag --policy: a policy by name, the same names on every command, alone or on top of a configuration."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli.inputs import BadInput, valid_config

if TYPE_CHECKING:
    from tonnage.config.finder import PluginFinder
    from tonnage.framework.plugin import Plugin


class DecidedBy(NamedTuple):
    """What decides: plugins and actions, and where they come from in a few words."""

    name: str
    plugins: "Sequence[Plugin]"
    actions: Sequence[str]


def names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The policies that a shell offers."""
    from tonnage.simulator.policies import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def _known(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from tonnage.config.notes import ConfigError
    from tonnage.simulator.policies import policy_named

    try:
        return policy_named(name).name
    except ConfigError as error:
        raise click.BadParameter("; ".join(note.message for note in error.errors)) from error


policy_option: Callable[..., Callable[..., object]] = click.option(
    "--policy",
    callback=_known,
    shell_complete=names,
    metavar="NAME",
    help="A policy by name: binpack, spread, NODE/GPU such as binpack/spread, fgd, best-fit and the others of "
    "`tonnage simulate`. binpack, spread and NODE/GPU count more than a configuration; the others are one.",
)


def decided_by(policy: str | None, config: str | None, finder: "PluginFinder") -> DecidedBy:
    """What the flags --policy and --config come to; HAMi's policies without either.

    Plugins of files that the configuration does not name run with their defaults.
    """
    found = _decided_by(policy, config, finder)
    named = {plugin.name for plugin in found.plugins}
    others = [_made(kind) for name, kind in finder.from_files.items() if name not in named]
    return found._replace(plugins=[*found.plugins, *others])


def _made(kind: "type[Plugin]") -> "Plugin":
    try:
        return kind()
    except Exception as error:
        from tonnage.framework.failures import failure

        raise BadInput(f"plugin {kind.name} cannot be made: {failure(error, kind.__init__)}") from error


def _decided_by(policy: str | None, config: str | None, finder: "PluginFinder") -> DecidedBy:
    from tonnage.config.defaults import DEFAULT_ACTIONS, with_flags
    from tonnage.plugins.defaults import default_plugins

    if policy is None:
        if config is None:
            return DecidedBy("binpack/spread", default_plugins(), DEFAULT_ACTIONS)
        settings = valid_config(config, finder)
        return DecidedBy(settings.source, settings.plugins, settings.actions)
    from tonnage.simulator.policies import hami_policies, policy_named

    pair = hami_policies(policy)
    if pair is None:
        if config is not None:
            raise BadInput(f"--policy {policy} is a configuration of its own; give it or --config")
        settings = policy_named(policy).settings(None)
        return DecidedBy(policy, settings.plugins, settings.actions)
    name = "/".join(pair)
    if config is None:
        return DecidedBy(name, default_plugins(*pair), DEFAULT_ACTIONS)
    settings = valid_config(config, finder)
    return DecidedBy(f"{settings.source}, {name}", with_flags(settings.plugins, *pair, None), settings.actions)

"""The input of commands: standard input and configurations, and the error that ends a command with status 2."""

import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from tonnage.config.deviceconfig import DeviceConfig
    from tonnage.config.finder import PluginFinder
    from tonnage.config.load import SchedulerConfig
    from tonnage.devices.base import Vendor

STANDARD_INPUT = "-"


class BadInput(click.ClickException):
    """Input that cannot be read; ends the command with status 2."""

    exit_code = 2


def standard_input() -> BinaryIO:
    """Standard input; an empty one if the caller closed it."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def find_plugins(files: Sequence[str]) -> "PluginFinder":
    """Plugins by name, those in the files included."""
    from tonnage.config.finder import PluginError, PluginFinder

    try:
        return PluginFinder(files)
    except PluginError as error:
        raise BadInput(str(error)) from error


def valid_config(file: str, finder: "PluginFinder") -> "SchedulerConfig":
    """The configuration in a file, or on standard input, with warnings told; ends the command if it is not valid."""
    return valid_settings(lambda: load_config(file, finder))


def valid_settings(load: "Callable[[], SchedulerConfig]") -> "SchedulerConfig":
    """A configuration, with warnings told; ends the command if it is not valid."""
    from tonnage.config.notes import ConfigError

    try:
        settings = load()
    except ConfigError as error:
        raise BadInput(f"the configuration is not valid\n{error}") from error
    for note in settings.warnings:
        click.echo(note.shown(settings.source, "warning"), err=True)
    return settings


def load_config(file: str, finder: "PluginFinder") -> "SchedulerConfig":
    """The configuration in a file, or on standard input; ConfigError with all that is wrong."""
    from tonnage.config.load import load_bytes, load_file

    if file == STANDARD_INPUT:
        return load_bytes(standard_input().read(), "standard input", finder)
    return load_file(file, finder)


def device_vendors(file: str | None) -> "Sequence[Vendor]":
    """The vendors of HAMi's device configuration, or of its defaults; what is doubtful about it is said."""
    if file is None:
        from tonnage.devices.catalog import default_vendors

        return default_vendors()
    from tonnage.config.deviceconfig import load_devices_file

    return valid_vendors(lambda: load_devices_file(file))


def valid_vendors(load: "Callable[[], DeviceConfig]") -> "Sequence[Vendor]":
    """The vendors of a device configuration; what is wrong with it ends the command, what is doubtful is said."""
    from tonnage.config.notes import ConfigError

    try:
        found = load()
    except ConfigError as error:
        raise BadInput(f"the device configuration is not valid\n{error}") from error
    for note in found.warnings:
        click.echo(note.shown(found.source, "warning"), err=True)
    return found.vendors


def configuration(file: str) -> tuple[str, str]:
    """The text of a file, or of standard input, and how messages name it; ConfigError if it cannot be read."""
    from tonnage.config.source import text_of, text_of_file

    if file == STANDARD_INPUT:
        return text_of(standard_input().read(), "standard input"), "standard input"
    return text_of_file(file), file


config_file = click.option(
    "--config",
    metavar="FILE",
    help="A scheduler configuration: actions, tiers and plugins of Volcano or KAI, or kube-scheduler's; - for standard "
    "input. Flags about policies count more than it.",
)
device_config_file = click.option(
    "--device-config-file", metavar="FILE", help="HAMi's device configuration; without one, its defaults."
)
plugin_files = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py",
    help="A Python file with plugins of your own; they run even if no configuration names them. May be repeated.",
)

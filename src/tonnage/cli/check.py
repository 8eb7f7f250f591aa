"""`tonnage check`: says whether a configuration is valid, with the place of everything that is not."""

import sys
from typing import TYPE_CHECKING

import click

from tonnage.cli.inputs import STANDARD_INPUT, configuration, find_plugins, plugin_files
from tonnage.cli.output import JSON, TABLE, YAML, document, echo_table, output_option

if TYPE_CHECKING:
    from tonnage.config.finder import PluginFinder
    from tonnage.config.notes import Note

_EXAMPLES = """\b
Examples:
  tonnage check scheduler.yaml device-config.yaml
  kubectl get configmap volcano-scheduler-configmap -n volcano-system -o yaml | tonnage check -
  tonnage check --defaults > scheduler.yaml
"""


@click.command("check", epilog=_EXAMPLES)
@click.argument("arguments", nargs=-1, metavar="FILE...")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE...", help="The same as FILE.")
@click.option("--defaults", is_flag=True, help="Print the configuration that is used when none is given.")
@plugin_files
@output_option(TABLE, JSON, YAML)
def command(
    arguments: tuple[str, ...], files: tuple[str, ...], defaults: bool, plugins: tuple[str, ...], output: str
) -> None:
    """Say whether configurations are valid, and what in them does not do what one might think.

    A configuration is a scheduler's document of Volcano or KAI (actions, tiers, plugins, arguments), HAMi's device
    configuration (nvidia, vnpus and other sections), or a ConfigMap that holds one; - is standard input. The exit
    status is 2 if a file has errors; warnings do not change it. For machines there is one document for each file.
    """
    files = (*arguments, *files)
    if defaults == bool(files):
        raise click.UsageError("give either the files to check or --defaults")
    if files.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input can be read only once; give - once")
    if defaults:
        _show_defaults(output)
        return
    finder = find_plugins(plugins)
    valid = [_check(file, output, finder) for file in files]
    if not all(valid):
        sys.exit(2)


def _show_defaults(output: str) -> None:
    from tonnage.config.defaults import default_document, default_text

    if output == JSON:
        click.echo(document(default_document(), output), nl=False)
    else:
        click.echo(default_text(), nl=False)


def _check(file: str, output: str, finder: "PluginFinder") -> bool:
    from tonnage.config.deviceconfig import is_device_configuration, load_devices
    from tonnage.config.load import load_text
    from tonnage.config.notes import ConfigError

    errors: list[Note] = []
    try:
        text, source = configuration(file)
        if is_device_configuration(text, source):
            warnings = load_devices(text, source).warnings
        else:
            warnings = load_text(text, source, finder).warnings
    except ConfigError as error:
        source, errors, warnings = error.source, error.errors, error.warnings
    if output != TABLE:
        found = {"errors": _as_data(errors), "warnings": _as_data(warnings)}
        separator = "---\n" if output == YAML else ""
        click.echo(separator + document({"file": file, "valid": not errors, **found}, output), nl=False)
        return not errors
    if errors:
        how_many = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        click.echo(f"{file}: not valid, {how_many}", err=True)
    else:
        echo_table(f"{file}: valid")
    for note in errors:
        click.echo(note.shown(source), err=True)
    for note in warnings:
        line = note.shown(source, "warning")
        if errors:
            click.echo(line, err=True)
        else:
            echo_table(line)
    return not errors


def _as_data(notes: "list[Note]") -> list[dict[str, str | int | None]]:
    return [
        {
            "line": note.position.line if note.position else None,
            "column": note.position.column if note.position else None,
            "message": note.message,
        }
        for note in notes
    ]

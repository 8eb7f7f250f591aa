"""`tonnage plugins`: what can be named in a configuration, and the package of a new plugin."""

from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.group import SuggestingGroup
from tonnage.cli.inputs import BadInput, find_plugins, plugin_files
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

if TYPE_CHECKING:
    from tonnage.framework.plugin import Plugin


@click.group("plugins", cls=SuggestingGroup, invoke_without_command=True)
@plugin_files
@output_option(TABLE, JSON, YAML)
@click.pass_context
def command(ctx: click.Context, plugins: tuple[str, ...], output: str) -> None:
    """List the plugins that can be used: those that come with Tonnage, of installed packages and of given files.

    For each of them its arguments with their defaults, and the extension points at which it registers something.
    """
    if ctx.invoked_subcommand is not None:
        return
    from tonnage.config.finder import PluginError
    from tonnage.model.wire import encode

    finder = find_plugins(plugins)
    found: list[dict[str, Any]] = []
    for name in finder.names():
        try:
            kind = finder.find(name)
            found.append(_about(name, kind) if kind is not None else {"name": name, "error": "not found"})
        except PluginError as error:
            found.append({"name": name, "error": str(error)})
    if output != TABLE:
        click.echo(document(found, output), nl=False)
        return
    for about in found:
        click.echo(f"{about['name']}: {about.get('error') or about['summary']}")
        if about.get("points"):
            click.echo(f"  extension points: {', '.join(about['points'])}")
        for argument, default in about.get("arguments", {}).items():
            click.echo(f"  {argument}: {encode(default).decode()}")


@command.command("new")
@click.argument("name", metavar="NAME")
@click.option(
    "--folder",
    default=".",
    show_default=True,
    metavar="FOLDER",
    help="Where the package's own folder, which is called NAME, is made.",
)
@output_option(TABLE, JSON, YAML)
def new(name: str, folder: str, output: str) -> None:
    """Write the package of a new plugin: a module that works, its entry point, and a test that passes.

    Nothing is overwritten: a folder NAME that is there already is an error.
    """
    from tonnage.cli.pluginpackage import PackageError, write_package

    try:
        place, files = write_package(name, folder)
    except PackageError as error:
        raise BadInput(str(error)) from error
    if output != TABLE:
        click.echo(document({"folder": str(place), "files": files}, output), nl=False)
        return
    click.echo(f"{place} has {', '.join(files)}")
    click.echo(f"Next: python -m pytest {place}, then change it; pip install {place} makes it known by its name")


def _about(name: str, kind: "type[Plugin]") -> dict[str, Any]:
    from tonnage.config.tiers import registered_points
    from tonnage.framework.session import SessionError

    summary = (kind.__doc__ or "").strip().splitlines()
    about: dict[str, Any] = {"name": name, "class": f"{kind.__module__}:{kind.__qualname__}"}
    about["summary"] = summary[0] if summary else ""
    try:
        plugin = kind().with_options(is_named=True)
        about["arguments"] = plugin.written_arguments()
        about["points"] = registered_points(plugin)
    except SessionError as error:
        about["error"] = str(error)
    except Exception as error:
        from tonnage.framework.failures import failure

        about["error"] = f"cannot be made: {failure(error, kind.__init__)}"
    return about

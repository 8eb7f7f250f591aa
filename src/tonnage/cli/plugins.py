"""`tonnage plugins`: what can be named in a configuration."""

from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.inputs import find_plugins, plugin_files

if TYPE_CHECKING:
    from tonnage.framework.plugin import Plugin


@click.command("plugins")
@plugin_files
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(plugins: tuple[str, ...], output: str) -> None:
    """List the plugins that can be used: those that come with Tonnage, of installed packages and of given files.

    For each of them its arguments with their defaults, and the extension points at which it registers something.
    """
    from tonnage.config.finder import PluginError
    from tonnage.model.wire import encode, encode_pretty

    finder = find_plugins(plugins)
    found: list[dict[str, Any]] = []
    for name in finder.names():
        try:
            kind = finder.find(name)
            found.append(_about(name, kind) if kind is not None else {"name": name, "error": "not found"})
        except PluginError as error:
            found.append({"name": name, "error": str(error)})
    if output == "json":
        click.echo(encode_pretty(found))
        return
    for about in found:
        click.echo(f"{about['name']}: {about.get('error') or about['summary']}")
        if about.get("points"):
            click.echo(f"  extension points: {', '.join(about['points'])}")
        for argument, default in about.get("arguments", {}).items():
            click.echo(f"  {argument}: {encode(default).decode()}")


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
        about["error"] = f"cannot be made: {type(error).__name__}: {error}"
    return about

"""Every command of the command line, with its name."""

from collections.abc import Iterator

import click

from tonnage.cli.group import group

SERVERS = ("tonnage extender", "tonnage scheduler")
ON_NODES = ("tonnage agent",)
"""Servers that run on each node, of which none leads."""
PAGES = ("tonnage dashboard",)
"""Servers of pages, which write nothing."""


def commands(command: click.Command = group, name: str = "tonnage") -> Iterator[tuple[str, click.Command]]:
    """The command and, of a group, all that are in it, in the order of help."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            assert inner is not None
            yield from commands(inner, f"{name} {inner_name}")

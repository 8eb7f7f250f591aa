"""Completion of command lines by the shell: what click leaves out, the names of files."""

import click
from click.shell_completion import CompletionItem


class _FileName(click.types.StringParamType):
    """A text that the shell completes as the name of a file."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def complete_files(command: click.Command) -> None:
    """Let a command complete the names of files wherever its help says FILE or FOLDER."""
    for parameter in command.params:
        if any(word in (parameter.metavar or "") for word in ("FILE", "FOLDER")):
            parameter.type = _FileName()
    for inner in getattr(command, "commands", {}).values():
        complete_files(inner)

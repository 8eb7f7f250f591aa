"""Completion of command lines by the shell: the names of files, which click leaves out, and kubectl's protocol.

kubectl completes `kubectl tonnage …` in bash, zsh and fish by calling the program `kubectl_complete-tonnage` with the
words so far. It answers with a completion on each line, a tab before its description, and at last a number.
"""

import os
import sys

import click
from click.shell_completion import CompletionItem, ShellComplete

_FILES, _NO_FILES = ":0", ":4"
"""Whether the shell adds the names of files, as kubectl's library for command lines writes it."""


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


def kubectl_main() -> None:
    """Answer kubectl, whose words are the arguments of this program."""
    from tonnage.cli.group import COMPLETING, group
    from tonnage.cli.main import KUBECTL

    # Commands complete the names of files only for a shell that asks.
    os.environ[COMPLETING] = "kubectl"
    words = sys.argv[1:] or [""]
    found = ShellComplete(group, {}, KUBECTL, COMPLETING).get_completions(words[:-1], words[-1])
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_FILES if any(item.type != "plain" for item in found) else _NO_FILES)

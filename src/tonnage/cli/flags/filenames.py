"""Names of manifests on the command line: `-f` takes several files and folders, as shells expand them."""

import re
from collections.abc import Iterator, Sequence

import click

_FLAG = re.compile(r"-[A-Za-z]*f|--filename")
"""`-f` may be the last of several short flags, as in `-Rf`."""


class FilenamesCommand(click.Command):
    """A command in which every word after `-f FILE`, up to the next option, is one more file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_flags(args)))


def _with_flags(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line with `-f` before every file."""
    is_file, is_value = False, False
    for number, word in enumerate(words):
        if word == "--":
            yield from words[number:]
            return
        is_option = word.startswith("-") and word != "-"
        if is_option:
            is_value = _FLAG.fullmatch(word) is not None
            is_file = is_value or word.startswith("--filename=")
        elif is_value:
            is_value = False
        elif is_file:
            yield "-f"
        yield word


manifest_files = click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE...",
    help="Manifests as kubectl prints them, YAML or JSON: files, folders, - for standard input. May be repeated.",
)
recursive = click.option("-R", "--recursive", is_flag=True, help="Read the folders inside of folders, too.")

"""Names of manifests on the command line: `-f` takes several files and folders, as shells expand them."""

from collections.abc import Iterator, Sequence

import click

_FLAGS = ("-f", "--filename")


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
            is_file = word in _FLAGS or word.startswith("--filename=")
            is_value = word in _FLAGS
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

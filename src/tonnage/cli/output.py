"""The output of commands: the flag -o with the same words everywhere, documents for machines, colours for people."""

import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

TABLE, WIDE, JSON, YAML = "table", "wide", "json", "yaml"
_MEANINGS = {
    TABLE: "table for people",
    WIDE: "wide for all details",
    JSON: "json for machines",
    YAML: "yaml for both",
}
_OUTCOMES = {"placed": "green", "waiting": "yellow", "unschedulable": "red", "valid": "green", "not valid": "red"}
_HEADING = re.compile(r"[A-Z][A-Z0-9 %±()/,-]*  [A-Z0-9 %±()/,a-z-]+")
_OUTCOME = re.compile(rf"(?<=  )({'|'.join(_OUTCOMES)})(?=  |$)|(?<=: )(valid|not valid)(?=$|, )")
_NOTE = re.compile(r"(?<=: )(warning)(?=: )")


def output_option(*words: str) -> Callable[[F], F]:
    """Give a command the flag -o with some of the words, of which the first is the default."""
    meanings = "; ".join(_MEANINGS[word] for word in words)
    return click.option(
        "-o",
        "--output",
        type=click.Choice(words),
        default=words[0],
        show_default=True,
        help=f"How the result is written: {meanings}.",
    )


def document(data: object, output: str) -> str:
    """Data as JSON or YAML, with a line break at the end."""
    from tonnage.model.wire import encode, encode_pretty

    if output == JSON:
        return encode_pretty(data).decode() + "\n"
    import json

    from tonnage.manifests.output import as_yaml

    plain: Any = json.loads(encode(data))
    return as_yaml([plain])


def has_colours() -> bool:
    """Whether standard output is a terminal that shows colours, and nobody asked for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def echo_table(text: str) -> None:
    """Print lines of tables; on a terminal with headings, outcomes and warnings set apart."""
    click.echo(coloured(text) if has_colours() else text, nl=not text.endswith("\n"), color=True)


def coloured(text: str) -> str:
    """Lines with headings in bold, and words about outcomes in colours."""
    return "\n".join(map(_coloured_line, text.split("\n")))


def _coloured_line(line: str) -> str:
    if _HEADING.fullmatch(line):
        return click.style(line, bold=True)
    line = _OUTCOME.sub(lambda found: click.style(found[0], fg=_OUTCOMES[found[0]]), line, count=1)
    return _NOTE.sub(lambda found: click.style(found[0], fg="yellow"), line, count=1)

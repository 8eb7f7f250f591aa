"""Pages over the view: all about one pod, and what keys and figures mean."""

import textwrap
from collections.abc import Iterator

from rich.text import Text

from tonnage.cli.terminal.controls import HELP, KEYS
from tonnage.cli.terminal.drawing import ALERT, NAME, QUIET, TITLE, row_of
from tonnage.cli.terminal.source import TerminalSource, why
from tonnage.cluster.task import asked
from tonnage.model.duration import format_seconds
from tonnage.overview.podwants import asks

_FIGURES = (
    ("a bar per GPU", "how much of its memory is given out: · nothing, █ all of it"),
    ("usable", "free GPUs that a typical pod could use as they are"),
)  # fmt: skip


def help_page(source: TerminalSource, width: int) -> list[Text]:
    """What every key does, and what the figures mean."""
    lines = [row_of(("Keys", TITLE)), Text()]
    for key, _, meaning in (*source.keys, *KEYS, HELP):
        lines += _entry(key, meaning, width)
    lines += [Text(), row_of(("Figures", TITLE)), Text()]
    for name, meaning in (*source.figures, *_FIGURES):
        lines += _entry(name, meaning, width)
    return [*lines, Text(), row_of(("esc or ? goes back", QUIET))]


def details_page(source: TerminalSource, key: str, width: int) -> list[Text]:
    """All that is known about a pod; reasons are never cut off."""
    lines = [row_of((key, TITLE)), Text()]
    pod = next((one for one in source.waiting() if one.task.key == key), None)
    if pod is None:
        lines += [row_of(line) for line in textwrap.wrap(source.gone(key), max(width - 2, 20))]
        return [*lines, Text(), row_of(("esc goes back", QUIET))]
    task = pod.task
    lines += _entry("wants", asks(task), width)
    lines += _entry("requests", asked(task.requests), width)
    lines += _entry("priority", str(task.priority), width)
    lines += _entry("waits", format_seconds(source.now - pod.since), width)
    for name, value in (*source.more(key), *task.constraints):
        lines += _entry(name, value, width)
    lines += [Text(), row_of(("why it waits", TITLE)), Text()]
    decision = source.decision(task)
    if decision is None or not decision.rejected:
        lines += _entry("", why(source, task), width)
    else:
        for one in sorted(decision.rejected, key=lambda rejected: (-rejected.count, rejected.reason)):
            nodes = f"{one.count:,} node{'' if one.count == 1 else 's'}"
            lines += _entry(nodes, f"{one.reason}: {one.message}", width, ALERT)
    return [*lines, Text(), row_of(("esc goes back; ↑ and ↓ show other pods", QUIET))]


def _entry(title: str, text: str, width: int, style: str = NAME) -> Iterator[Text]:
    """A title and a text beside it, on as many lines as it needs."""
    left = 17 if len(title) < 16 else len(title) + 2
    for number, line in enumerate(textwrap.wrap(text, max(width - left - 1, 10)) or [""]):
        yield row_of((("" if number else title).ljust(left), style), line)

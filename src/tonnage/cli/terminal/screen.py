"""The screen of the terminal view: nodes with a bar per GPU, waiting pods with their reasons, and the figures.

`render` is a function of the source, the size of the screen and what keys chose; it makes lines that fit.
"""

from rich.console import Group
from rich.text import Text

from tonnage.cli.tables import printable
from tonnage.cli.terminal.controls import HELP, KEYS, Controls, Overlay
from tonnage.cli.terminal.drawing import NAME, QUIET, TITLE, row_of
from tonnage.cli.terminal.nodelines import node_lines
from tonnage.cli.terminal.pages import details_page, help_page
from tonnage.cli.terminal.source import TerminalSource
from tonnage.cli.terminal.waitinglines import waiting_lines

_WAITING_LEAST = 4
_LEAST_WITH_LEGEND = 12
_LEAST_WITH_GAPS = 22
_IDLE = Controls()


def render(source: TerminalSource, width: int, height: int, controls: Controls = _IDLE) -> Group:
    """The whole screen, at most that wide and high."""
    source.cluster.settle()
    gap = [Text()] if height >= _LEAST_WITH_GAPS else []
    legend = [_legend(source, controls, width)] if controls.has_keys and height >= _LEAST_WITH_LEGEND else []
    header = source.header(width)
    if controls.page is Overlay.NONE:
        top = [header, *gap, *_with_hint(source.totals(width), width, controls), *gap]
        room = height - len(top) - len(gap) - len(legend)
        # The share of waiting pods does not depend on their number, or nodes would change places as it grows.
        nodes = node_lines(source.cluster, width, room - max(room // 4, min(_WAITING_LEAST, room // 2)))
        lines = [*top, *nodes, *gap, *waiting_lines(source, width, room - len(nodes), controls)]
    elif controls.page is Overlay.HELP:
        lines = [header, Text(), *help_page(source, width)]
    else:
        lines = [header, Text(), *details_page(source, controls.chosen, width)]
    most = max(height - len(legend), 1)
    lines = lines[:most]
    if legend:
        lines += [Text() for _ in range(most - len(lines))] + legend
    for line in lines:
        # Names are somebody else's, and must not move the cursor.
        line.plain = printable(line.plain)
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _with_hint(lines: list[Text], width: int, controls: Controls) -> list[Text]:
    """The last line says how to end the view if no key does."""
    hint = "Ctrl-C ends "
    if lines and not controls.has_keys and len(lines[-1]) + len(hint) < width:
        lines[-1].append(" " * (width - len(lines[-1]) - len(hint))).append(hint, QUIET)
    return lines


def _legend(source: TerminalSource, controls: Controls, width: int) -> Text:
    """The keys, as many as there is room for; while a filter is typed, that."""
    if controls.is_typing:
        return row_of(("/", TITLE), controls.filter, ("▏", NAME), ("  enter keeps it, esc clears it", QUIET))
    line = row_of()
    for key, word, _ in (HELP, *source.keys, *KEYS):
        if len(line) + len(key) + len(word) + 3 <= width:
            line.append(f"{key} ", NAME).append(f"{word}  ", QUIET)
    return line

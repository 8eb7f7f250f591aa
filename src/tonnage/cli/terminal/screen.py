"""The screen of the terminal view: a tab below the figures, or a page over both.

`render` is a function of the source, the size of the screen and what keys chose; it makes lines that fit.
"""

from rich.console import Group
from rich.text import Text

from tonnage.cli.tables import printable
from tonnage.cli.terminal.controls import HELP, KEYS, Controls, Overlay
from tonnage.cli.terminal.drawing import NAME, QUIET, TITLE, row_of
from tonnage.cli.terminal.itemtable import table_lines
from tonnage.cli.terminal.nodelines import node_lines
from tonnage.cli.terminal.pages import page
from tonnage.cli.terminal.source import TerminalSource
from tonnage.cli.terminal.tabs import Tab, content
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
        lines = [*top, *_body(source, width, height - len(top) - len(legend), controls, gap)]
    else:
        lines = [header, Text(), *_part(page(source, controls, width), height - len(legend) - 2, controls)]
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


def _body(source: TerminalSource, width: int, room: int, controls: Controls, gap: list[Text]) -> list[Text]:
    if controls.tab is Tab.CLUSTER:
        room -= len(gap)
        # The share of waiting pods does not depend on their number, or nodes would change places as it grows.
        nodes = node_lines(source.cluster, width, room - max(room // 4, min(_WAITING_LEAST, room // 2)))
        return [*nodes, *gap, *waiting_lines(source, width, room - len(nodes), controls)]
    table, items = content(controls.tab, source)
    shown = table.chosen_from(items, controls.order, controls.filter)
    return table_lines(table, shown, len(items), width, room, controls.chosen, controls.notes(table))


def _part(lines: list[Text], room: int, controls: Controls) -> list[Text]:
    """The part of a long page that keys have moved to; its last line is the last that is shown."""
    controls.top = min(controls.top, max(len(lines) - room, 0))
    return lines[controls.top :]


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

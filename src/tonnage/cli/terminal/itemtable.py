"""Tables of items that keys order, filter and choose from; cells are made only for the items that are shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rich.text import Text

from tonnage.cli.terminal.drawing import CHOSEN, NAME, QUIET, TITLE, fit, row_of

T = TypeVar("T")
_GAP = "  "
_WIDEST = 44
"""Of all columns but the last."""


class TableColumn(NamedTuple):
    """A column; one that is not so important is shown from some width of the screen on."""

    title: str
    is_number: bool = False
    from_width: int = 0


class ItemTable(NamedTuple, Generic[T]):
    """How items of one kind are ordered, found and shown."""

    noun: str
    columns: Sequence[TableColumn]
    orders: Mapping[str, Callable[[T], Any]]
    """What items are sorted by, by name; the first one is the usual one."""
    key: Callable[[T], str]
    words: Callable[[T], str]
    """The text in which a filter looks."""
    cells: Callable[[T], Sequence[str | Text]]

    def order(self, number: int) -> str:
        """The name of an order; after the last comes the first."""
        names = list(self.orders)
        return names[number % len(names)]

    def chosen_from(self, items: Sequence[T], order: int, text: str) -> list[T]:
        """The items that pass a filter, in an order."""
        wanted = text.lower()
        found = [item for item in items if wanted in self.words(item).lower()] if wanted else list(items)
        found.sort(key=self.orders[self.order(order)])
        return found


def window(count: int, room: int, place: int) -> range:
    """So many numbers of a count, the first ones unless the place is further down."""
    start = max(place - room + 1, 0)
    return range(start, min(start + max(room, 0), count))


def table_lines(
    table: ItemTable[T], items: Sequence[T], count: int, width: int, room: int, chosen: str, notes: Sequence[str]
) -> list[Text]:
    """As many items as there is room for, the chosen one among them; `count` is how many there are without a filter."""
    shown_of = f"{len(items):,}" if len(items) == count else f"{len(items):,} of {count:,}"
    title = row_of((f"{shown_of} {table.noun}", TITLE), (f"  {', '.join(notes)}", QUIET))
    if room < 3 or not items:
        return [title][: max(room, 0)]
    place = next((number for number, item in enumerate(items) if table.key(item) == chosen), 0)
    rows = window(len(items), room - 2 if len(items) <= room - 2 else room - 3, place)
    columns = [number for number, column in enumerate(table.columns) if width >= column.from_width]
    cells = [[_text(table.cells(items[row])[number]) for number in columns] for row in rows]
    titles = [table.columns[number] for number in columns]
    widths = [
        min(max(len(column.title), *[len(row[place]) for row in cells]), _WIDEST)
        for place, column in enumerate(titles[:-1])
    ]
    head = row_of()
    for column, size in zip(titles, [*widths, 0], strict=True):
        head.append((column.title.rjust(size) if column.is_number else column.title.ljust(size)) + _GAP, TITLE)
    lines = [title, head]
    for row, texts in zip(rows, cells, strict=True):
        lines.append(_line(texts, titles, widths, is_chosen=table.key(items[row]) == chosen))
    if len(rows) < len(items):
        above = f"{rows.start:,} above, " if rows.start else ""
        lines.append(row_of((f"… {above}{len(items) - rows.stop:,} below", QUIET)))
    return lines


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _line(cells: Sequence[Text], columns: Sequence[TableColumn], widths: Sequence[int], *, is_chosen: bool) -> Text:
    line = row_of()
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        if place < len(widths):
            size = widths[place]
            if len(cell) > size:
                cell = Text(fit(cell.plain, size), cell.style)
            pad = " " * (size - len(cell))
            cell = Text(pad).append_text(cell) if column.is_number else cell.copy().append(pad)
        if not place:
            cell = Text(cell.plain, CHOSEN if is_chosen else NAME)
        line.append_text(cell).append(_GAP)
    return line


def plain_lines(table: ItemTable[T], items: Sequence[T]) -> list[str]:
    """All items as lines without colours, for pipes and screen readers."""
    from tonnage.cli.tables import printable
    from tonnage.cli.tables import table as lines_of

    header = [column.title.upper() for column in table.columns]
    rows = [[printable(_text(cell).plain) for cell in table.cells(item)] for item in items]
    return list(lines_of(header, rows))

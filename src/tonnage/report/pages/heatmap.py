"""Heat maps: columns of cells as SVG, one path per colour so that thousands of cells stay small."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from tonnage.report.pages.palette import HEAT_STEPS, heat
from tonnage.report.pages.svg import element

CELL = 6
"""Width and height of a cell, including the gap."""
_WIDEST = 80
"""Columns per row."""
_APART = 4
"""The gap between the cells of a column and the separate one below them."""
_BETWEEN = 6
"""The gap between rows of columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of shares from 0 to 1, from the top down, and a separate one below."""

    cells: Sequence[float]
    below: float


def heat_map(described: str, columns: Sequence[Column], titles: Sequence[str] = (), zoom: int = 1) -> Markup:
    """The columns in rows of equal length; with titles each column shows its own on hover."""
    width = min(len(columns), _WIDEST)
    depth = max(len(column.cells) for column in columns)
    pitch = depth * CELL + _APART + CELL + _BETWEEN
    steps: list[list[str]] = [[] for _ in range(HEAT_STEPS)]
    for start in range(0, len(columns), width):
        row = columns[start : start + width]
        top = start // width * pitch
        for level in range(depth):
            _runs([heat(c.cells[level]) if level < len(c.cells) else None for c in row], top + level * CELL, steps)
        _runs([heat(column.below) for column in row], top + depth * CELL + _APART, steps)
    rows = -(-len(columns) // width)
    return element(
        "svg",
        *[element("path", class_=f"heat-{step}", d="".join(runs)) for step, runs in enumerate(steps) if runs],
        *[_title(title, i % width * CELL, i // width * pitch, pitch - _BETWEEN) for i, title in enumerate(titles)],
        class_="heat",
        viewBox=f"0 0 {width * CELL} {rows * pitch - _BETWEEN}",
        role="img",
        aria_label=described,
        style=f"--width:{width * CELL * zoom}px",
    )


def _runs(row: Sequence[int | None], top: int, steps: list[list[str]]) -> None:
    """Adjacent cells of one colour as one piece of path, a dash for each."""
    column = 0
    for step, cells in groupby(row):
        length = len(list(cells))
        if step is not None:
            steps[step].append(f"M{column * CELL} {top + CELL // 2}h{length * CELL}")
        column += length


def _title(title: str, left: int, top: int, height: int) -> Markup:
    return element("rect", element("title", title), class_="over", x=left, y=top, width=CELL, height=height)

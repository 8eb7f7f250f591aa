"""Line plots as SVG: axes, named lines, bands for the spread, and a marker for the pointer."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tonnage.report.pages.palette import line_colour, line_dash
from tonnage.report.pages.scale import Axis
from tonnage.report.pages.svg import element, polyline

Point = tuple[float, float]
_LETTER = 7.6
"""The average width of a letter of a label."""
_LABEL_GAP = 15.0


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One series of a plot."""

    name: str
    look: int
    """The index of the colour and dash, the same in all plots."""
    points: Sequence[Point]
    spread: Sequence[float] = ()
    """The half-width of the band at each point."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A plot's size, and the area inside it for lines."""

    width: float
    height: float
    left: float = 52.0
    right: float = 14.0
    top: float = 14.0
    bottom: float = 42.0

    @property
    def end(self) -> float:
        return self.width - self.right

    @property
    def floor(self) -> float:
        return self.height - self.bottom


def room_for(names: Sequence[str]) -> float:
    """The space on the right that the names of lines need."""
    return 26 + _LETTER * max(map(len, names), default=0)


def line_plot(
    name: str,
    described: str,
    lines: Sequence[PlotLine],
    x: Axis,
    y: Axis,
    frame: Frame,
    bound: PlotLine | None = None,
    *,
    fills: bool = False,
) -> Markup:
    """A plot; with space on its right the lines are named there.

    One that fills its place has no style attributes, which strict pages forbid.
    """
    view = Markup("").join(
        [
            _grid(x, y, frame),
            *[_band(line, x, y, frame) for line in lines if line.spread],
            *([_bound(bound, x, y, frame)] if bound else []),
            *[_line(line, x, y, frame) for line in lines],
        ]
    )
    clip = f"clip-{name}"
    return element(
        "svg",
        element("defs", element("clipPath", _inside(frame), id=clip)),
        _axes(x, y, frame),
        element("g", view, clip_path=f"url(#{clip})"),
        *(_names(lines, bound, x, y, frame) if frame.right > _LABEL_GAP else []),
        element("line", class_="cursor", x1=0, x2=0, y1=frame.top, y2=frame.floor, visibility="hidden"),
        class_="plot",
        id=f"plot-{name}",
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        tabindex=0,
        aria_label=described,
        data_plot=name,
        data_left=frame.left,
        data_right=frame.end,
        data_low=repr(x.low),
        data_high=repr(x.high),
        style=None if fills else f"--width:{frame.width:g}px",
    )


def _inside(frame: Frame) -> Markup:
    height = frame.floor - frame.top + 4
    return element("rect", x=frame.left, y=frame.top - 2, width=frame.end - frame.left + 1, height=height)


def _grid(x: Axis, y: Axis, frame: Frame) -> Markup:
    rows = (y.place(tick, frame.floor, frame.top) for tick in y.ticks)
    return element("path", class_="grid", d="".join(f"M{frame.left:g} {row:.1f}H{frame.end:g}" for row in rows))


def _axes(x: Axis, y: Axis, frame: Frame) -> Markup:
    below, beside = frame.floor + 17, frame.left - 8
    words = [
        element("text", label, x=x.place(tick, frame.left, frame.end), y=below, text_anchor="middle")
        for tick, label in zip(x.ticks, x.labels, strict=True)
    ] + [
        element("text", label, x=beside, y=y.place(tick, frame.floor, frame.top) + 4, text_anchor="end")
        for tick, label in zip(y.ticks, y.labels, strict=True)
    ]
    middle = (frame.left + frame.end) / 2
    words.append(element("text", x.label, class_="axis", x=middle, y=frame.height - 6, text_anchor="middle"))
    ticks = "".join(f"M{x.place(tick, frame.left, frame.end):.1f} {frame.floor:g}v4" for tick in x.ticks)
    return element("g", element("path", class_="ticks", d=ticks or "M0 0"), *words, class_="axes")


def _placed(line: PlotLine, x: Axis, y: Axis, frame: Frame, shift: float = 0.0) -> list[Point]:
    spreads = line.spread or [0.0] * len(line.points)
    return [
        (x.place(at, frame.left, frame.end), y.place(value + shift * spread, frame.floor, frame.top))
        for (at, value), spread in zip(line.points, spreads, strict=True)
    ]


def _line(line: PlotLine, x: Axis, y: Axis, frame: Frame) -> Markup:
    path = polyline(_placed(line, x, y, frame))
    look = {"stroke": line_colour(line.look), "stroke_dasharray": line_dash(line.look)}
    return element("path", class_=f"line series-{line.look}", d=path, **look)


def _band(line: PlotLine, x: Axis, y: Axis, frame: Frame) -> Markup:
    upper, lower = _placed(line, x, y, frame, 1.0), _placed(line, x, y, frame, -1.0)
    path = polyline([*upper, *reversed(lower)]) + "Z"
    return element("path", class_=f"band series-{line.look}", d=path, fill=line_colour(line.look))


def _bound(line: PlotLine, x: Axis, y: Axis, frame: Frame) -> Markup:
    return element("path", class_="bound", d=polyline(_placed(line, x, y, frame)))


def _names(lines: Sequence[PlotLine], bound: PlotLine | None, x: Axis, y: Axis, frame: Frame) -> list[Markup]:
    """The name of each line beside its end, moved apart where ends are close."""
    shown = [line for line in (*lines, bound) if line and line.points]
    ends = [_placed(line, x, y, frame)[-1] for line in shown]
    rows = spread_out([row for _, row in ends], _LABEL_GAP, frame.top + 4, frame.floor)
    names = []
    for line, (column, end), row in zip(shown, ends, rows, strict=True):
        colour = "var(--quiet)" if line is bound else line_colour(line.look)
        leader = f"M{column + 3:.1f} {end:.1f}L{frame.end + 12:.1f} {row:.1f}h4"
        names.append(
            element(
                "g",
                element("path", class_="leader", d=leader, stroke=colour),
                element("text", line.name, x=frame.end + 20, y=row + 4, style=f"fill:{readable(colour)}"),
                class_="name" if line is bound else f"name series-{line.look}",
            )
        )
    return names


def readable(colour: str) -> str:
    """A line's colour with enough contrast for text."""
    return f"color-mix(in srgb, {colour} 60%, var(--ink))"


def spread_out(rows: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Heights near the given ones, in order, at least `gap` apart and inside while there is space."""
    order = sorted(range(len(rows)), key=lambda i: rows[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(rows[i], top, placed[-1] + gap if placed else top))
    limit = max(bottom, top + gap * (len(rows) - 1))
    for position in range(len(placed) - 1, -1, -1):
        placed[position] = min(placed[position], limit)
        limit = placed[position] - gap
    result = [0.0] * len(rows)
    for i, row in zip(order, placed, strict=True):
        result[i] = row
    return result

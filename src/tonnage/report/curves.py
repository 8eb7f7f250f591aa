"""Figures with the curves of all policies, and the numbers that the page shows on hover and in tables."""

from dataclasses import dataclass

from markupsafe import Markup

from tonnage.report.measures import ALLOCATED, FRAGMENTATION, Measure, fills
from tonnage.report.pages import text
from tonnage.report.pages.palette import LINE_COLOURS
from tonnage.report.pages.plot import Frame, PlotLine, line_plot, room_for
from tonnage.report.pages.scale import Axis, around, number_axis, time_axis
from tonnage.simulator.studies.comparison import in_order
from tonnage.simulator.studies.results import Results

_PARTING = 0.25
"""Policies diverge where they first differ by this share of their largest difference."""
_ROWS = 14
"""The number of checkpoints in a table of values."""
BOUND = "upper bound"


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its texts and numbers."""

    name: str
    title: str
    meaning: str
    plot: Markup
    narrow_plot: Markup | None
    """The same plot without names beside its lines, for screens that the large one does not fit on."""
    values: dict[str, object]
    """The numbers shown on hover."""
    heads: list[str]
    rows: list[tuple[str, list[str]]]
    """Some of the numbers as a table: checkpoints, and the value of each policy."""


def large_figures(results: Results, measures: list[Measure]) -> list[Figure]:
    """The most important measures, with space for the names of the lines."""
    figures = []
    for measure in measures:
        if measure is ALLOCATED:
            start = parting(results, measure)
            figures.append(_figure(results, measure, large=True, start=start))
        elif measure is FRAGMENTATION:
            figures.append(_figure(results, measure, large=True))
    return figures


def small_figures(results: Results, measures: list[Measure]) -> list[Figure]:
    """All other measures; the first again if its large plot omits its beginning."""
    whole = [ALLOCATED] if ALLOCATED in measures and parting(results, ALLOCATED) > _range(results, ALLOCATED)[0] else []
    others = [measure for measure in measures if measure not in (ALLOCATED, FRAGMENTATION)]
    return [_figure(results, measure) for measure in (*whole, *others)]


def parting(results: Results, measure: Measure) -> float:
    """Where policies begin to differ visibly; the beginning if they do so at once, never or over time."""
    curves = [dict(in_order(measure.curve(policy))) for policy in results.policies.values()]
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    if not fills(results) or not shared:
        return _range(results, measure)[0]
    apart = [max(c[at].mean for c in curves) - min(c[at].mean for c in curves) for at in shared]
    widest = max(apart)
    if widest <= 0:
        return shared[0]
    return next(at for at, gap in zip(shared, apart, strict=True) if gap >= _PARTING * widest)


def _range(results: Results, measure: Measure) -> tuple[float, float]:
    places = [float(at) for policy in results.policies.values() for at in measure.curve(policy)]
    return min(places, default=0.0), max(places, default=1.0)


def _lines(results: Results, measure: Measure, start: float, banded: bool) -> list[PlotLine]:
    lines = []
    for look, (name, policy) in enumerate(results.policies.items()):
        points = [(at, value) for at, value in in_order(measure.curve(policy)) if at >= start]
        spread = [value.sd for _, value in points]
        if points:
            found = [(at, value.mean) for at, value in points]
            lines.append(PlotLine(name, look, found, spread if banded and any(spread) else ()))
    return lines


def _bound_line(results: Results, start: float) -> PlotLine | None:
    points = sorted((float(at), value) for at, value in results.bound.items())
    shown = [(at, value) for at, value in points if at >= start]
    return PlotLine(BOUND, 0, shown) if shown else None


def _steps(bound: PlotLine, start: float) -> PlotLine:
    """The bound between its checkpoints: the next one, because with more pods never less can be allocated."""
    points: list[tuple[float, float]] = []
    for at, value in bound.points:
        points += [(points[-1][0] if points else start, value), (at, value)]
    return PlotLine(bound.name, bound.look, points)


def _figure(results: Results, measure: Measure, large: bool = False, start: float | None = None) -> Figure:
    low, high = _range(results, measure)
    start = low if start is None else start
    lines = _lines(results, measure, start, large and len(results.policies) <= LINE_COLOURS)
    bound = _bound_line(results, start) if large and measure is ALLOCATED else None
    shown = [value for line in (*lines, *([bound] if bound else [])) for _, value in line.points]
    meaning = measure.meaning
    if bound is not None:
        meaning += " No policy can exceed the dashed line, the upper bound."
    if any(line.spread for line in lines):
        meaning += " The band is one standard deviation up and down."
    title = measure.title
    if start > low:
        title += f", from where policies part ({_moment(results, start)})"

    def plot(size: str, frame: Frame) -> Markup:
        x = _across(results, start, high, size == "large")
        y = _up(measure, shown, start > low, 6 if size == "large" else 5)
        described = f"{measure.title} over {x.label}: {text.listed([line.name for line in lines])}"
        return line_plot(f"{size}-{measure.name}", described, lines, x, y, frame, bound and _steps(bound, start))

    heads, rows = _table(results, measure)
    names = [*(line.name for line in lines), *([BOUND] if bound else [])]
    return Figure(
        f"{'large' if large else 'small'}-{measure.name}",
        title,
        meaning,
        plot("large", Frame(1040, 400, right=room_for(names))) if large else plot("small", Frame(360, 230)),
        plot("narrow", Frame(360, 280)) if large else None,
        _values(results, measure, lines, bound),
        heads,
        rows,
    )


def _across(results: Results, low: float, high: float, large: bool) -> Axis:
    if fills(results):
        return number_axis("arrived demand, % of all GPUs", low, high, 10 if large else 7)
    return time_axis("time since the start", low, high, 8 if large else 5)


def _up(measure: Measure, values: list[float], zoomed: bool, ticks: int) -> Axis:
    low, high = around(values or [0.0])
    if not zoomed:
        low = 0.0
    if measure.unit and high > 100:
        high = 100.0
    return number_axis("", low, high, ticks, measure.suffix)


def _moment(results: Results, at: float) -> str:
    return text.percent(at, 0 if at == int(at) else 1) if fills(results) else text.duration(at)


def _places(results: Results, measure: Measure) -> list[float]:
    return sorted({float(at) for policy in results.policies.values() for at in measure.curve(policy)})


def _values(results: Results, measure: Measure, lines: list[PlotLine], bound: PlotLine | None) -> dict[str, object]:
    at = _places(results, measure)
    known = [(line.name, line.look, dict(line.points)) for line in lines]
    known += [(bound.name, -1, dict(bound.points))] if bound else []
    return {
        "at": at,
        "names": [_moment(results, place) for place in at],
        "unit": measure.suffix,
        "digits": 2 if measure.unit else 1,
        "lines": [
            {"name": name, "look": look, "values": [_rounded(points.get(place), measure) for place in at]}
            for name, look, points in known
        ],
    }


def _rounded(value: float | None, measure: Measure) -> float | None:
    return None if value is None else round(value, 2 if measure.unit else 1)


def _table(results: Results, measure: Measure) -> tuple[list[str], list[tuple[str, list[str]]]]:
    at = _places(results, measure)
    step = -(-len(at) // _ROWS)
    chosen = sorted({*at[::step], *at[-1:]})
    curves = {name: dict(in_order(measure.curve(policy))) for name, policy in results.policies.items()}
    rows = [
        (_moment(results, place), [measure.written(c[place].mean) if place in c else "" for c in curves.values()])
        for place in chosen
    ]
    return list(curves), rows

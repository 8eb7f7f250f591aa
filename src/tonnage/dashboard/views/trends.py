"""The trends view: figures of the whole cluster over the last hours, as plots."""

from typing import Any

from markupsafe import Markup

from tonnage.dashboard.history import DAY
from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.templating import macro
from tonnage.dashboard.views.view import Asked, View
from tonnage.report.pages.plot import Frame, PlotLine, line_plot
from tonnage.report.pages.scale import Axis, number_axis

SPANS = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": DAY}
POINTS = 240
_FRAME = Frame(560.0, 210.0, right=15.0, bottom=26.0)
_MEASURES = (
    ("allocated", "Allocation", "GPU memory that pods hold, in percent of all", "%", 1),
    ("fragmentation", "Fragmentation", "free GPUs that typical pods cannot use, in percent of all GPUs", "%", 1),
    ("usable", "Usable free GPUs", "free GPUs that a typical pod can use", " GPUs", 1),
    ("waiting", "Waiting pods", "pods without a place", " pods", 0),
    ("binds", "Binds", "pods that got a node, per second", " /s", 2),
)


class TrendsView(View):
    """How the cluster did."""

    name, title = "trends", "Trends"
    parameters = ("span",)

    def parts(self, asked: Asked) -> Parts:
        span = SPANS[asked.choice("span", SPANS, "6h")]
        figure = macro("parts.html", "trend")
        plots = {}
        for look, (name, title, about, unit, digits) in enumerate(_MEASURES):
            points = asked.board.history.points(asked.board.history.series[name], span, POINTS)
            plot = _plot(name, title, points, look, "%" if unit == "%" else "") if len(points) > 1 else Markup("")
            plots[f"trend-{name}"] = str(figure(title, about, unit, digits, points, plot))
        return {"plots": plots}

    def around(self, asked: Asked) -> dict[str, Any]:
        return {"spans": SPANS, "span": asked.choice("span", SPANS, "6h")}


def _plot(name: str, title: str, points: list[tuple[float, float]], look: int, unit: str) -> Markup:
    values = [value for _, value in points]
    top = max(values) or 1.0
    y = number_axis("", 0.0, top * 1.08, 4, unit)
    words = f"{title}, from {values[0]:.1f} to {values[-1]:.1f}, at most {max(values):.1f}"
    return line_plot(name, words, [PlotLine(title, look, points)], _clock_axis(points), y, _FRAME, fills=True)


def _clock_axis(points: list[tuple[float, float]]) -> Axis:
    """An axis of times of day."""
    low, high = points[0][0], points[-1][0]
    step = next((one for one in (60, 300, 900, 1800, 3600, 7200, 14400, 21600) if (high - low) / one <= 6), 43200)
    ticks = tuple(float(number * step) for number in range(int(low // step) + 1, int(high // step) + 1))
    labels = tuple(f"{int(tick % DAY) // 3600:02d}:{int(tick % 3600) // 60:02d}" for tick in ticks)
    return Axis("", low, max(high, low + 1.0), ticks, labels)

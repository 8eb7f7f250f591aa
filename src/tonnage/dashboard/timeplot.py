"""TimePlot: a figure of the cluster over time, with its values under the pointer, under arrow keys and as a table."""

from typing import NamedTuple

from tonnage.dashboard.history import DAY
from tonnage.dashboard.templating import macro
from tonnage.report.pages.plot import Frame, PlotLine, Point, line_plot
from tonnage.report.pages.scale import Axis, number_axis

POINTS = 240
_ROWS = 24
"""Rows of the table, each one of some points."""
_FRAME = Frame(560.0, 210.0, right=15.0, bottom=26.0)


class TimePlot(NamedTuple):
    """What a plot is about."""

    name: str
    title: str
    about: str
    unit: str
    digits: int
    look: int
    """The number of its colour."""

    def figure(self, given: list[Point]) -> str:
        """The figure as HTML, whose text changes only with its points."""
        # Whole seconds, which the script and the axis have in common.
        points = [(float(int(when)), value) for when, value in given]
        plot = self._plot(points) if len(points) > 1 else ""
        line = {"name": self.title, "look": self.look, "values": [round(value, self.digits) for _, value in points]}
        values = {"at": [int(when) for when, _ in points], "lines": [line], "digits": self.digits, "unit": self.unit}
        rows = points[:: -max(1, -(-len(points) // _ROWS))]
        show = macro("parts.html", "trend")
        return str(show(self.name, self.title, self.about, self.unit, self.digits, points, plot, values, rows))

    def _plot(self, points: list[Point]) -> str:
        values = [value for _, value in points]
        y = number_axis("", 0.0, (max(values) or 1.0) * 1.08, 4, "%" if self.unit == "%" else "")
        words = f"{self.title}, from {values[0]:.1f} to {values[-1]:.1f}, at most {max(values):.1f}"
        line = PlotLine(self.title, self.look, points)
        return line_plot(self.name, words, [line], _clock_axis(points), y, _FRAME, fills=True)


def _clock_axis(points: list[Point]) -> Axis:
    """An axis of times of day."""
    low, high = points[0][0], points[-1][0]
    step = next((one for one in (60, 300, 900, 1800, 3600, 7200, 14400, 21600) if (high - low) / one <= 6), 43200)
    ticks = tuple(float(number * step) for number in range(int(low // step) + 1, int(high // step) + 1))
    labels = tuple(f"{int(tick % DAY) // 3600:02d}:{int(tick % 3600) // 60:02d}" for tick in ticks)
    return Axis("", low, max(high, low + 1.0), ticks, labels)

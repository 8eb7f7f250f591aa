"""The trends view: figures of the whole cluster over the last hours, as plots."""

from typing import Any

from tonnage.dashboard.history import DAY
from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.timeplot import POINTS, TimePlot
from tonnage.dashboard.views.view import Asked, View

SPANS = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": DAY}
_PLOTS = (
    TimePlot("allocated", "Allocation", "GPU memory that pods hold, in percent of all", "%", 1, 0),
    TimePlot(
        "fragmentation", "Fragmentation", "free GPUs that typical pods cannot use, in percent of all GPUs", "%", 1, 1
    ),
    TimePlot("usable", "Usable free GPUs", "free GPUs that a typical pod can use", " GPUs", 1, 2),
    TimePlot("waiting", "Waiting pods", "pods without a place", " pods", 0, 3),
    TimePlot("binds", "Binds", "pods that got a node, per second", " /s", 2, 4),
)


class TrendsView(View):
    """How the cluster did."""

    name, title = "trends", "Trends"
    parameters = ("span",)

    def parts(self, asked: Asked) -> Parts:
        span = SPANS[asked.choice("span", SPANS, "6h")]
        history = asked.board.history
        figures = {
            f"trend-{plot.name}": plot.figure(history.points(history.series[plot.name], span, POINTS))
            for plot in _PLOTS
        }
        return {"plots": figures}

    def around(self, asked: Asked) -> dict[str, Any]:
        return {"spans": SPANS, "span": asked.choice("span", SPANS, "6h")}

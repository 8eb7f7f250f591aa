"""The queues view: what each queue deserves, holds, borrows and waits for, and how that went over time."""

from typing import NamedTuple

from tonnage.dashboard.history import DAY
from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.templating import clock, gpus, macro
from tonnage.dashboard.views.view import Asked, View
from tonnage.overview.queuerows import QueueResource, QueueRow
from tonnage.report.pages.plot import Point

POINTS = 60
WIDTH, HEIGHT = 120.0, 24.0


class QueuesView(View):
    """All queues."""

    name, title, needs_queues = "queues", "Queues", True

    def parts(self, asked: Asked) -> Parts:
        row = macro("parts.html", "queue_row")
        queues = asked.board.current.queues
        most = max([queue.cards for queue in queues], default=0.0)
        colours, base = asked.board.queue_colours, asked.base
        rows = {
            f"q-{one.name}": str(row(one, gpu_share(one), course(asked, one.name), most, colours.of(one.name), base))
            for one in queues
        }
        return {"queues": rows or {"no-queues": str(macro("parts.html", "empty_row")("No queue is shown.", 8))}}


def gpu_share(queue: QueueRow) -> QueueResource | None:
    """The queue's share of cards; nothing if no plugin keeps shares of them."""
    named = {resource.name: resource for resource in queue.resources}
    return named.get("gpu") or next((one for name, one in named.items() if "gpu" in name), None)


class Course(NamedTuple):
    """The cards that a queue held over the last day, as a line on a scale of its own."""

    path: str
    words: str


def course(asked: Asked, queue: str) -> Course | None:
    """The line of a queue; nothing as long as there are no two points."""
    points = held_by(asked, queue, POINTS)
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    values = [value for _, value in points]
    top = max(values) or 1.0
    path = "M" + "L".join(
        f"{(when - first) / (last - first) * WIDTH:.1f} {HEIGHT - 1 - value / top * (HEIGHT - 2):.1f}"
        for when, value in points
    )
    words = f"{gpus(values[-1])} now, {gpus(min(values))} to {gpus(max(values))} since {clock(first)}"
    return Course(path, words)


def held_by(asked: Asked, queue: str, most: int) -> list[Point]:
    """The cards that a queue held over the last day, as so many means."""
    history = asked.board.history
    series = history.queues.get(queue)
    return history.points(series, DAY, most) if series is not None else []

"""The queues view: what each queue deserves, holds, borrows and waits for, and how that went over time."""

from tonnage.dashboard.history import DAY
from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.templating import macro
from tonnage.dashboard.views.view import Asked, View
from tonnage.overview.queuerows import QueueResource, QueueRow

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


def course(asked: Asked, queue: str) -> str:
    """The path of the cards that a queue held over the last day, on a scale of its own."""
    history = asked.board.history
    series = history.queues.get(queue)
    points = history.points(series, DAY, POINTS) if series is not None else []
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    top = max([value for _, value in points]) or 1.0
    return "M" + "L".join(
        f"{(when - first) / (last - first) * WIDTH:.1f} {HEIGHT - 1 - value / top * (HEIGHT - 2):.1f}"
        for when, value in points
    )

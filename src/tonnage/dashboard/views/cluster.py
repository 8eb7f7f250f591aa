"""The cluster view: totals, and every node a row of cards, every card a bar of who holds what."""

from functools import partial
from typing import Any

from tonnage.dashboard.liveview import Parts, RowCache
from tonnage.dashboard.templating import macro
from tonnage.dashboard.tiles import COLOURINGS, held, painter, tile
from tonnage.dashboard.views.view import Asked, View
from tonnage.overview.noderows import NodeRow

ORDERS = {"name": "name", "free": "most free first", "stranded": "most stranded first", "full": "fullest first"}
SIZES = {"auto": "fitting", "s": "small", "m": "medium", "l": "large"}
_LARGE_UP_TO, _MEDIUM_UP_TO = 48, 300


class CardsView(View):
    """Every card of the cluster at a glance."""

    name, title = "cluster", "Cluster"
    parameters = ("colour", "order", "q", "size")

    def __init__(self) -> None:
        self._caches: dict[tuple[Any, ...], RowCache] = {}

    def parts(self, asked: Asked) -> Parts:
        board, current = asked.board, asked.board.current
        ages = [row.since for group in current.waiting for row in group.pods]
        oldest = min([since for since in ages if since is not None], default=None)
        figures = macro("parts.html", "figures")(current.totals, oldest, asked.base, asked.viewer)
        if not asked.viewer.sees_nodes:
            return {"figures": {"figures-body": str(figures)}}
        colouring = asked.choice("colour", COLOURINGS, "queue")
        legend = macro("parts.html", "legend")(colouring, _held_by(asked, colouring), current.totals)
        nodes = self.chosen(asked)
        key = (colouring, asked.viewer, asked.base, board.epoch, *_colours(asked, colouring))
        cache = self._caches.get(key)
        if cache is None:
            if len(self._caches) > 16:
                self._caches.clear()
            cache = self._caches[key] = RowCache()
        cache.begin()
        paint = painter(board, colouring, asked.viewer)
        tiles = {
            f"n-{row.name}": cache.get(row.name, row, partial(tile, row, paint, colouring, asked.base)) for row in nodes
        }
        nothing = macro("parts.html", "empty")("No node is shown.", asked.params.get("q", ""))
        return {
            "figures": {"figures-body": str(figures)},
            "legend": {"legend-body": str(legend)},
            "nodes": tiles or {"no-nodes": str(nothing)},
        }

    def chosen(self, asked: Asked) -> list[NodeRow]:
        """The nodes that pass the filter, in the order that is asked for."""
        words = asked.params.get("q", "").lower().split()
        nodes = [
            row
            for row in asked.board.current.nodes
            if all(word in f"{row.name} {row.model} {row.trouble}".lower() for word in words)
        ]
        match asked.choice("order", ORDERS, "name"):
            case "free":
                nodes.sort(key=lambda row: -sum([card.free for card in row.cards]))
            case "stranded":
                nodes.sort(key=lambda row: -row.stranded)
            case "full":
                nodes.sort(key=lambda row: -held(row))
        return nodes

    def around(self, asked: Asked) -> dict[str, Any]:
        count = len(asked.board.current.nodes)
        size = asked.choice("size", SIZES, "auto")
        fitting = "l" if count <= _LARGE_UP_TO else "m" if count <= _MEDIUM_UP_TO else "s"
        return {
            "colourings": COLOURINGS,
            "orders": ORDERS,
            "sizes": SIZES,
            "colour": asked.choice("colour", COLOURINGS, "queue"),
            "order": asked.choice("order", ORDERS, "name"),
            "size": size,
            "shown_size": fitting if size == "auto" else size,
            "q": asked.params.get("q", ""),
        }


def _colours(asked: Asked, colouring: str) -> tuple[str, ...]:
    """The names that have colours of their own: bars change when another one gets one."""
    named = {"queue": asked.board.queue_colours.named, "model": asked.board.model_colours.named}.get(colouring, {})
    return tuple(named)


def _held_by(asked: Asked, colouring: str) -> list[tuple[str, str, float]]:
    """The names with colours of their own, with the cards they stand for, and the sum of all others."""
    board = asked.board
    if colouring == "queue" and asked.viewer.sees_queues:
        colours, amounts = board.queue_colours, {row.name: row.cards for row in board.current.queues}
    elif colouring == "model":
        colours, amounts = board.model_colours, {}
        for node in board.current.nodes:
            for card in node.cards:
                amounts[card.model] = amounts.get(card.model, 0.0) + 1
    else:
        return []
    own = [(name, colours.of(name), amounts.get(name, 0.0)) for name in colours.named if amounts.get(name)]
    rest = sum([amount for name, amount in amounts.items() if name not in colours.named])
    return own + ([("others", "x", rest)] if rest else [])

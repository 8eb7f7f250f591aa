"""Tiles: a node as a small drawing, each card a bar of who holds what, in the colours of one question.

The drawing is SVG with one path per colour, so that thousands of cards are few elements. Colours are classes of the
style sheet; what is stranded is hatched, and a card that takes no pods is crossed out, so that neither needs colours.
"""

from collections.abc import Callable
from html import escape
from urllib.parse import quote

from tonnage.dashboard.board import Board
from tonnage.overview.noderows import CardHolder, CardRow, NodeRow
from tonnage.report.pages.palette import heat
from tonnage.server.viewer import OTHERS, Viewer

WIDTH, GAP, HEIGHT = 6, 1, 22
COLOURINGS = {
    "queue": "queue that holds it",
    "model": "GPU model",
    "free": "how full it is",
    "stranded": "free and stranded",
    "health": "health",
}
"""What bars may be coloured by."""

Painter = Callable[[CardRow, CardHolder], str]
"""The class of the part of a card that somebody holds."""


def share_of_card(card: CardRow, holder: CardHolder) -> float:
    """The part of a card that a pod holds, as it is drawn: of its memory, or of its compute if it has none."""
    if card.memory:
        return min(1.0, holder.memory / card.memory)
    return min(1.0, holder.cores / card.cores) if card.cores else 1.0


def held(node: NodeRow) -> float:
    """The cards of a node that are held, as a sum of parts."""
    return sum([min(1.0, sum([share_of_card(card, one) for one in card.holders])) for card in node.cards])


def painter(board: Board, colouring: str, viewer: Viewer) -> Painter:
    """How held parts are coloured."""
    if colouring == "queue":
        queues = board.queue_colours
        return lambda card, holder: f"c{queues.of(holder.queue)}" if viewer.sees(holder.pod) else "cx"
    if colouring == "model":
        models = board.model_colours
        return lambda card, holder: f"c{models.of(card.model)}"
    if colouring == "free":
        return lambda card, holder: f"h{heat(card.memory_used / card.memory if card.memory else 1.0)}"
    return lambda card, holder: "u"


def tile(node: NodeRow, paint: Painter, colouring: str, base: str) -> str:
    """A node as a link with its drawing."""
    words = escape(described(node), quote=True)
    name = escape(node.name, quote=True)
    classes = "node trouble" if node.trouble else "node"
    where = f"{base}/nodes/{quote(node.name, safe='')}"
    return (
        f'<a class="{classes}" id="n-{name}" href="{escape(where, quote=True)}" aria-label="{words}">'
        f"<b>{name}</b>{drawing(node.cards, paint, colouring)}</a>"
    )


def described(node: NodeRow) -> str:
    """A node in one line."""
    parts = [node.name, f"{len(node.cards)} × {node.model}" if node.cards else "no GPUs"]
    if node.cards:
        parts.append(f"{held(node):.1f} of {len(node.cards)} GPUs held")
    if node.stranded:
        parts.append(f"{node.stranded} stranded")
    if node.trouble:
        parts.append(node.trouble)
    return ", ".join(parts)


def drawing(cards: tuple[CardRow, ...], paint: Painter, colouring: str) -> str:
    """The bars of some cards side by side."""
    paths: dict[str, list[str]] = {"t": []}
    for position, card in enumerate(cards):
        left = position * (WIDTH + GAP)
        track = f"t{paint(card, _NOBODY)}" if colouring == "model" else "t"
        paths.setdefault(track, []).append(_box(left, 0, HEIGHT))
        top = float(HEIGHT)
        for holder in card.holders:
            height = min(top, max(share_of_card(card, holder) * HEIGHT, 0.6))
            top -= height
            paths.setdefault(paint(card, holder), []).append(_box(left, top, height))
        if card.stranded and top > 0.3:
            paths.setdefault("s", []).append(_box(left, 0, top))
        elif colouring == "stranded" and top > 0.3:
            paths.setdefault("f", []).append(_box(left, 0, top))
        if card.health:
            paths.setdefault("x", []).append(f"M{left} 0l{WIDTH} {HEIGHT}m0-{HEIGHT}l-{WIDTH} {HEIGHT}")
    width = max(len(cards) * (WIDTH + GAP) - GAP, 1)
    drawn = "".join([_path(name, boxes) for name, boxes in paths.items() if boxes])
    return f'<svg viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'


def _path(name: str, boxes: list[str]) -> str:
    look = ' fill="url(#hatch)"' if name == "s" else ""
    return f'<path class="{name}"{look} d="{"".join(boxes)}"/>'


def _box(left: float, top: float, height: float) -> str:
    return f"M{left} {top:.3g}h{WIDTH}v{height:.3g}h-{WIDTH}z"


_NOBODY = CardHolder("", "", 0, 0)


def holder_name(viewer: Viewer, pod: str) -> str:
    """A pod's name, or that it is somebody else's."""
    return pod if viewer.sees(pod) else OTHERS

"""Pieces of the live view: colours, bars, and words about pods and cards that fit a cell."""

import re
import textwrap
from collections.abc import Iterator

from rich.text import Text

from tonnage.cluster.nodestate import NodeState

RISING = " ▁▂▃▄▅▆▇█"
GROWING = " ▏▎▍▌▋▊▉█"
NAME, TITLE, QUIET, ALERT, CHOSEN = "bold", "bold cyan", "bright_black", "yellow", "reverse"
_SHADES = ((0.35, "bright_blue"), (0.95, "cyan"))
_FULL = "green"
_TYPE_PREFIX = re.compile(r"^NVIDIA[- ]*(Tesla[- ]*)?")


def card_type(state: NodeState) -> str:
    """The kind of card that a node has, without its maker's name."""
    return short_model(state.devices[0].type) if state.devices else "no cards"


def short_model(model: str) -> str:
    """A model of cards without its maker's name."""
    return _TYPE_PREFIX.sub("", model)


def shade(share: float) -> str:
    """The colour of something that is so full."""
    return next((colour for limit, colour in _SHADES if share < limit), _FULL)


def bar(share: float, width: int, used: bool = True) -> Text:
    """A bar of that many characters; one character alone grows upwards, more grow to the right."""
    if not used:
        return Text("·" * width, QUIET)
    share = min(max(share, 0.0), 1.0)
    eighths = max(int(share * 8 * width + 0.5), 1)
    if width == 1:
        return Text(RISING[eighths], shade(share))
    whole, rest = divmod(eighths, 8)
    filled = GROWING[8] * whole + (GROWING[rest] if rest else "")
    return Text(filled, shade(share)).append("·" * (width - len(filled)), QUIET)


def fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: max(width - 1, 0)] + "…"


def row_of(*parts: str | Text | tuple[str, str]) -> Text:
    return Text.assemble(" ", *parts)


def append_figure(line: Text, width: int, title: str, value: str) -> None:
    """Add a figure to a line if there is room for it."""
    if len(line) + 4 + len(title) + len(value) <= width:
        line.append(f"   {title} ", TITLE).append(value)


def entry(title: str, text: str, width: int, style: str = NAME) -> Iterator[Text]:
    """A title and a text beside it, on as many lines as it needs."""
    left = 17 if len(title) < 16 else len(title) + 2
    for number, line in enumerate(textwrap.wrap(text, max(width - left - 1, 10)) or [""]):
        yield row_of((("" if number else title).ljust(left), style), line)


def wrapped(text: str, width: int) -> Iterator[Text]:
    """A line on as many lines as it needs, each as far to the right as the first, and a little further."""
    indent = " " * (len(text) - len(text.lstrip()))
    lines = textwrap.wrap(text.strip(), max(width - 2, 10), initial_indent=indent, subsequent_indent=f"{indent}  ")
    for line in lines or [""]:
        yield row_of(line)

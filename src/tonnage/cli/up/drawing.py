"""Pieces of the live view: colours, bars, and words about pods and cards that fit a cell."""

import re

from rich.text import Text

from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import PERCENTAGE_UNSET

RISING = " ▁▂▃▄▅▆▇█"
GROWING = " ▏▎▍▌▋▊▉█"
NAME, TITLE, QUIET, ALERT, CHOSEN = "bold", "bold cyan", "bright_black", "yellow", "reverse"
_SHADES = ((0.35, "bright_blue"), (0.95, "cyan"))
_FULL = "green"
_TYPE_PREFIX = re.compile(r"^NVIDIA[- ]*(Tesla[- ]*)?")


def asks(task: Task) -> str:
    """What a pod wants, in a few words."""
    wants = []
    for demand in task.demands:
        for request in demand.requests:
            parts = [f"{request.count} GPU"]
            if request.percentage == PERCENTAGE_UNSET or request.memory:
                parts.append(f"{request.memory / 1024:.3g}G")
            elif request.percentage != 100:
                parts.append(f"{request.percentage}%")
            if request.cores and request.cores != request.percentage:
                parts.append(f"{request.cores}% cores")
            wants.append(" ".join(parts))
    if not wants:
        needs = dict(task.requests)
        wants = [f"{needs.get('cpu', 0) / 1000:g} CPU"]
    kinds = [value for name, value in task.constraints if name.endswith("use-gputype")]
    return " + ".join(wants) + (f" of {kinds[0]}" if kinds else "")


def card_type(state: NodeState) -> str:
    """The kind of card that a node has, without its maker's name."""
    return _TYPE_PREFIX.sub("", state.devices[0].type) if state.devices else "no cards"


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

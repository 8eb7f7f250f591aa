"""The live view of a replay: nodes with a bar per GPU, the queue with its reasons, and the figures.

`render` is a function of the replay, the size of the screen and what keys chose; it makes lines that fit.
"""

import math
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tonnage.cli.up.controls import KEYS, Controls, Overlay
from tonnage.cli.up.drawing import NAME, QUIET, RISING, TITLE, bar, row_of
from tonnage.cli.up.durations import clock
from tonnage.cli.up.nodelines import node_lines
from tonnage.cli.up.pages import details_page, help_page
from tonnage.cli.up.queuelines import queue_lines
from tonnage.model.duration import format_seconds
from tonnage.overview.usage import measure
from tonnage.plugins.fragmentation.usablecards import FreeCards
from tonnage.simulator.replay import SAMPLE_EVERY, Replay

_QUEUE_LEAST = 4
_LEAST_WITH_LEGEND = 12
_IDLE = Controls()


@dataclass(frozen=True, slots=True)
class Caption:
    """What the view says about the run beside what the replay knows."""

    duration: float
    speed: float
    """Virtual seconds per second; 0 without limit."""
    policy: str
    seed: int
    rate: float
    """Decisions per second of wall-clock time."""
    pace: float
    """Virtual seconds per second as they really passed."""
    cards: FreeCards
    each: float = 0.0
    """Microseconds of work per decision."""
    is_paused: bool = False


def render(replay: Replay, caption: Caption, width: int, height: int, controls: Controls = _IDLE) -> Group:
    """The whole screen, at most that wide and high."""
    replay.cluster.settle()
    gap = [Text()] if height >= 22 else []
    legend = [_legend(controls, width)] if controls.has_keys and height >= _LEAST_WITH_LEGEND else []
    header = _header(replay, caption, width)
    if controls.page is Overlay.NONE:
        top = [header, *gap, *_figures(replay, caption, width, controls), *gap]
        room = height - len(top) - len(gap) - len(legend)
        # The queue's share of the screen does not depend on its length, or nodes would change places as it grows.
        nodes = node_lines(replay, width, room - max(room // 4, min(_QUEUE_LEAST, room // 2)))
        lines = [*top, *nodes, *gap, *queue_lines(replay, width, room - len(nodes), controls)]
    elif controls.page is Overlay.HELP:
        lines = [header, Text(), *help_page(width)]
    else:
        lines = [header, Text(), *details_page(replay, controls.chosen, width)]
    most = max(height - len(legend), 1)
    lines = lines[:most]
    if legend:
        lines += [Text() for _ in range(most - len(lines))] + legend
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


# -- the legend


def _legend(controls: Controls, width: int) -> Text:
    """The keys, as many as there is room for; while a filter is typed, that."""
    if controls.is_typing:
        return row_of(("/", TITLE), controls.filter, ("▏", NAME), ("  enter keeps it, esc clears it", QUIET))
    line = row_of()
    for key, word, _ in (KEYS[-1], *KEYS[:-1]):
        if len(line) + len(key) + len(word) + 3 <= width:
            line.append(f"{key} ", NAME).append(f"{word}  ", QUIET)
    return line


# -- the top


def _header(replay: Replay, caption: Caption, width: int) -> Text:
    share = min(replay.now / caption.duration, 1.0)
    left = row_of(
        ("Tonnage", TITLE), "  ", (clock(replay.now), NAME), (f" of {format_seconds(caption.duration)}  ", QUIET)
    )
    if width >= 100:
        left.append_text(bar(share, 12, share > 0)).append("  ")
    left.append(caption.policy, NAME)
    if width >= 120:
        left.append(f"  seed {caption.seed}", QUIET)
    right = next((text for text in _rates(caption) if len(left) + len(text) + 2 <= width), "")
    return left.append(" " * max(width - len(left) - len(right) - 1, 1)).append(right, NAME)


def _rates(caption: Caption) -> tuple[str, ...]:
    """How fast the demo goes, and what a decision costs the engine; in ever fewer words."""
    behind = caption.pace < 0.8 * caption.speed or not caption.speed
    pace = caption.pace if behind and not caption.is_paused else caption.speed
    times = f"{pace:,.0f}×" if pace >= 10 else f"{pace:.2g}×"
    cost = f"{caption.each:,.0f} µs each"
    if caption.is_paused:
        return f"paused at {times} real time, {cost}", f"paused at {times}", "paused"
    decided = f"{caption.rate:,.0f} pods/s"
    return (
        f"{decided} decided at {times} real time, {cost}",
        f"{decided} at {times}, {cost}",
        f"{decided} at {times}",
        times,
    )


def _figures(replay: Replay, caption: Caption, width: int, controls: Controls) -> list[Text]:
    usage = measure(replay.cluster)
    memory = row_of(("GPU memory  ", TITLE), (f"{usage.memory:6.1f}%  ", NAME))
    memory.append_text(_course(replay, caption, max(min(width - len(memory) - 14, 64), 10)))
    cards = row_of(("GPU cores   ", TITLE), (f"{usage.cores:6.1f}%", NAME))
    _append(cards, width, "fragmentation", f"{caption.cards.fragmentation:.1f}%")
    _append(cards, width, "GPUs", f"{usage.full:,} full, {usage.partial:,} partly, {usage.idle:,} idle")
    _append(cards, width, "free nodes", f"{usage.free_nodes:,}")
    _append(cards, width, "free GPUs", f"{caption.cards.free:,.1f}, {caption.cards.usable:,.1f} usable")
    pods = row_of(("pods        ", TITLE), (f"{replay.running:6,} running", NAME))
    pods.append(f", {len(replay.waiting):,} waiting, {replay.finished:,} finished, {replay.arrived:,} arrived")
    hint = "Ctrl-C ends "
    if not controls.has_keys and len(pods) + len(hint) < width:
        pods.append(" " * (width - len(pods) - len(hint))).append(hint, QUIET)
    return [memory, cards, pods]


def _append(line: Text, width: int, title: str, value: str) -> None:
    """Add a figure to a line if there is room for it."""
    if len(line) + 4 + len(title) + len(value) <= width:
        line.append(f"   {title} ", TITLE).append(value)


def _course(replay: Replay, caption: Caption, width: int) -> Text:
    """The memory given out since the start, or over the last day, on a scale that stays as it is."""
    values = [sample.memory for sample in replay.samples]
    window = math.ceil(min(caption.duration / SAMPLE_EVERY, replay.samples.maxlen or math.inf))
    each = math.ceil(window / width)
    columns = [values[start : start + each] for start in range(0, len(values), each)]
    levels = (sum(column) / len(column) / 100 for column in columns)
    graph = "".join(RISING[min(max(int(level * 8 + 0.5), 1), 8)] for level in levels)
    line = Text(graph, "cyan").append("·" * (-(-window // each) - len(graph)), QUIET)
    over = "over" if window * SAMPLE_EVERY >= caption.duration else "last"
    return line.append(f"  {over} {format_seconds(min(window * SAMPLE_EVERY, caption.duration))}", QUIET)

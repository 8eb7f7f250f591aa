"""The live view of a replay: nodes with a bar per GPU, the queue with its reasons, and the figures.

`render` is a function of the replay and the size of the screen alone; it makes lines that fit, so nothing wraps.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import PERCENTAGE_UNSET
from tonnage.model.duration import format_seconds as span
from tonnage.plugins.fragmentation.usablecards import FreeCards
from tonnage.simulator.measure import measure, percent
from tonnage.simulator.replay import SAMPLE_EVERY, Replay

RISING = " ▁▂▃▄▅▆▇█"
GROWING = " ▏▎▍▌▋▊▉█"
_WIDEST_BAR = 10
_QUEUE_LEAST = 4
_NAME, _TITLE, _QUIET, _ALERT = "bold", "bold cyan", "bright_black", "yellow"
_SHADES = ((0.35, "bright_blue"), (0.95, "cyan"))
_FULL = "green"
_TYPE_PREFIX = re.compile(r"^NVIDIA[- ]*(Tesla[- ]*)?")


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


def render(replay: Replay, caption: Caption, width: int, height: int) -> Group:
    """The whole screen, at most that wide and high."""
    replay.cluster.settle()
    gap = [Text()] if height >= 22 else []
    top = [_header(replay, caption, width), *gap, *_figures(replay, caption, width), *gap]
    room = height - len(top) - len(gap)
    # The queue's share of the screen does not depend on its length, or nodes would change places as it grows.
    nodes = _nodes(replay, width, room - max(room // 4, min(_QUEUE_LEAST, room // 2)))
    lines = [*top, *nodes, *gap, *_queue(replay, width, room - len(nodes))][: max(height, 1)]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


# -- words


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, with days in front if there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}d " if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"


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
        return Text("·" * width, _QUIET)
    share = min(max(share, 0.0), 1.0)
    eighths = max(int(share * 8 * width + 0.5), 1)
    if width == 1:
        return Text(RISING[eighths], shade(share))
    whole, rest = divmod(eighths, 8)
    filled = GROWING[8] * whole + (GROWING[rest] if rest else "")
    return Text(filled, shade(share)).append("·" * (width - len(filled)), _QUIET)


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _row(*parts: str | Text | tuple[str, str]) -> Text:
    return Text.assemble(" ", *parts)


# -- the top


def _header(replay: Replay, caption: Caption, width: int) -> Text:
    share = min(replay.now / caption.duration, 1.0)
    left = _row(("Tonnage", _TITLE), "  ", (clock(replay.now), _NAME), (f" of {span(caption.duration)}  ", _QUIET))
    if width >= 100:
        left.append_text(bar(share, 16, share > 0)).append("  ")
    behind = caption.pace < 0.8 * caption.speed or not caption.speed
    pace = caption.pace if behind else caption.speed
    left.append(f"{pace:,.0f}× real time  " if pace >= 10 else f"{pace:.2g}× real time  ").append(caption.policy, _NAME)
    if width >= 100:
        left.append(f"  seed {caption.seed}", _QUIET)
    right = f"{caption.rate:,.0f} decisions/s "
    return left.append(" " * max(width - len(left) - len(right), 1)).append(right, _NAME)


def _figures(replay: Replay, caption: Caption, width: int) -> list[Text]:
    usage = measure(replay.cluster)
    memory = _row(("GPU memory  ", _TITLE), (f"{usage.memory:6.1f}%  ", _NAME))
    memory.append_text(_course(replay, caption, max(min(width - len(memory) - 14, 64), 10)))
    cards = _row(("GPU cores   ", _TITLE), (f"{usage.cores:6.1f}%", _NAME))
    _append(cards, width, "fragmentation", f"{caption.cards.fragmentation:.1f}%")
    _append(cards, width, "GPUs", f"{usage.full:,} full, {usage.partial:,} partly, {usage.idle:,} idle")
    _append(cards, width, "free nodes", f"{usage.free_nodes:,}")
    _append(cards, width, "free GPUs", f"{caption.cards.free:,.1f}, {caption.cards.usable:,.1f} usable")
    pods = _row(("pods        ", _TITLE), (f"{replay.running:6,} running", _NAME))
    pods.append(f", {len(replay.waiting):,} waiting, {replay.finished:,} finished, {replay.arrived:,} arrived")
    hint = "Ctrl-C ends "
    if len(pods) + len(hint) < width:
        pods.append(" " * (width - len(pods) - len(hint))).append(hint, _QUIET)
    return [memory, cards, pods]


def _append(line: Text, width: int, title: str, value: str) -> None:
    """Add a figure to a line if there is room for it."""
    if len(line) + 4 + len(title) + len(value) <= width:
        line.append(f"   {title} ", _TITLE).append(value)


def _course(replay: Replay, caption: Caption, width: int) -> Text:
    """The memory given out since the start, or over the last day, on a scale that stays as it is."""
    values = [sample.memory for sample in replay.samples]
    window = math.ceil(min(caption.duration / SAMPLE_EVERY, replay.samples.maxlen or math.inf))
    each = math.ceil(window / width)
    columns = [values[start : start + each] for start in range(0, len(values), each)]
    levels = (sum(column) / len(column) / 100 for column in columns)
    graph = "".join(RISING[min(max(int(level * 8 + 0.5), 1), 8)] for level in levels)
    line = Text(graph, "cyan").append("·" * (-(-window // each) - len(graph)), _QUIET)
    over = "over" if window * SAMPLE_EVERY >= caption.duration else "last"
    return line.append(f"  {over} {span(min(window * SAMPLE_EVERY, caption.duration))}", _QUIET)


# -- nodes


@dataclass(slots=True)
class _NodeFigures:
    """What one line about a node shows."""

    state: NodeState
    cards: list[tuple[float, bool]]
    """Per card the share of its memory that is given out, and whether it is in use at all."""
    memory: float
    cores: float


def _node(replay: Replay, row: int) -> _NodeFigures:
    columns, state = replay.cluster.columns, replay.cluster.states[row]
    count = len(state.devices)
    total = columns.card_total[:, :count, row].tolist()
    free = columns.card_free[:, :count, row].tolist()
    cards = [
        (1 - free_memory / memory if memory else 0.0, free_slots < slots)
        for slots, free_slots, memory, free_memory in zip(
            total[SLOTS], free[SLOTS], total[MEMORY], free[MEMORY], strict=True
        )
    ]
    used = [percent(sum(total[kind]) - sum(free[kind]), sum(total[kind])) for kind in (MEMORY, CORES)]
    return _NodeFigures(state, cards, *used)


def _nodes(replay: Replay, width: int, room: int) -> list[Text]:
    """A line per node if that fits, else several nodes per line, else a line per pool and some of the nodes."""
    count = replay.cluster.columns.size
    if room < 2:
        return []
    if count + 1 <= room:
        return _node_lines(replay, width)
    name = max(len(state.name) for state in replay.cluster.states)
    across = max((width - 1) // (name + replay.cluster.columns.width + 8), 1)
    if -(-count // across) + 1 <= room:
        return [_nodes_title(count), *_node_grid(replay, range(count), across, name)]
    pools = _pool_lines(replay, width)
    room -= len(pools) + 2
    if room < 1:
        return [_nodes_title(count), *pools]
    shown = min(room * across, count)
    rows = [number * count // shown for number in range(shown)]
    return [
        _nodes_title(count),
        *pools,
        *_node_grid(replay, rows, across, name),
        _row((f"… and {count - shown:,} more nodes", _QUIET)),
    ]


def _nodes_title(count: int) -> Text:
    return _row((f"{count:,} nodes", _TITLE), ("  a bar per GPU: memory given out", _QUIET))


def _node_lines(replay: Replay, width: int) -> list[Text]:
    nodes = [_node(replay, row) for row in range(replay.cluster.columns.size)]
    if not nodes:
        return [_nodes_title(0)]
    name = max(len("node"), *(len(node.state.name) for node in nodes))
    kind = max(len("cards"), *(len(card_type(node.state)) for node in nodes))
    cards = max(replay.cluster.columns.width, 1)
    fixed = 1 + name + 2 + kind + 2 + 2 + len("memory  cores  pods")
    bars = min(max((width - fixed - cards) // cards, 1), _WIDEST_BAR)
    gap = " " if bars > 1 else ""
    track = cards * (bars + len(gap))
    title = _fit("a bar per GPU: memory given out" if track >= 34 else "GPUs", track)
    lines = [
        _row(("node".ljust(name), _TITLE), "  ", ("cards".ljust(kind), _TITLE), "  ", (title, _TITLE)).append(
            " memory  cores  pods", _TITLE
        )
    ]
    for node in nodes:
        line = _row((node.state.name.ljust(name), _NAME), "  ", (card_type(node.state).ljust(kind), _QUIET), "  ")
        for share, used in node.cards:
            line.append_text(bar(share, bars, used)).append(gap)
        line.append(" " * (track - len(node.cards) * (bars + len(gap))))
        line.append(f" {node.memory:5.0f}%", shade(node.memory / 100) if node.memory else _QUIET)
        line.append(f" {node.cores:5.0f}%  {len(node.state.holdings):4d}", _QUIET)
        lines.append(line)
    return lines


def _node_grid(replay: Replay, rows: Sequence[int], across: int, name: int) -> list[Text]:
    """Nodes side by side, in the order of names from top to bottom."""
    deep = -(-len(rows) // across)
    lines = []
    for depth in range(deep):
        line = _row()
        for row in rows[depth::deep]:
            node = _node(replay, row)
            line.append(node.state.name.ljust(name), _NAME).append(" ")
            for share, used in node.cards:
                line.append_text(bar(share, 1, used))
            line.append(" " * (replay.cluster.columns.width - len(node.cards)))
            line.append(f" {node.memory:3.0f}%  ", _QUIET)
        lines.append(line)
    return lines


def _pool_lines(replay: Replay, width: int) -> list[Text]:
    """A line per kind of card: how many there are and how full they are together."""
    columns = replay.cluster.columns
    pools: dict[str, list[int]] = {}
    for row, state in enumerate(replay.cluster.states):
        pools.setdefault(card_type(state), []).append(row)
    long = max(len(kind) for kind in pools)
    lines = []
    for kind, rows in pools.items():
        total = columns.card_total[:, :, rows]
        free = columns.card_free[:, :, rows]
        exists = total[SLOTS] > 0
        idle = int((exists & (free[SLOTS] == total[SLOTS])).sum())
        memory = percent(float((total[MEMORY] - free[MEMORY]).sum()), float(total[MEMORY].sum()))
        line = _row((kind.ljust(long), _NAME), "  ").append_text(
            bar(memory / 100, max(min(width - 64, 40), 8), memory > 0)
        )
        line.append(f" {memory:5.1f}%", _NAME)
        line.append(f"  {len(rows):5,} nodes  {int(exists.sum()):6,} GPUs  {idle:6,} idle", _QUIET)
        lines.append(line)
    return lines


# -- the queue


def _queue(replay: Replay, width: int, room: int) -> list[Text]:
    count = len(replay.waiting)
    if room < 1:
        return []
    if not count:
        return [_row(("nothing waits", _TITLE), ("  every pod that arrived was placed", _QUIET))]
    shown = replay.queue(room - 1 if count <= room - 1 else max(room - 2, 0))
    names = [pod.task.key if width >= 100 else pod.task.pod.metadata.name for pod in shown]
    wishes = [asks(pod.task) for pod in shown]
    title = f"{count:,} waiting"
    name = min(max(map(len, (title, *names))), 30)
    wants = min(max(map(len, ("wants", *wishes))), 26 if width >= 100 else 16)
    lines = [
        _row((title.ljust(name), _TITLE), "  ", ("wants".ljust(wants), _TITLE)).append(
            "   since  why: nodes that said no, by reason", _TITLE
        )
    ]
    for pod, pod_name, wish in zip(shown, names, wishes, strict=True):
        why = replay.why(pod.task)
        reason = why.partition(" nodes fit: ")[2] or why
        line = _row((_fit(pod_name, name), _NAME), "  ", _fit(wish, wants), "  ")
        line.append(f"{span(replay.now - pod.since):>6}  ", _ALERT).append(reason)
        lines.append(line)
    if len(shown) < count and room > 1:
        lines.append(_row((f"… and {count - len(shown):,} more", _QUIET)))
    return lines

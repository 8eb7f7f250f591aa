"""The lines about nodes: one per node, or several per line, or one per pool, as the screen has room."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from tonnage.cli.terminal.drawing import NAME, QUIET, TITLE, bar, card_type, fit, row_of, shade
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.cluster.nodestate import NodeState
from tonnage.overview.usage import percent

_WIDEST_BAR = 10


@dataclass(slots=True)
class _NodeFigures:
    """What one line about a node shows."""

    state: NodeState
    cards: list[tuple[float, bool]]
    """Per card the share of its memory that is given out, and whether it is in use at all."""
    memory: float
    cores: float


def _node(cluster: Cluster, row: int) -> _NodeFigures:
    columns, state = cluster.columns, cluster.states[row]
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


def node_lines(cluster: Cluster, width: int, room: int) -> list[Text]:
    """A line per node if that fits, else several nodes per line, else a line per pool and some of the nodes."""
    count = cluster.columns.size
    if room < 2:
        return []
    if count + 1 <= room:
        return _line_per_node(cluster, width)
    name = max(len(state.name) for state in cluster.states)
    across = max((width - 1) // (name + cluster.columns.width + 8), 1)
    if -(-count // across) + 1 <= room:
        return [_nodes_title(count), *_node_grid(cluster, range(count), across, name)]
    pools = _pool_lines(cluster, width)
    room -= len(pools) + 2
    if room < 1:
        return [_nodes_title(count), *pools]
    shown = min(room * across, count)
    rows = [number * count // shown for number in range(shown)]
    return [
        _nodes_title(count),
        *pools,
        *_node_grid(cluster, rows, across, name),
        row_of((f"… and {count - shown:,} more nodes", QUIET)),
    ]


def _nodes_title(count: int) -> Text:
    return row_of((f"{count:,} nodes", TITLE), ("  a bar per GPU: memory given out", QUIET))


def _line_per_node(cluster: Cluster, width: int) -> list[Text]:
    nodes = [_node(cluster, row) for row in range(cluster.columns.size)]
    if not nodes:
        return [_nodes_title(0)]
    name = max(len("node"), *(len(node.state.name) for node in nodes))
    kind = max(len("cards"), *(len(card_type(node.state)) for node in nodes))
    cards = max(cluster.columns.width, 1)
    fixed = 1 + name + 2 + kind + 2 + 2 + len("memory  cores  pods")
    bars = min(max((width - fixed - cards) // cards, 1), _WIDEST_BAR)
    gap = " " if bars > 1 else ""
    track = cards * (bars + len(gap))
    title = fit(_title(track), track)
    lines = [
        row_of(("node".ljust(name), TITLE), "  ", ("cards".ljust(kind), TITLE), "  ", (title, TITLE)).append(
            " memory  cores  pods", TITLE
        )
    ]
    for node in nodes:
        line = row_of((node.state.name.ljust(name), NAME), "  ", (card_type(node.state).ljust(kind), QUIET), "  ")
        for share, used in node.cards:
            line.append_text(bar(share, bars, used)).append(gap)
        line.append(" " * (track - len(node.cards) * (bars + len(gap))))
        line.append(f" {node.memory:5.0f}%", shade(node.memory / 100) if node.memory else QUIET)
        line.append(f" {node.cores:5.0f}%  {len(node.state.holdings):4d}", QUIET)
        lines.append(line)
    return lines


def _node_grid(cluster: Cluster, rows: Sequence[int], across: int, name: int) -> list[Text]:
    """Nodes side by side, in the order of names from top to bottom."""
    deep = -(-len(rows) // across)
    lines = []
    for depth in range(deep):
        line = row_of()
        for row in rows[depth::deep]:
            node = _node(cluster, row)
            line.append(node.state.name.ljust(name), NAME).append(" ")
            for share, used in node.cards:
                line.append_text(bar(share, 1, used))
            line.append(" " * (cluster.columns.width - len(node.cards)))
            line.append(f" {node.memory:3.0f}%  ", QUIET)
        lines.append(line)
    return lines


def _pool_lines(cluster: Cluster, width: int) -> list[Text]:
    """A line per kind of card: how many there are and how full they are together."""
    columns = cluster.columns
    pools: dict[str, list[int]] = {}
    for row, state in enumerate(cluster.states):
        pools.setdefault(card_type(state), []).append(row)
    long = max(len(kind) for kind in pools)
    lines = []
    for kind, rows in pools.items():
        total = columns.card_total[:, :, rows]
        free = columns.card_free[:, :, rows]
        exists = total[SLOTS] > 0
        idle = int((exists & (free[SLOTS] == total[SLOTS])).sum())
        memory = percent(float((total[MEMORY] - free[MEMORY]).sum()), float(total[MEMORY].sum()))
        line = row_of((kind.ljust(long), NAME), "  ").append_text(
            bar(memory / 100, max(min(width - 64, 40), 8), memory > 0)
        )
        line.append(f" {memory:5.1f}%", NAME)
        line.append(f"  {len(rows):5,} nodes  {int(exists.sum()):6,} GPUs  {idle:6,} idle", QUIET)
        lines.append(line)
    return lines


def _title(width: int) -> str:
    """What bars mean, in as many words as there is room for."""
    titles = ("a bar per GPU: memory given out (· none, █ all)", "a bar per GPU: memory given out", "GPUs")
    return next((title for title in titles if len(title) + 3 <= width), titles[-1])

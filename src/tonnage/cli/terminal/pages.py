"""Pages over the view: all about one pod, node, GPU or queue, problems, and what keys and figures mean."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from tonnage.cli.terminal.controls import HELP, KEYS, Controls, Overlay
from tonnage.cli.terminal.drawing import ALERT, QUIET, TITLE, entry, row_of, wrapped
from tonnage.cli.terminal.source import TerminalSource, why
from tonnage.cli.terminal.tabs import Tab, content
from tonnage.cli.terminal.viewtables import CardItem, card_state
from tonnage.cluster.task import asked
from tonnage.framework.decision import RejectedNodes
from tonnage.model.duration import format_seconds
from tonnage.overview.noderows import CardRow, NodeRow
from tonnage.overview.podwants import asks
from tonnage.overview.queuerows import QueueRow
from tonnage.overview.usage import percent

_FIGURES = (
    ("a bar per GPU", "how much of its memory is given out: · nothing, █ all of it"),
    ("usable", "free GPUs that a typical pod could use as they are"),
    ("stranded", "GPUs that only look free: no typical pod can use what is left of them, for the reason beside them"),
)


def page(source: TerminalSource, controls: Controls, width: int) -> list[Text]:
    """The page that was asked for."""
    if controls.page is Overlay.HELP:
        return _help(source, width)
    if controls.page is Overlay.PROBLEMS:
        return _problems(source, width)
    lines = [row_of((controls.chosen, TITLE)), Text()]
    if controls.tab in (Tab.CLUSTER, Tab.PODS):
        lines += _pod(source, controls.chosen, width)
    else:
        table, items = content(controls.tab, source)
        item = next((one for one in items if table.key(one) == controls.chosen), None)
        lines += [row_of("It is gone.")] if item is None else _about(item, width)
    return [*lines, Text(), row_of(("esc goes back; ↑ and ↓ show others", QUIET))]


def _help(source: TerminalSource, width: int) -> list[Text]:
    """What every key does, and what the figures mean."""
    lines = [row_of(("Keys", TITLE)), Text()]
    for key, _, meaning in (*source.keys, *KEYS, HELP):
        lines += entry(key, meaning, width)
    lines += [Text(), row_of(("Figures", TITLE)), Text()]
    for name, meaning in (*source.figures, *_FIGURES):
        lines += entry(name, meaning, width)
    return [*lines, Text(), row_of(("esc or ? goes back", QUIET))]


def _problems(source: TerminalSource, width: int) -> list[Text]:
    found = [*source.problems()]
    lines = [row_of((f"{len(found):,} problems" if found else "no problems", TITLE)), Text()]
    for problem in found:
        lines += entry(problem.object, str(problem).removeprefix(f"{problem.object}: "), width, ALERT)
    return [*lines, Text(), row_of(("esc or p goes back", QUIET))]


# -- a pod


def _pod(source: TerminalSource, key: str, width: int) -> list[Text]:
    """All that is known about a pod; reasons are never cut off."""
    if told := source.explanation(key):
        return [line for text in told for line in wrapped(text, width)]
    pod = next((one for one in source.waiting() if one.task.key == key), None)
    if pod is None:
        return list(entry("", source.gone(key), width))
    task, lines = pod.task, list[Text]()
    lines += entry("wants", asks(task), width)
    lines += entry("requests", asked(task.requests), width)
    lines += entry("priority", str(task.priority), width)
    lines += entry("waits", format_seconds(source.now - pod.since), width)
    for name, value in (*source.more(key), *task.constraints):
        lines += entry(name, value, width)
    lines += [Text(), row_of(("why it waits", TITLE)), Text()]
    decision = source.decision(task)
    if decision is None or not decision.rejected:
        return [*lines, *entry("", why(source, task), width)]
    for one in sorted(decision.rejected, key=lambda rejected: (-rejected.count, rejected.reason)):
        nodes = f"{one.count:,} node{'' if one.count == 1 else 's'}"
        lines += entry(nodes, f"{one.reason}: {_message(one)}", width, ALERT)
    return lines


def _message(rejected: RejectedNodes) -> str:
    try:
        return rejected.message
    except LookupError:
        # It is worked out when it is read, and its node may be gone since.
        return f"{rejected.example} is gone"


# -- a node, a GPU, a queue


def _about(item: NodeRow | CardItem | QueueRow, width: int) -> Iterable[Text]:
    if isinstance(item, NodeRow):
        return _node(item, width)
    return _card(item.card, width) if isinstance(item, CardItem) else _queue(item, width)


def _node(row: NodeRow, width: int) -> Iterator[Text]:
    if row.trouble:
        yield from entry("takes no pods", row.trouble, width, ALERT)
    yield from entry("pods", f"{row.pods:,}", width)
    yield from entry("CPU", f"{row.cpu_free / 1000:g} of {row.cpu / 1000:g} free", width)
    yield from entry("memory", f"{row.ram_free / 2**30:.1f} of {row.ram / 2**30:.1f} GiB free", width)
    if row.unnamed:
        yield from entry("unnamed", f"{row.unnamed:,} GPUs are held by pods that do not say which", width, ALERT)
    for card in row.cards:
        yield Text()
        yield row_of((f"GPU {card.index}", TITLE), (f"  {card.uuid}", QUIET))
        yield from _card(card, width)


def _card(card: CardRow, width: int) -> Iterator[Text]:
    yield from entry("model", card.model, width)
    known = "" if card.memory_known else " (assumed)"
    yield from entry("memory", f"{card.memory_used:,} of {card.memory:,} MiB allocated{known}", width)
    yield from entry("cores", f"{percent(card.cores_used, card.cores):.0f}% allocated", width)
    yield from entry("slots", f"{card.slots_used} of {card.slots} used", width)
    if state := card_state(card):
        yield from entry("state", state, width, ALERT)
    for holder in card.holders:
        queue = f", queue {holder.queue}" if holder.queue else ""
        yield from entry("held by", f"{holder.pod}: {holder.memory:,} MiB, {holder.cores}% cores{queue}", width)


def _queue(row: QueueRow, width: int) -> Iterator[Text]:
    if row.parent:
        yield from entry("below", row.parent, width)
    yield from entry("pods on GPUs", f"{row.running:,}, which hold {row.cards:.1f} GPUs", width)
    yield from entry("waiting", f"{row.waiting:,} pods, which want {row.waiting_cards:,} GPUs", width)
    if not row.resources:
        yield from entry("shares", "no plugin of the configuration gives queues shares", width)
    for part in row.resources:
        unit, by = (" GiB", 2**30) if part.name == "memory" else ("", 1)
        amounts = (("deserved", part.deserved), ("fair share", part.fair_share), ("allocated", part.allocated))
        told = [f"{name} {'unlimited' if one is None else f'{one / by:,.6g}{unit}'}" for name, one in amounts]
        told += [f"borrowed {part.borrowed / by:,.6g}{unit}"] if part.borrowed else []
        told += [f"wants {part.waiting / by:,.6g}{unit} more"] if part.waiting else []
        yield from entry(part.name, ", ".join(told), width)

"""A cluster printed once: lines for pipes and screen readers, and a document for machines."""

from typing import TYPE_CHECKING

from tonnage.cli.tables import printable
from tonnage.cli.terminal.itemtable import plain_lines
from tonnage.cli.terminal.source import why
from tonnage.cli.terminal.tabs import Tab, content
from tonnage.model.duration import format_seconds
from tonnage.model.timestamp import rfc3339
from tonnage.overview.podwants import asks

if TYPE_CHECKING:
    from tonnage.cli.top.livesource import LiveSource
    from tonnage.live.view import ClusterView


def as_text(source: "LiveSource", view: "ClusterView", tab: Tab) -> str:
    """The figures of the cluster, then the items of a tab; all of them for the tab of the whole cluster."""
    totals = source.overview().totals
    figures = [
        ("cluster", view.place),
        ("decided by", f"{view.decided_by}{f' ({view.note})' if view.note else ''}"),
        ("GPU memory", f"{totals.memory_percent:.1f}% allocated"),
        ("GPU cores", f"{totals.cores_percent:.1f}% allocated"),
        (
            "GPUs",
            f"{totals.cards:,}: {totals.full:,} full, {totals.partial:,} partly used, {totals.idle:,} idle, "
            f"{totals.stranded:,} stranded, {totals.unhealthy:,} unhealthy",
        ),
        (
            "free GPUs",
            f"{totals.free:,.1f}, of which a typical pod can use {totals.usable:,.1f}; {totals.stranded_free:,.1f} are "
            "on stranded ones",
        ),
        ("pods", f"{totals.running:,} running, {totals.waiting:,} waiting"),
        ("problems", f"{len(source.problems()):,}"),
    ]
    lines = [f"{title:<13}{printable(text)}" for title, text in figures]
    for one in (Tab.NODES, Tab.QUEUES) if tab is Tab.CLUSTER else (tab,):
        table, items = content(one, source)
        lines += ["", *plain_lines(table, table.chosen_from(items, 0, ""))]
    if tab is Tab.CLUSTER:
        lines += _waiting(source)
    return "\n".join(lines)


def _waiting(source: "LiveSource") -> list[str]:
    table, items = content(Tab.CLUSTER, source)
    lines = [""] if items else ["", "Nothing waits."]
    for pod in table.chosen_from(items, 0, ""):
        since = f" since {format_seconds(source.now - pod.since)}" if pod.task.created else ""
        lines.append(printable(f"{pod.task.key} waits for {asks(pod.task)}{since}: {why(source, pod.task)}"))
    return lines


def as_data(source: "LiveSource", view: "ClusterView") -> dict[str, object]:
    """Everything that the view shows."""
    since = view.live.stale_since
    overview = source.overview()
    return {
        "cluster": view.place,
        "decided_by": view.decided_by,
        "note": view.note,
        "time": rfc3339(view.now()),
        "stale_since": None if since is None else rfc3339(since),
        "totals": overview.totals,
        "nodes": overview.nodes,
        "queues": overview.queues,
        "waiting": overview.waiting,
        "pods": source.pods(),
        "problems": source.problems(),
    }

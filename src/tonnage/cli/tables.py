"""Tables for people: plain text that fits a terminal and a pipe alike."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from tonnage.framework.cycle import CycleDocument
from tonnage.framework.decision import (
    DecisionOutcome,
    DecisionRecord,
    GrantedDevice,
    JobRecord,
    QueueRecord,
    Rejection,
    StaleGang,
    WaitRecord,
)
from tonnage.model.duration import format_seconds

_MANY = 4
"""So many pods that wait and are alike are shown in one line."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table whose columns are as wide as their widest cell."""
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    for line in (header, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def cycle_table(cycle: CycleDocument, *, wide: bool, nodes: int, kin: Mapping[str, Hashable]) -> str:
    """What a cycle decided, then why pods wait, then what is wrong with the cluster's objects.

    `kin` has what pods must share, beside their job and their reasons, in order to be shown in one line if many wait.
    """
    lines: list[str] = []
    placed = [decision for decision in cycle.decisions if decision.outcome == DecisionOutcome.PLACED]
    waiting = [decision for decision in cycle.decisions if decision.outcome != DecisionOutcome.PLACED]
    if cycle.decisions:
        header = ["POD", "OUTCOME", "NODE", "DEVICES"] + (["SCORE"] if wide else [])
        alike = _alike(waiting, kin)
        rows = [_row(one, alike.get(one.pod, 1), wide) for one in cycle.decisions if alike.get(one.pod, 1)]
        lines += table(header, rows)
        lines.append("")
    made = {job.name: job for job in cycle.jobs}
    for job in _by_job(waiting, kin):
        lines += _why_job(job, nodes)
        lines += [f"  {wait.action}: {wait.message}" for wait in _waits(made.get(job[0].job), job[0])]
    if cycle.evictions:
        header = ["EVICTED", "NODE", "FOR", "MOVES TO", "WHY"]
        rows = [[e.pod, e.node, e.for_, e.to or "-", e.reason] for e in cycle.evictions]
        _add_part(lines, table(header, rows))
    _add_part(lines, map(_stale, cycle.stale))
    queues = list(_queues(cycle.queues))
    _add_part(lines, queues)
    if wide:
        lines += [line for decision in placed for line in _wide(decision, nodes)]
    if waiting or cycle.evictions or cycle.stale or queues or (wide and placed):
        lines.append("")
    if cycle.problems:
        lines.append("Problems:")
        lines += [f"  {problem}" for problem in cycle.problems]
        lines.append("")
    lines.append(_summary(len(placed), len(waiting), nodes, len(cycle.problems)))
    return "\n".join(map(printable, lines)) + "\n"


def _add_part(lines: list[str], part: Iterable[str]) -> None:
    """Add lines, if there are any, with an empty one before them."""
    added = list(part)
    lines += [*([""] if added and lines and lines[-1] else []), *added]


def _stale(gang: StaleGang) -> str:
    grace = "for ever" if gang.grace is None else f"for {format_seconds(gang.grace)}"
    return f"{gang.message} since {gang.since}, and may {grace}"


def _queues(queues: Sequence[QueueRecord]) -> Iterator[str]:
    """What queues have; resources of which a queue neither holds nor may expect anything are left out."""
    header = ["QUEUE", "RESOURCE", "DESERVED", "FAIR SHARE", "ALLOCATED", "BORROWED"]
    rows = [
        [queue.name, resource, share.deserved, share.fair_share, share.allocated, share.borrowed]
        for queue in queues
        for resource, share in queue.resources.items()
        if {share.deserved, share.fair_share, share.allocated} - {"0", "unlimited"}
    ]
    if rows:
        yield from table(header, rows)


def _summary(placed: int, waiting: int, nodes: int, problems: int) -> str:
    if not placed and not waiting:
        text = f"No pod waits on {_count(nodes, 'node')}"
    else:
        text = f"{_count(placed, 'pod')} placed, {waiting} waiting, on {_count(nodes, 'node')}"
    return text + (f", {_count(problems, 'problem')}" if problems else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _alike(waiting: Sequence[DecisionRecord], kin: Mapping[str, Hashable]) -> dict[str, int]:
    """For each pod that waits, how many pods its line is about: one, many that are alike, or none if it has no line."""
    counts: dict[str, int] = {}
    for group in _groups(waiting, kin):
        if len(group) < _MANY:
            continue
        counts |= {decision.pod: 0 for decision in group}
        counts[group[0].pod] = len(group)
    return counts


def _groups(waiting: Sequence[DecisionRecord], kin: Mapping[str, Hashable]) -> list[list[DecisionRecord]]:
    """Pods of one job or owner that wait for the same reasons."""
    groups: dict[Hashable, list[DecisionRecord]] = {}
    for one in waiting:
        job = "" if one.job == one.pod else one.job
        why = tuple((r.reason, r.plugin, r.nodes, r.example, r.message) for r in one.rejected)
        namespace = one.pod.partition("/")[0]
        key = (namespace, job, one.queue, one.outcome, kin.get(one.pod), one.message, why)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _named(pods: Sequence[DecisionRecord]) -> str:
    return pods[0].pod + _and_more(len(pods))


def _and_more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _row(decision: DecisionRecord, count: int, wide: bool) -> list[str]:
    cells = [decision.pod + _and_more(count), decision.outcome, decision.node or "-", _devices(decision.devices, wide)]
    if wide:
        best = decision.scores.get(decision.node or "", {}).get("total")
        cells.append("-" if best is None else score_text(best))
    return cells


def score_text(score: float) -> str:
    """A score in four digits, or as many as stand before the point: plugins are kept apart by powers of ten."""
    return f"{score:.4g}" if abs(score) < 10_000 else f"{score:.2f}".removesuffix(".00")


def _devices(devices: Sequence[GrantedDevice], wide: bool) -> str:
    several = len({device.container for device in devices}) > 1
    parts = []
    for device in devices:
        uuid = device.uuid if wide or len(device.uuid) <= 16 else device.uuid[:12] + "…"
        owner = f"{device.container}: " if several else ""
        cores = f", {device.cores} %" if device.cores and device.share != 1 else ""
        parts.append(f"{owner}{uuid} ({device.amount}{cores})")
    return ", ".join(parts) or "-"


def _wide(decision: DecisionRecord, nodes: int) -> Iterator[str]:
    """Every score that was kept, and why other nodes were left out."""
    yield f"{decision.pod} on {decision.node}:"
    for name, parts in decision.scores.items():
        details = ", ".join(f"{plugin} {score_text(score)}" for plugin, score in parts.items() if plugin != "total")
        yield f"  {name} scores {score_text(parts['total'])}" + (f" ({details})" if details else "")
    for note in decision.notes:
        yield f"  {note}"
    for rejection in decision.rejected:
        yield _rejection(rejection, nodes)


def _by_job(decisions: Sequence[DecisionRecord], kin: Mapping[str, Hashable]) -> list[list[DecisionRecord]]:
    """Pods that wait together, in the order in which their jobs come; plain pods by themselves, or many alike."""
    plain = [decision for decision in decisions if decision.pod == decision.job]
    first = {one.pod: group[0].pod for group in _groups(plain, kin) if len(group) >= _MANY for one in group}
    jobs: dict[tuple[str, str], list[DecisionRecord]] = {}
    for decision in decisions:
        if decision.pod != decision.job:
            key = decision.job, ""
        else:
            key = "", first.get(decision.pod, decision.pod)
        jobs.setdefault(key, []).append(decision)
    return list(jobs.values())


def _why_job(job: Sequence[DecisionRecord], nodes: int) -> Iterator[str]:
    """Why the pods of a job wait, each reason once with the pods it is about."""
    first = job[0]
    if first.job == first.pod:
        yield f"{_named(job)} {'waits' if len(job) == 1 else 'wait'}:"
        yield from _why(first, nodes)
        return
    yield f"{first.job} in queue {first.queue} waits with {_count(len(job), 'pod')}:"
    reasons: dict[tuple[str, ...], list[str]] = {}
    for decision in job:
        reasons.setdefault(tuple(_why(decision, nodes)), []).append(decision.pod)
    for lines, pods in reasons.items():
        yield f"  {pods[0]}{_and_more(len(pods))}:"
        yield from (f"  {line}" for line in lines)


def _waits(job: JobRecord | None, decision: DecisionRecord) -> Iterator[WaitRecord]:
    """Why no room was made for a job, as far as the decision does not say it."""
    for wait in job.waits_for if job is not None else ():
        if wait.message not in decision.message:
            yield wait


def _why(decision: DecisionRecord, nodes: int) -> Iterator[str]:
    if decision.message:
        yield f"  {decision.message}"
        return
    for rejection in decision.rejected:
        yield _rejection(rejection, nodes)
    if not decision.rejected:
        yield "  there are no nodes"


def _rejection(rejection: Rejection, nodes: int) -> str:
    """Why some nodes were left out; a message that is about the pod itself names none of them."""
    about_a_node = rejection.message.startswith(f"{rejection.example}: ")
    joint = ", such as " if about_a_node else ": "
    return f"  {rejection.nodes} of {nodes} nodes {rejection.reason}{joint}{rejection.message}"


def printable(line: str) -> str:
    """A line without characters that would move the cursor or colour the terminal."""
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)

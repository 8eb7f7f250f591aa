"""A plan for defragmentation as text: what it gains and costs first, then each move, then who is affected."""

from collections.abc import Iterator

from tonnage.cli.tables import printable, table
from tonnage.model.duration import format_seconds
from tonnage.plan.defrag.record import DefragPlan, PlannedMove

_MOST_REFUSED = 5
_HOUR = 3600.0


def plan_text(plan: DefragPlan, note: str) -> str:
    """All lines of a plan."""
    parts = [
        list(_head(plan)),
        list(_figures(plan)),
        list(_moves(plan)),
        list(_starts(plan)),
        list(_affected(plan)),
        list(_notes(plan, note)),
    ]
    return "\n".join(printable(line) for part in parts if part for line in [*part, ""])


def _head(plan: DefragPlan) -> Iterator[str]:
    horizon = format_seconds(plan.horizon_hours * _HOUR)
    if not plan.moves and not plan.starts:
        yield f"No plan pays: no moves within the limits gain more over {horizon} than they cost."
    else:
        one = len(plan.moves) == 1
        yield (
            f"{_counted(len(plan.moves), 'move')} {'gains' if one else 'gain'} {plan.gain:,.2f} {plan.unit} and "
            f"{'loses' if one else 'lose'} {plan.gpu_hours_lost:,.1f} GPU-hours of work."
        )
        yield f"  worth {plan.value:,.1f} over {horizon}, at a price of {plan.price:,.1f}: {plan.net:,.1f} in all"
    if plan.target is not None and plan.gain < plan.target:
        yield f"  {plan.target:g} {plan.unit} were asked for; no plan for more of them was found"
    if plan.not_before is not None:
        yield f"  not to be carried out before {plan.not_before}; prices are those of that time"
    if plan.bound is None:
        yield "  how far from the best this is, is not known"
    elif plan.gap is not None and plan.gap <= 1e-6:
        yield f"  optimal, found by the {plan.found_by}"
    elif plan.gap is not None:
        yield (
            f"  no plan is worth more than {plan.bound:,.1f}, so that this one is at most {100 * plan.gap:.1f} % below "
            f"the best; found by the {plan.found_by}"
        )


def _figures(plan: DefragPlan) -> Iterator[str]:
    before, after = plan.before, plan.after
    rows = [
        [name, f"{one:,.2f}".removesuffix(".00"), f"{other:,.2f}".removesuffix(".00"), f"{other - one:+,.2f}"]
        for name, one, other in (
            ("free GPUs", before.gpus_free, after.gpus_free),
            ("usable by typical pods", before.gpus_usable, after.gpus_usable),
            ("whole GPUs free", before.gpus_whole, after.gpus_whole),
            ("nodes free", before.nodes_free, after.nodes_free),
        )
    ]
    yield from table([f"OF {before.gpus} GPUS, {before.nodes} NODES", "BEFORE", "AFTER", "CHANGE"], rows)


def _moves(plan: DefragPlan) -> Iterator[str]:
    if not plan.moves:
        return
    rows = [
        [
            str(move.step),
            move.pod,
            _place(move.node, move.devices),
            _place(move.to, move.to_devices),
            f"{move.gpus:.2f}".removesuffix(".00"),
            f"{move.gpu_hours_lost:.1f}",
            f"{move.price:.1f}",
            _remark(move),
        ]
        for move in plan.moves
    ]
    yield from table(["STEP", "POD", "FROM", "TO", "GPUS", "GPU-H LOST", "PRICE", "REMARK"], rows)


def _place(node: str, devices: list[str]) -> str:
    return node if not devices else f"{node} ({', '.join(one.removeprefix(node).lstrip('-/') for one in devices)})"


def _remark(move: PlannedMove) -> str:
    if move.detour:
        return "makes way, and moves again"
    return f"stops {_counted(len(move.stops), 'pod')} of its gang" if move.stops else "-"


def _starts(plan: DefragPlan) -> Iterator[str]:
    if plan.starts:
        rows = [
            [start.job, start.queue, f"{start.gpus:g}", ", ".join(sorted(set(start.pods.values())))]
            for start in plan.starts
        ]
        yield from table(["STARTS", "QUEUE", "GPUS", "ON"], rows)


def _affected(plan: DefragPlan) -> Iterator[str]:
    if plan.affected:
        rows = [
            [one.namespace, one.queue, str(one.pods), f"{one.gpu_hours:.1f}", f"{one.price:.1f}"]
            for one in plan.affected
        ]
        yield from table(["NAMESPACE", "QUEUE", "PODS MOVED", "GPU-H LOST", "PRICE"], rows)


def _notes(plan: DefragPlan, note: str) -> Iterator[str]:
    if plan.staying:
        told = ", ".join(f"{count} {why}" for why, count in sorted(plan.staying.items(), key=lambda one: -one[1]))
        yield f"Pods that are not moved: {told}"
    for limit in plan.limits_reached:
        yield f"Limit reached: {limit}"
    for one in plan.left_out[:_MOST_REFUSED]:
        yield f"Left out: {one.pod} to {one.to}: {one.why}"
    if len(plan.left_out) > _MOST_REFUSED:
        yield f"Left out: {len(plan.left_out) - _MOST_REFUSED} more moves"
    yield from plan.notes
    if note:
        yield note


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"

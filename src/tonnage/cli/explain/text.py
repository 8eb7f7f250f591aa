"""The text of an explanation for people: the answer first, then the numbers, then what would help."""

from collections.abc import Iterator, Sequence

from tonnage.cli.tables import printable, score_text, table
from tonnage.explain.record import (
    CardExplanation,
    ExplainedKind,
    Explanation,
    NearMiss,
    PodHolding,
    QueueExplanation,
    RelocatedPod,
    Suggestion,
)
from tonnage.model.duration import format_seconds

_MOST_SCORES = 5
_MOST_HOLDERS = 5


def explanation_text(found: Explanation) -> str:
    """All lines of an explanation; names with escape sequences are shown as text."""
    parts = [
        list(_head(found)),
        list(_gang(found)),
        list(_funnel(found)),
        list(_misses(found.misses, found.about)),
        list(_scores(found)),
        list(_cards(found.cards)) if found.kind == ExplainedKind.NODE else [],
        list(_holders(found)),
        list(_share(found.share)),
        list(_suggestions(found)),
        list(found.notes),
    ]
    return "\n".join(printable(line) for part in parts if part for line in [*part, ""])


def _head(found: Explanation) -> Iterator[str]:
    name = found.name if found.kind == ExplainedKind.POD else f"{found.kind} {found.name}"
    yield (
        f"{name} {found.sentence}"
        if found.kind in (ExplainedKind.POD, ExplainedKind.JOB)
        else f"{name}: {found.sentence}"
    )
    facts = []
    if found.kind in (ExplainedKind.POD, ExplainedKind.JOB):
        if found.job and found.job != found.name:
            facts.append(f"job {found.job}")
        facts.append(f"queue {found.queue}")
        if found.age is not None:
            facts.append(f"created {format_seconds(found.age)} ago")
        if found.ahead:
            waiting = "1 other waiting pod" if found.ahead == 1 else f"{found.ahead} other waiting pods"
            facts.append(
                f"{waiting} had their turn before it" if found.ahead > 1 else f"{waiting} had its turn before it"
            )
    if found.members:
        facts.append("pods: " + ", ".join(f"{count} {status}" for status, count in found.members.items()))
    facts += [f"{name} {text}" for name, text in found.resources.items()]
    if facts:
        yield f"  {', '.join(facts)}"


def _gang(found: Explanation) -> Iterator[str]:
    gang = found.gang
    if gang is None:
        return
    has = f"{gang.with_place} have a place, " if gang.with_place else ""
    within = f" within {gang.within}" if gang.within else ""
    yield f"Gang: starts with {gang.minimum} of {gang.pods} pods; {has}{gang.fit} more fit{within}."
    if gang.first:
        yield f"  The first that does not is {gang.first}: {gang.why}"


def _funnel(found: Explanation) -> Iterator[str]:
    if not found.funnel:
        return
    about = f" for {found.about}" if found.about else ""
    total = sum(step.nodes for step in found.funnel)
    yield f"Of {total} nodes{about}:"
    rows = [
        [f"-{step.nodes}", str(step.left), step.reason, _example(step.example, step.message)] for step in found.funnel
    ]
    yield from (f"  {line}" for line in table(["NODES", "LEFT", "RULE", "SUCH AS"], rows))


def _example(node: str, message: str) -> str:
    return message if message.startswith(f"{node}: ") else f"{node}: {message}"


def _misses(misses: Sequence[NearMiss], about: str) -> Iterator[str]:
    if not misses:
        return
    yield f"Nearest{f' for {about}' if about else ''}:"
    for miss in misses:
        yield f"  {miss.sentence}"
        yield from (f"    {_holder(one)}" for one in miss.holders[:_MOST_HOLDERS])
        if miss.held_by > len(miss.holders[:_MOST_HOLDERS]):
            yield f"    and {miss.held_by - len(miss.holders[:_MOST_HOLDERS])} more"


def _holder(one: PodHolding) -> str:
    facts = [one.holds]
    if one.owner:
        facts.append(f"of {one.owner}")
    if one.age is not None:
        facts.append(f"since {format_seconds(one.age)}")
    if one.leaving:
        facts.append("leaving")
    if one.placed_before:
        facts.append("waits as well, and has its turn before")
    return f"{one.pod}: {', '.join(facts)}"


def _scores(found: Explanation) -> Iterator[str]:
    if not found.scores:
        return
    plugins = [name for name in next(iter(found.scores.values())) if name != "total"]
    rows = [
        [
            node + (" *" if node == found.node else ""),
            score_text(parts["total"]),
            *(score_text(parts[one]) for one in plugins),
        ]
        for node, parts in list(found.scores.items())[:_MOST_SCORES]
    ]
    yield from table(["NODE", "SCORE", *(name.upper() for name in plugins)], rows)
    cost = found.fragmentation
    if cost is not None:
        yield f"Fragmentation: {cost.before:.2f} % without it, {cost.after:.2f} % with it."


def _cards(cards: Sequence[CardExplanation]) -> Iterator[str]:
    if not cards:
        return
    rows = [
        [
            one.uuid,
            one.type,
            "-" if one.memory is None else f"{one.free_memory:,} of {one.memory:,} MiB",
            f"{one.free_cores} of {one.cores} %",
            f"{one.free_slots} of {one.slots}",
            one.state or "-",
            ", ".join(holder.pod for holder in one.holders[:_MOST_HOLDERS]) or "-",
        ]
        for one in cards
    ]
    yield from table(["CARD", "TYPE", "FREE MEMORY", "FREE COMPUTE", "FREE SLOTS", "STATE", "PODS"], rows)


def _holders(found: Explanation) -> Iterator[str]:
    if not found.holders:
        return
    yield "Held by:"
    yield from (f"  {_holder(one)}" for one in found.holders)


def _share(share: QueueExplanation | None) -> Iterator[str]:
    if share is None or not share.resources:
        return
    rows = [
        [share.name, resource, one.deserved, one.fair_share, one.allocated, one.borrowed, share.lent.get(resource, "0")]
        for resource, one in share.resources.items()
        if {one.deserved, one.fair_share, one.allocated} - {"0", "unlimited"}
    ]
    if not rows:
        return
    yield from table(["QUEUE", "RESOURCE", "DESERVED", "FAIR SHARE", "ALLOCATED", "BORROWED", "LENT"], rows)
    if share.borrowers:
        yield f"  lent to {', '.join(share.borrowers)}"
    if share.returns:
        yield f"  {share.returns}"


def _suggestions(found: Explanation) -> Iterator[str]:
    if found.suggestions:
        yield "What would help, tried on this state of the cluster:"
        for number, one in enumerate(found.suggestions, 1):
            yield from _suggestion(number, one)
    if found.impossible:
        yield f"{'But as' if found.suggestions else 'As'} it is, there is no place: {found.impossible}."
    for action, why in found.not_evicted.items():
        yield f"{action} evicts nobody for it: {why}"


def _suggestion(number: int, one: Suggestion) -> Iterator[str]:
    goes = f" (goes to {one.places})" if one.places else ""
    yield f"  {number}. {one.sentence}{goes}"
    yield from (f"       {_holder(pod)}" for pod in one.ends[:_MOST_HOLDERS])
    yield from (f"       {_relocated(pod)}" for pod in one.moves)
    yield from (f"     $ {command}" if not command.startswith("#") else f"     {command}" for command in one.commands)


def _relocated(one: RelocatedPod) -> str:
    others = f"{len(one.stops)} other pod{'' if len(one.stops) == 1 else 's'} of its gang"
    with_it = f"; {others} cannot run on without it" if one.stops else ""
    return f"{one.pod}: from {one.node} to {one.to}, of {one.owner}, {one.gpu_hours:.1f} GPU-hours lost{with_it}"

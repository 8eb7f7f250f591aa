"""Explanation of a queue: its share, what it has borrowed or lent, and when that comes back."""

from collections.abc import Sequence

from tonnage.actions.eviction.gangactions import GangReclaim
from tonnage.actions.eviction.reclaim import Reclaim
from tonnage.explain.holders import counted_pods
from tonnage.explain.record import ExplainedKind, Explanation, QueueExplanation
from tonnage.explain.rehearsal import Rehearsal
from tonnage.framework.session import Session
from tonnage.model.resources import show

_LITTLE = 1e-9


def queue_explanation(session: Session, name: str, actions: Sequence[str]) -> QueueExplanation | None:
    """What a queue has; nothing if there is no such queue."""
    cluster = session.cluster
    if name not in cluster.queues:
        return None
    record = next((one for one in session.queues.records() if one.name == name), None)
    figures = session.queues.figures()
    lent: dict[str, str] = {}
    borrowers: dict[str, None] = {}
    for resource, own in figures.get(name, {}).items():
        unused = min(own.deserved, own.requested) - own.allocated
        if own.deserved == float("inf") or unused <= _LITTLE:
            continue
        over = [
            other
            for other, parts in figures.items()
            if other != name and resource in parts and parts[resource].allocated - parts[resource].deserved > _LITTLE
        ]
        if over:
            lent[resource] = show(resource, unused * (1000 if resource == "cpu" else 1))
            borrowers |= dict.fromkeys(over)
    borrowed = any(
        own.allocated - own.deserved > _LITTLE for own in figures.get(name, {}).values() if own.deserved != float("inf")
    )
    jobs = [session.job_of(task).queue for task in cluster.waiting.values()]
    running = [session.job_of(task).queue for task in cluster.running.values()]
    return QueueExplanation(
        name,
        cluster.queues[name].parent,
        dict(record.resources) if record is not None else {},
        running.count(name),
        jobs.count(name),
        lent,
        sorted(borrowers),
        _returns(bool(lent), borrowed, actions),
    )


def _returns(lent: bool, borrowed: bool, actions: Sequence[str]) -> str:
    reclaims = Reclaim.name in actions or GangReclaim.name in actions
    if lent:
        if reclaims:
            return "reclaim takes back what is lent as soon as a job of the queue fits into its share"
        return "what is lent comes back when pods of the borrowers end: no action reclaims"
    if borrowed:
        if reclaims:
            return "what it has borrowed may be taken back as soon as its owners want it"
        return "what it has borrowed stays until its pods end: no action reclaims"
    return ""


def explain_queue(rehearsal: Rehearsal, name: str) -> Explanation:
    """The share of a queue and who waits in it."""
    cluster = rehearsal.cluster
    with rehearsal.cycle() as session:
        found = queue_explanation(session, name, rehearsal.actions)
        assert found is not None
        queue = cluster.queues[name]
        waiting = [key for key, task in cluster.waiting.items() if session.job_of(task).queue == name]
        reasons: dict[str, int] = {}
        for key in waiting:
            decision = session.decisions.get(key)
            for reason in dict.fromkeys([one.reason for one in decision.rejected]) if decision is not None else ():
                reasons[reason] = reasons.get(reason, 0) + 1
        overused = session.queues.why_overused(queue)
    parts = [f"{found.running} pods run, {len(waiting)} wait"]
    for resource, share in found.resources.items():
        if {share.deserved, share.allocated} - {"0", "unlimited"}:
            borrowed = f", {share.borrowed} borrowed" if share.borrowed not in ("0", "") else ""
            parts.append(f"{resource}: {share.allocated} of {share.deserved} deserved{borrowed}")
    if not queue.is_open:
        parts.insert(0, "it is closed")
    notes = [
        f"{counted_pods(count)} that wait: {reason}"
        for reason, count in sorted(reasons.items(), key=lambda one: -one[1])
    ]
    if overused is not None:
        notes.insert(0, overused[1].message)
    children = cluster.groups.hierarchy().children.get(name, [])
    if children:
        notes.append(f"it is divided into {', '.join(children)}")
    return Explanation(ExplainedKind.QUEUE, name, "; ".join(parts), queue=name, share=found, notes=notes)

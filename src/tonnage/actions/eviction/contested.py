"""Contested room: what evictions free may be taken by pods that another scheduler is about to place.

Other schedulers do not know of nominated places. If one of their pods waits and would fit into the freed room, but not
beside the preemptor, victims would go in vain. Only pods that were created a short while ago count, so that no pod that
nobody ever places keeps others from what they may take.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from tonnage.cluster.task import Task, make_task
from tonnage.framework.decision import Decision, Reason
from tonnage.framework.session import Session
from tonnage.model.timestamp import past_timestamp

FRESH_SECONDS = 60.0
"""How long after its creation a pod of another scheduler counts."""
MOST_PODS, MOST_KINDS = 256, 16
"""How many pods of other schedulers are looked at, the latest first, and how many kinds of them are tried."""


def why_contested(session: Session, decisions: Sequence[Decision]) -> Reason | None:
    """Why pods would not get the places that victims are to leave for them; nothing if nobody else would."""
    rival = _contender(session, decisions)
    if rival is None:
        return None
    told = f"{rival.key} of {rival.pod.scheduler} would take the room that others leave; it is looked at again soon"
    return Reason("RoomContested", told)


def _contender(session: Session, decisions: Sequence[Decision]) -> Task | None:
    """A pod of another scheduler that would fit into these places, but not beside them."""
    others = list(_fresh(session)) if decisions else []
    if not others:
        return None
    among = session.cluster.mask([decision.node for decision in decisions if decision.node is not None])
    with session.looking_ahead():
        rivals = [task for task in others if session.decide(task, among).node is None]
        if not rivals:
            return None
        for decision in decisions:
            session.unplace(decision.task.key)
        try:
            return next((task for task in rivals if session.decide(task, among).node is not None), None)
        finally:
            for decision in decisions:
                session.take(decision)


def _fresh(session: Session) -> Iterator[Task]:
    """Pods that other schedulers are about to place, one of each kind."""
    cluster, kinds = session.cluster, set[object]()
    for pod in islice(reversed(cluster.foreign.values()), MOST_PODS):
        created = past_timestamp(pod.metadata.creationTimestamp or "", cluster.now or 0.0)
        if created is not None and cluster.now is not None and cluster.now - created > FRESH_SECONDS:
            continue
        task = make_task(pod, cluster.vendors)
        kind = session.class_key(task)
        if kind not in kinds:
            kinds.add(kind)
            yield task
        if len(kinds) >= MOST_KINDS:
            return

"""One scheduling cycle: every waiting pod is decided about in turn, and the document that says what came of it."""

from collections.abc import Sequence

import msgspec

from tonnage.framework.decision import Decision, DecisionRecord
from tonnage.framework.session import Session
from tonnage.model.problem import Problem


class CycleDocument(msgspec.Struct, frozen=True):
    """What one cycle did, for the outside."""

    decisions: list[DecisionRecord]
    evictions: list[dict[str, str]]
    queues: list[dict[str, str]]
    problems: list[Problem]


def run_cycle(session: Session) -> list[Decision]:
    """Place the waiting pods: higher priority first, then the older, then by name."""
    waiting = sorted(session.cluster.waiting.values(), key=lambda task: task.order)
    return [session.place(task) for task in waiting]


def document(session: Session, decisions: Sequence[Decision], read_problems: Sequence[Problem] = ()) -> CycleDocument:
    """The document of a cycle, with the problems met while reading its objects in front."""
    problems = [*read_problems, *session.cluster.problems(), *session.problems()]
    return CycleDocument([decision.record() for decision in decisions], [], [], problems)

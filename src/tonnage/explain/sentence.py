"""The sentence about a waiting pod: the same in explanations, conditions and Events."""

from collections.abc import Mapping

from tonnage.framework.decision import Decision, DecisionOutcome, Reason

MOST_EXAMPLES = 3


def counted(count: int, reason: str, example: str | None) -> str:
    """One reason of a sentence: how many nodes have it, and one of them as an example."""
    return f"{count} {reason}" + (f" ({example})" if example else "")


def why_pending(decision: Decision) -> str:
    """Why a pod is pending, with an example for each of the most frequent reasons."""
    if decision.node is not None or decision.outcome == DecisionOutcome.WAITING or not decision.rejected:
        return decision.why_not()
    nodes = sum(group.count for group in decision.rejected)
    parts = []
    for place, group in enumerate(sorted(decision.rejected, key=lambda group: (-group.count, group.reason))):
        parts.append(counted(group.count, group.reason, group.message if place < MOST_EXAMPLES else None))
    return f"0 of {nodes} nodes fit: " + ", ".join(parts)


def with_waits(text: str, waits: Mapping[str, Reason]) -> str:
    """The sentence with why no action made room for the pod's job."""
    return text + "".join(f"; {action}: {reason.message or reason.name}" for action, reason in waits.items())

"""Messages of pending pods' conditions and Events: why a pod is not scheduled, in one sentence with numbers."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.framework.decision import Decision, DecisionOutcome, Reason, RejectedNodes
from tonnage.observability.messages import counted, shortened

_MOST_EXAMPLES = 3


class Messages:
    """Messages for the decisions of one cycle; pods with the same rejected nodes share one text."""

    def __init__(
        self, waits: Mapping[str, Mapping[str, Reason]], more: Callable[[Decision], str] = lambda _: ""
    ) -> None:
        self._waits = waits
        self._more = more
        """Text to append for a decision; empty if there is none."""
        self._known: dict[int, tuple[Sequence[RejectedNodes], str]] = {}
        """By the `id` of the rejected nodes; the sequence is kept alive so that no other gets the same id."""

    def why_not(self, decision: Decision) -> str:
        """Why a pod is pending."""
        is_held_back = decision.node is not None or decision.outcome == DecisionOutcome.WAITING
        text = decision.why_not() if is_held_back else self._nodes(decision)
        for action, reason in self._waits.get(decision.job.key, {}).items():
            text += f"; {action}: {reason.message or reason.name}"
        more = self._more(decision)
        return shortened(f"{text}; {more}" if more else text)

    def _nodes(self, decision: Decision) -> str:
        known = self._known.get(id(decision.rejected))
        if known is None:
            known = self._known[id(decision.rejected)] = decision.rejected, _nodes_by_reason(decision)
        return known[1]


def _nodes_by_reason(decision: Decision) -> str:
    """The number of nodes per reason, with an example for each of the most frequent reasons."""
    if not decision.rejected:
        return decision.why_not()
    nodes = sum(group.count for group in decision.rejected)
    parts = []
    for place, group in enumerate(sorted(decision.rejected, key=lambda group: (-group.count, group.reason))):
        parts.append(counted(group.count, group.reason, group.message if place < _MOST_EXAMPLES else None))
    return f"0 of {nodes} nodes fit: " + ", ".join(parts)

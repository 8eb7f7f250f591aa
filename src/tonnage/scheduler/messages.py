"""Why pods wait, in one sentence with numbers: for conditions and Events."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.framework.decision import Decision, DecisionOutcome, Reason, RejectedNodes
from tonnage.observability.events import shortened

_MOST_EXAMPLES = 3


class Messages:
    """Words for the decisions of one cycle; pods that share what was found share the words."""

    def __init__(
        self, waits: Mapping[str, Mapping[str, Reason]], more: Callable[[Decision], str] = lambda _: ""
    ) -> None:
        self._waits = waits
        self._more = more
        """What is known besides about a decision."""
        self._known: dict[int, tuple[Sequence[RejectedNodes], str]] = {}
        """By the identity of what turned pods down, which is kept so that no other one gets it."""

    def why_not(self, decision: Decision) -> str:
        """Why a pod waits."""
        text = (
            decision.why_not()
            if decision.node is not None or decision.outcome == DecisionOutcome.WAITING
            else self._nodes(decision)
        )
        for action, reason in self._waits.get(decision.job.key, {}).items():
            text += f"; {action}: {reason.message or reason.name}"
        more = self._more(decision)
        return shortened(f"{text}; {more}" if more else text)

    def _nodes(self, decision: Decision) -> str:
        known = self._known.get(id(decision.rejected))
        if known is None:
            known = self._known[id(decision.rejected)] = decision.rejected, _counted(decision)
        return known[1]


def _counted(decision: Decision) -> str:
    """How many nodes have what against a pod, with an example for each of the most frequent reasons."""
    if not decision.rejected:
        return decision.why_not()
    nodes = sum(group.count for group in decision.rejected)
    parts = []
    for place, group in enumerate(sorted(decision.rejected, key=lambda group: (-group.count, group.reason))):
        example = group.message if place < _MOST_EXAMPLES else ""
        parts.append(f"{group.count} {group.reason}" + (f" ({example})" if example else ""))
    return f"0 of {nodes} nodes fit: " + ", ".join(parts)

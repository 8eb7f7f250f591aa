"""Messages of pending pods' conditions and Events: why a pod is not scheduled, in one sentence with numbers."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.explain.sentence import why_pending, with_waits
from tonnage.framework.decision import Decision, DecisionOutcome, Reason, RejectedNodes
from tonnage.observability.messages import shortened


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
        text = with_waits(
            decision.why_not() if is_held_back else self._nodes(decision), self._waits.get(decision.job.key, {})
        )
        more = self._more(decision)
        return shortened(f"{text}; {more}" if more else text)

    def _nodes(self, decision: Decision) -> str:
        known = self._known.get(id(decision.rejected))
        if known is None:
            known = self._known[id(decision.rejected)] = decision.rejected, why_pending(decision)
        return known[1]

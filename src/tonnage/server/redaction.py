"""Redaction: an explanation as a caller may see it, whose rights reach less far than the server's.

What is kept is listed here; sentences of plugins and actions may name anybody's pods and nodes, so they are for callers
who may see all of them.
"""

from msgspec.structs import replace

from tonnage.explain.record import CardExplanation, ExplainedKind, Explanation, NearMiss, PodHolding, Suggestion
from tonnage.framework.decision import Decision, DecisionOutcome
from tonnage.server.viewer import OTHERS, Viewer

_OWN = frozenset(("request", "gang", "topology"))
"""The kinds of suggestions that speak of the pod and its group alone."""
_ABOUT_NODES = frozenset(("constraint", "node"))
_PROMISED = "it has a place that other pods have to leave first"
_NO_NODE = "no node of this cluster could hold it as it is, even an empty one"


def missing_right(kind: ExplainedKind, viewer: Viewer) -> str:
    """The right that a caller lacks to have a kind of things explained; empty if it has it."""
    if kind in (ExplainedKind.NODE, ExplainedKind.GPU) and not viewer.sees_nodes:
        return "list nodes"
    return "list queues" if kind == ExplainedKind.QUEUE and not viewer.sees_queues else ""


def seen_by(viewer: Viewer, found: Explanation) -> Explanation:
    """An explanation without the names of pods, nodes and queues that a caller may not see."""
    if viewer.sees_all:
        return found
    nodes, words = viewer.sees_nodes, viewer.sees_words
    steps = [
        replace(one, example=one.example if nodes else "", message=one.message if words else "") for one in found.funnel
    ]
    gang = found.gang if found.gang is None or nodes else replace(found.gang, within="")
    return replace(
        found,
        sentence=_sentence(viewer, found),
        message=found.message if words else "",
        node=found.node if nodes else "",
        funnel=steps,
        misses=[_miss(viewer, one) for one in found.misses] if nodes else [],
        gang=gang,
        share=found.share if viewer.sees_queues else None,
        suggestions=[_suggestion(viewer, one) for one in found.suggestions if _may_see(viewer, one)],
        impossible=found.impossible if nodes or not found.impossible else _NO_NODE,
        evictions=found.evictions if words else [],
        not_evicted=found.not_evicted if words else {},
        scores=found.scores if nodes else {},
        cards=[_card(viewer, one) for one in found.cards] if nodes else [],
        holders=_holders(viewer, found.holders) if nodes else [],
    )


def seen_sentence(viewer: Viewer, decision: Decision) -> str:
    """Why a pod waits, in a sentence that names nothing of others."""
    return _PROMISED if decision.node is not None and not viewer.sees_words else decision.why_not()


def _sentence(viewer: Viewer, found: Explanation) -> str:
    if found.outcome == DecisionOutcome.WAITING and found.node and not viewer.sees_words:
        return f"waits: {_PROMISED}"
    if viewer.sees_nodes or not found.node:
        return found.sentence
    return "fits now: the next cycle places it" if found.outcome == DecisionOutcome.PLACED else "runs"


def _holders(viewer: Viewer, holders: list[PodHolding]) -> list[PodHolding]:
    return [one if viewer.sees(one.pod) else PodHolding(OTHERS, one.holds, leaving=one.leaving) for one in holders]


def _miss(viewer: Viewer, miss: NearMiss) -> NearMiss:
    sentence = miss.sentence if miss.shortages or viewer.sees_words else f"{miss.node} does not take it"
    return replace(miss, sentence=sentence, holders=_holders(viewer, miss.holders))


def _card(viewer: Viewer, card: CardExplanation) -> CardExplanation:
    return replace(card, holders=_holders(viewer, card.holders))


def _may_see(viewer: Viewer, one: Suggestion) -> bool:
    named = [*(pod.pod for pod in one.ends), *(key for pod in one.moves for key in (pod.pod, *pod.stops))]
    if named:
        return viewer.sees_nodes and all(viewer.sees(key) for key in named)
    return one.kind in _OWN or (viewer.sees_nodes and one.kind in _ABOUT_NODES)


def _suggestion(viewer: Viewer, one: Suggestion) -> Suggestion:
    return one if viewer.sees_nodes else replace(one, places="")

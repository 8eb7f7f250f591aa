"""Messages of the extender's Events: one sentence per decision, in HAMi's wording, with the numbers behind it."""

from collections import Counter
from collections.abc import Mapping

from tonnage.explain.sentence import counted
from tonnage.extender.protocol import FilterResult
from tonnage.framework.decision import Decision
from tonnage.framework.reasons import is_resolvable
from tonnage.observability.messages import rejections

_SCORES = 5


def reason_counts(result: FilterResult, decision: Decision | None) -> dict[str, int]:
    """The number of nodes per reason for which kube-scheduler was refused them."""
    counts = rejections(decision)
    failed, unresolvable = result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {}
    if counts.total() == len(failed) + len(unresolvable):
        return dict(counts)
    # The decision did not look at unknown nodes.
    return dict(Counter(failed.values()) + Counter(unresolvable.values()))


def no_node(counts: Mapping[str, int], decision: Decision | None) -> str:
    """Why no node fits; reasons that other pods' end can resolve come first."""
    messages: dict[str, str] = {}
    for rejected in decision.rejected if decision is not None else ():
        messages.setdefault(rejected.reason, rejected.message)
    if not counts:
        return "no available node, none was asked about"
    reasons = sorted(counts, key=lambda reason: (not is_resolvable(reason), -counts[reason], reason))
    parts = ", ".join([counted(counts[reason], reason, messages.get(reason)) for reason in reasons])
    return f"no available node, {sum(counts.values())} nodes do not meet: {parts}"


def fit_node(decision: Decision) -> str:
    """The chosen node with its devices, the number of nodes that did not fit, and the best scores."""
    unfit = sum(rejected.count for rejected in decision.rejected)
    best = decision.ranking[:_SCORES]
    totals = [0.0] * len(best)
    for _, scores in decision.scores_by_plugin:
        totals = [total + float(score) for total, score in zip(totals, scores[:_SCORES], strict=True)]
    scored = ",".join(f"{node}:{total:.2f}" for node, total in zip(best, totals, strict=True))
    devices = ", ".join(f"{d.container}: {d.uuid} {d.amount} {d.cores} %" for d in decision.devices)
    return f"find fit node({decision.node}), {unfit} nodes not fit, best scores({scored}), devices({devices})"


def bound_to(key: str, node: str) -> str:
    """The pod is bound, in the words that HAMi's users search for."""
    return f"Successfully binding node [{node}] to {key}"

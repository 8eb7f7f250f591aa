"""Decisions in one sentence, as Events show them: HAMi's wording, with the numbers behind it."""

from collections import Counter
from collections.abc import Mapping

from tonnage.extender.protocol import FilterResult
from tonnage.framework.decision import Decision
from tonnage.framework.reasons import is_resolvable

_SCORES = 5


def rejections(decision: Decision | None) -> Counter[str]:
    """How many of the nodes that a decision looked at have each reason against the pod."""
    counts: Counter[str] = Counter()
    for rejected in decision.rejected if decision is not None else ():
        counts[rejected.reason] += rejected.count
    return counts


def reason_counts(result: FilterResult, decision: Decision | None) -> dict[str, int]:
    """How many nodes have each reason against the pod."""
    counts = rejections(decision)
    failed, unresolvable = result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {}
    if counts.total() == len(failed) + len(unresolvable):
        return dict(counts)
    # Nodes that the decision did not look at: unknown ones, and those with a silent device plugin.
    return dict(Counter(failed.values()) + Counter(unresolvable.values()))


def no_node(counts: Mapping[str, int], decision: Decision | None) -> str:
    """Why no node will do, with what time or other pods' end can cure first."""
    messages: dict[str, str] = {}
    for rejected in decision.rejected if decision is not None else ():
        messages.setdefault(rejected.reason, rejected.message)
    parts = []
    for reason in sorted(counts, key=lambda reason: (not is_resolvable(reason), -counts[reason], reason)):
        message = messages.get(reason)
        parts.append(f"{counts[reason]} {reason}" + (f" ({message})" if message else ""))
    if not parts:
        return "no available node, none was asked about"
    return f"no available node, {sum(counts.values())} nodes do not meet: {', '.join(parts)}"


def fit_node(decision: Decision) -> str:
    """Where the pod goes, what it gets there, and what else was looked at."""
    unfit = sum(rejected.count for rejected in decision.rejected)
    totals = [0.0] * len(decision.ranking)
    for _, scores in decision.scores_by_plugin:
        totals = [total + float(score) for total, score in zip(totals, scores, strict=True)]
    best = list(zip(decision.ranking, totals, strict=True))[:_SCORES]
    scored = ",".join(f"{node}:{total:.2f}" for node, total in best)
    devices = ", ".join(f"{d.container}: {d.uuid} {d.memory} MiB {d.cores} %" for d in decision.devices)
    return f"find fit node({decision.node}), {unfit} nodes not fit, best scores({scored}), devices({devices})"


def bound_to(key: str, node: str) -> str:
    """That the pod is bound, in the words that HAMi's users look for."""
    return f"Successfully binding node [{node}] to {key}"

"""Releases: sets of pods of one node that might go together, because their going frees a card, several, or the node.

All sets of a node would be too many. These are a node's pods one by one, the pods of each card, the pods of its first
cards in the order of their price, and all of them.
"""

from collections.abc import Sequence

from tonnage.plan.defrag.problem import PlanProblem

_MOST_EXACT = 6
"""Up to so many movable pods of a node, every set of them is tried."""


def releases(problem: PlanProblem, row: int, gone: frozenset[int] = frozenset()) -> list[tuple[int, ...]]:
    """Sets of movable pods of a node, none of them empty, without pods that have gone already."""
    pods = [number for number in problem.by_row.get(row, ()) if number not in gone]
    if not pods:
        return []
    if len(pods) <= _MOST_EXACT:
        return [tuple([pod for at, pod in enumerate(pods) if mask >> at & 1]) for mask in range(1, 1 << len(pods))]
    found: dict[tuple[int, ...], None] = {(pod,): None for pod in pods}
    by_card: dict[int, list[int]] = {}
    for pod in pods:
        for position in problem.pods[pod].holder.positions:
            by_card.setdefault(position, []).append(pod)
    others = [pod for pod in pods if not problem.pods[pod].holder.positions]
    cards = sorted(by_card.values(), key=lambda on_card: (_price(problem, on_card), on_card))
    together: set[int] = set()
    for on_card in cards:
        found[tuple(sorted(on_card))] = None
        together.update(on_card)
        found[tuple(sorted(together))] = None
        found[tuple(sorted({*on_card, *others}))] = None
    found[tuple(sorted({*together, *others}))] = None
    return list(found)


def _price(problem: PlanProblem, pods: Sequence[int]) -> float:
    return sum(problem.pods[pod].price for pod in pods)

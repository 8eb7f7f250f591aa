"""PodDisruptionBudgets: whether several pods may be evicted together.

The API server decides about each eviction on its own. Before the first of several evictions that only help together,
the evictor reads how many the budgets allow now, so that no pod is evicted for a job whose other victims must stay.
"""

from collections.abc import Sequence

import msgspec

from tonnage.actions.eviction.disruptions import CountedBudget
from tonnage.model.quota import PodDisruptionBudget
from tonnage.scheduler.evictions.plans import Victim


class BudgetList(msgspec.Struct, frozen=True):
    """The budgets of a namespace."""

    items: list[PodDisruptionBudget] = []


def exceeded(budgets: Sequence[PodDisruptionBudget], victims: Sequence[Victim]) -> tuple[str, list[Victim]]:
    """Why these pods of one namespace may not all be evicted, and which of them; empty if they may."""
    for budget in budgets:
        counted = CountedBudget(budget)
        covered = [victim for victim in victims if counted.covers(victim.task.pod)]
        allowed = budget.allowed(0)
        if len(covered) > allowed:
            name = budget.metadata.name
            return f"{len(covered)} pods of PodDisruptionBudget {name} have to go and {allowed} may", covered
    return "", []

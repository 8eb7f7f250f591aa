"""PodDisruptionBudgets: whether several pods may be evicted together.

The API server decides about each eviction on its own. Before the first of several evictions that only help together,
the evictor reads how many the budgets allow, so that no pod is evicted for a job whose other victims must stay.
"""

from collections.abc import Sequence

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.podselector import meets, requirements
from tonnage.model.selection import LabelSelector, SelectionError
from tonnage.scheduler.evictions.plans import Victim

_RUNNING = "Running"


class BudgetSpec(msgspec.Struct, frozen=True):
    """Which pods a budget covers."""

    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How many disruptions a budget has left."""

    disruptions_allowed: int = 0


class DisruptionBudget(msgspec.Struct, frozen=True):
    """The part of a PodDisruptionBudget that is needed."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def covers(self, victim: Victim) -> bool:
        """Whether the budget counts the eviction of a pod; pods that do not run yet may always be evicted."""
        selector, pod = self.spec.selector, victim.task.pod
        if selector is None or pod.status.phase != _RUNNING:
            return False
        try:
            return meets(pod.labels, requirements(selector))
        except SelectionError:
            return False


class BudgetList(msgspec.Struct, frozen=True):
    """The budgets of a namespace."""

    items: list[DisruptionBudget] = []


def exceeded(budgets: Sequence[DisruptionBudget], victims: Sequence[Victim]) -> tuple[str, list[Victim]]:
    """Why these pods of one namespace may not all be evicted, and which of them; empty if they may."""
    for budget in budgets:
        covered = [victim for victim in victims if budget.covers(victim)]
        allowed = budget.status.disruptions_allowed
        if len(covered) > allowed:
            name = budget.metadata.name
            return f"{len(covered)} pods of PodDisruptionBudget {name} have to go and {allowed} may", covered
    return "", []

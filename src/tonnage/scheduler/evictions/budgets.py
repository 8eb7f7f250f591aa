"""PodDisruptionBudgets: whether several pods may be evicted at once.

The API server decides about each eviction by itself. Before the first of several that only help together, it is asked
how many the budgets allow, so that nobody is stopped for a job whose other victims must stay.
"""

from collections.abc import Sequence

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.podselector import meets, requirements
from tonnage.model.selection import LabelSelector, SelectionError
from tonnage.scheduler.evictions.plans import Victim

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
_RUNNING = "Running"


class BudgetSpec(msgspec.Struct, frozen=True):
    """Whose pods a budget is about."""

    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a budget has left."""

    disruptions_allowed: int = 0


class DisruptionBudget(msgspec.Struct, frozen=True):
    """As much of a PodDisruptionBudget as is needed."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def covers(self, victim: Victim) -> bool:
        """Whether evicting a pod counts for it; pods that do not run yet may always go."""
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
    """Which of these pods of one namespace must not all go, and why not; nothing if all may."""
    for budget in budgets:
        covered = [victim for victim in victims if budget.covers(victim)]
        allowed = budget.status.disruptions_allowed
        if len(covered) > allowed:
            name = budget.metadata.name
            return f"{len(covered)} pods of PodDisruptionBudget {name} have to go and {allowed} may", covered
    return "", []

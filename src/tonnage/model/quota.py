"""ResourceQuotas, limits on what all pods of a namespace hold; PodDisruptionBudgets, on how many may be evicted."""

from typing import Any

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.selection import LabelSelector

_LONGEST = 4
"""The length of the longest percentage, 100%."""


class QuotaSpec(msgspec.Struct, gc=False, frozen=True):
    """The limits by resource, and the scopes that choose pods of the namespace."""

    hard: dict[str, str | int | float] | None = None
    scopes: list[str] | None = None
    scopeSelector: dict[str, object] | None = None


class ResourceQuota(msgspec.Struct, gc=False, frozen=True):
    """A quota of a namespace; several quotas apply at the same time."""

    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        return self.metadata.key


class BudgetSpec(msgspec.Struct, gc=False, frozen=True):
    """Which pods a budget covers; how many of them must be available or may not be, as a number or in percent."""

    selector: LabelSelector | None = None
    minAvailable: int | str | None = None
    maxUnavailable: int | str | None = None


class BudgetStatus(msgspec.Struct, gc=False, frozen=True):
    """How many disruptions a budget has left, and the pods that it counts as disrupted already."""

    disruptionsAllowed: int | None = None
    disruptedPods: dict[str, Any] | None = None


class PodDisruptionBudget(msgspec.Struct, gc=False, frozen=True):
    """A PodDisruptionBudget; several may cover a pod."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def key(self) -> str:
        return self.metadata.key

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    def allowed(self, covered: int) -> int:
        """How many disruptions are left by its status; without one, if all of so many covered pods are healthy."""
        if self.status.disruptionsAllowed is not None:
            return self.status.disruptionsAllowed
        least, most = self.spec.minAvailable, self.spec.maxUnavailable
        if most is not None:
            return min(_amount(most, covered), covered)
        return max(covered - _amount(1 if least is None else least, covered), 0)


def _amount(said: int | str, of: int) -> int:
    """A number, or a percentage rounded up; 0 for what is neither."""
    if isinstance(said, int):
        return said
    percent = said.removesuffix("%")
    return -(-of * int(percent) // 100) if percent.isdecimal() and percent != said and len(said) <= _LONGEST else 0

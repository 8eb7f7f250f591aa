"""Limits of a plan: how many pods it may move and how many GPU-hours it may lose, in all and for each owner.

Every limit is a row: an amount that each of some pods takes, and the most that they may take together. So limits by
flags, shares of namespaces and queues, and PodDisruptionBudgets are all of one kind.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan must keep to; what is not given is not limited."""

    pods: int | None = None
    gpu_hours: float | None = None
    pods_per_namespace: int | None = None
    gpu_hours_per_namespace: float | None = None
    pods_per_queue: int | None = None
    gpu_hours_per_queue: float | None = None
    minimum_runtime: float = 0.0
    """Pods stay that have run for fewer seconds than this; what queues and plugins ask counts as well."""
    preemptible_only: bool = True


class LimitRow(NamedTuple):
    """The most that pods may take together of something."""

    name: str
    """In words, for the answer to why no more is moved."""
    most: float


class LimitRows:
    """The rows of a plan, and what each pod takes of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.rows: list[LimitRow] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def of_pod(
        self, namespace: str, queue: str, gpu_hours: float, budgets: Mapping[str, int]
    ) -> tuple[tuple[int, float], ...]:
        """The rows of one pod and what it takes of each; budgets are given with the disruptions that they allow."""
        limits = self._limits
        taken = [
            ("pods in all", "", limits.pods, 1.0),
            ("GPU-hours in all", "", limits.gpu_hours, gpu_hours),
            (f"pods of namespace {namespace}", namespace, limits.pods_per_namespace, 1.0),
            (f"GPU-hours of namespace {namespace}", namespace, limits.gpu_hours_per_namespace, gpu_hours),
            (f"pods of queue {queue}", queue, limits.pods_per_queue, 1.0),
            (f"GPU-hours of queue {queue}", queue, limits.gpu_hours_per_queue, gpu_hours),
            *((f"PodDisruptionBudget {name}", name, allowed, 1.0) for name, allowed in budgets.items()),
        ]
        return tuple(
            [(self._row(name, about, most), amount) for name, about, most, amount in taken if most is not None]
        )

    def _row(self, name: str, about: str, most: float) -> int:
        number = self._numbers.get((name, about))
        if number is None:
            number = self._numbers[name, about] = len(self.rows)
            self.rows.append(LimitRow(name, float(most)))
        return number

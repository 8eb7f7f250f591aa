"""Disruptions: how many pods PodDisruptionBudgets let go, so that victims are those whose eviction they allow.

A search for victims first keeps to all budgets. If it finds no room, it goes beyond them, with the pods last that no
budget lets go: budgets may allow more by the time of the eviction, and the API server has the last word.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from tonnage.actions.eviction.victims import VictimBatch
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.model.meta import NOTHING
from tonnage.model.pod import Pod
from tonnage.model.podselector import meets, requirements
from tonnage.model.quota import PodDisruptionBudget
from tonnage.model.selection import Expression, SelectionError

_RUNNING = "Running"


class CountedBudget:
    """A budget, and what it requires of the labels of pods."""

    def __init__(self, said: PodDisruptionBudget) -> None:
        self.said = said
        self._wanted: tuple[Expression, ...] | None = None
        """Nothing if it selects no pod."""
        if said.spec.selector is not None:
            with suppress(SelectionError):
                self._wanted = requirements(said.spec.selector)

    def covers(self, pod: Pod) -> bool:
        """Whether the budget counts the eviction of a pod of its namespace; those that do not run yet may always go."""
        if self._wanted is None or pod.status.phase != _RUNNING:
            return False
        return pod.metadata.name not in (self.said.status.disruptedPods or NOTHING) and meets(pod.labels, self._wanted)


class Disruptions:
    """What the budgets of a cluster have left, before a search."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._near: dict[str, dict[str, CountedBudget]] = {}
        """The budgets of each namespace."""
        for key, budget in cluster.budgets.items():
            self._near.setdefault(budget.namespace, {})[key] = CountedBudget(budget)
        self._covering: dict[str, Sequence[str]] = {}
        """The budgets of each pod that was asked for."""
        self._stated: dict[str, int] = {}
        """How many disruptions each budget has left by itself."""
        self._leaving: Counter[str] = Counter()
        """Pods that are leaving without their budget's knowing yet."""

    def begin(self) -> None:
        """Begin a search: what was evicted for others counts."""
        self._leaving.clear()
        for key in self._cluster.leaving if self else ():
            task = self._cluster.running.get(key)
            if task is not None and not task.pod.is_leaving:
                self._leaving.update(self._of(task))

    def __bool__(self) -> bool:
        """Whether there are budgets at all."""
        return bool(self._near)

    def beyond(self, batches: Mapping[int, VictimBatch], taken: Iterable[VictimBatch] = ()) -> set[int]:
        """Which of these batches the budgets do not let go after the ones that are taken already."""
        if not self:
            return set()
        used = Counter(name for batch in taken for name in self._names(batch))
        found: set[int] = set()
        for number, batch in batches.items():
            names = Counter(self._names(batch))
            if any(used[name] + count > self._allowed(name) for name, count in names.items()):
                found.add(number)
            else:
                used.update(names)
        return found

    def allowed(self, task: Task) -> dict[str, int]:
        """The budgets that count the eviction of a pod, with the evictions that each still allows."""
        return {name: self._allowed(name) for name in self._of(task)} if self else {}

    def protected_last(self, victims: Iterator[VictimBatch]) -> Iterator[VictimBatch]:
        """The batches; those that no budget lets go come last, with what their jobs would give up after them."""
        if not self:
            yield from victims
            return
        protected: list[VictimBatch] = []
        jobs: set[str] = set()
        for batch in victims:
            if batch.job.key in jobs or self.beyond({0: batch}):
                jobs.add(batch.job.key)
                protected.append(batch)
            else:
                yield batch
        yield from protected

    def _names(self, batch: VictimBatch) -> list[str]:
        return [name for task in batch.tasks for name in self._of(task)]

    def _of(self, task: Task) -> Sequence[str]:
        known = self._covering.get(task.key)
        if known is None:
            near = self._near.get(task.namespace, {})
            known = self._covering[task.key] = [key for key, budget in near.items() if budget.covers(task.pod)]
        return known

    def _allowed(self, name: str) -> int:
        known = self._stated.get(name)
        if known is None:
            budget = self._cluster.budgets[name]
            covered = 0
            if budget.status.disruptionsAllowed is None:
                covered = sum(name in self._of(task) for task in self._cluster.running.values())
            known = self._stated[name] = budget.allowed(covered)
        return known - self._leaving[name]

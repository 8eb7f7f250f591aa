"""Typical pods learned from the cluster's waiting and running pods.

Recent pods count more: a pod's weight halves with every half-life of its age. Ages are relative to the newest creation
timestamp, so that no clock is read. Memory requests in MiB become shares of the most common card that the pod accepts.
"""

from collections import Counter
from collections.abc import Generator, Hashable, Iterator

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, NO_CARD
from tonnage.cluster.task import Task
from tonnage.devices.base import PLAIN_MODE
from tonnage.plugins.fragmentation.typicalpods import COVERED, PodKind, TypicalPods, typical
from tonnage.plugins.helpers.cardshares import CardSize, share_of
from tonnage.plugins.helpers.podneeds import cpu_of, lasting_requests, needs_of

HALF_LIFE_DAYS = 7.0
_DAY = 86_400.0
_FEW_CHANGES = 100
SLICE = 256
"""Pods per slice, about a millisecond of work."""

Card = tuple[int, str, str]
"""Vendor, type and mode."""


class LearnedPods:
    """The typical pods of a cluster, relearned after as many node changes as there are pods, at least 100."""

    def __init__(self, cluster: Cluster, half_life_days: float = HALF_LIFE_DAYS, cover: float = COVERED) -> None:
        self._cluster = cluster
        self._cover = cover
        self._half_life = half_life_days
        self._known: TypicalPods = ()
        self._until = -1

    def current(self) -> TypicalPods:
        """The typical pods; the same object until they are relearned."""
        for _ in self.catch_up():
            pass
        return self._known

    def catch_up(self) -> Iterator[None]:
        """Relearn them if it is time to, in slices, between which the cluster may change."""
        if self._cluster.columns.clock > self._until:
            self._known = yield from learning(self._cluster, self._half_life, self._cover)
            pods = len(self._cluster.running) + len(self._cluster.reserved) + len(self._cluster.waiting)
            self._until = self._cluster.columns.clock + max(pods, _FEW_CHANGES)


def learning(
    cluster: Cluster, half_life_days: float = HALF_LIFE_DAYS, cover: float = COVERED
) -> Generator[None, None, TypicalPods]:
    """The typical pods of a cluster, computed in slices."""
    tasks = list(_tasks(cluster))
    yield
    kinds, counts = _Kinds(cluster), Counter[PodKind]()
    yield
    ages = _ages([task.created for task in tasks])
    for start in range(0, len(tasks), SLICE):
        yield
        for task, age in zip(tasks[start : start + SLICE], ages[start : start + SLICE], strict=True):
            counts[kinds.of(task)] += 0.5 ** (age / half_life_days)
    return typical(counts, cover)


def _tasks(cluster: Cluster) -> Iterator[Task]:
    for tasks in (cluster.running, cluster.reserved, cluster.waiting):
        yield from tasks.values()


def _ages(created: list[str]) -> list[float]:
    """The age of each pod in days, relative to the newest; a pod without a timestamp counts as new."""
    seconds = {text: _seconds(text) for text in set(created)}
    newest = max([told for told in seconds.values() if told is not None], default=0.0)
    return [(newest - told) / _DAY if (told := seconds[text]) is not None else 0.0 for text in created]


def _seconds(text: str) -> float | None:
    try:
        return float(np.datetime64(text.removesuffix("Z"), "s").astype(np.int64)) if text else None
    except ValueError:
        return None


class _Kinds:
    """Pod kinds for a cluster's cards, each computed once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Hashable, PodKind] = {}
        self._sizes: dict[Card, Counter[CardSize]] = {}
        cluster.settle()
        columns = cluster.columns
        parts = (columns.model, columns.card_total[MEMORY], columns.card_total[CORES])
        for (number, memory, cores), count in Counter(
            zip(*[part.ravel().tolist() for part in parts], strict=True)
        ).items():
            model = columns.models[number]
            if model is not NO_CARD:
                size = CardSize(memory, cores, model.mode == PLAIN_MODE)
                self._sizes.setdefault((model.vendor, model.type, model.mode), Counter())[size] += count

    def of(self, task: Task) -> PodKind:
        key = needs_of(task)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._work_out(task)
        return known

    def _work_out(self, task: Task) -> PodKind:
        cpu, requests = cpu_of(task), lasting_requests(task)
        accepted = [card for card in self._sizes if self._accepts(task, card)]
        if not accepted:
            # A pod that no card fits cannot use any card, like a pod that asks for none.
            return PodKind(cpu, 0, 0)
        sizes = Counter[CardSize]()
        for card in accepted:
            sizes += self._sizes[card]
        common = max(sizes, key=lambda size: (sizes[size], size))
        share = max(share_of(request, common) for request in requests)
        types = tuple(sorted({type_ for _, type_, _ in accepted}))
        everything = {type_ for _, type_, _ in self._sizes}
        models = () if len(types) == len(everything) else types
        return PodKind(cpu, share, sum(request.count for request in requests), models)

    def _accepts(self, task: Task, card: Card) -> bool:
        number, type_, mode = card
        vendor = self._cluster.vendors[number]
        asked = any(request.vendor == vendor.name for request in lasting_requests(task))
        return asked and vendor.accepts_type(type_, mode, task.annotations)

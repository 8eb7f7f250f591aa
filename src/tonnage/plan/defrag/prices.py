"""Prices: what moving a pod costs, and what is gained, in one currency that is a GPU-hour unless rates say otherwise.

A pod that is moved loses its work since its last checkpoint, or since its start, and the time until it runs again.
"""

from typing import Annotated

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.model.annotations import CHECKPOINTED
from tonnage.model.timestamp import past_timestamp
from tonnage.plugins.helpers.podneeds import cpu_of

HOUR = 3600.0
_MILLI = 1000
_Rate = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class PriorityWeight(msgspec.Struct, frozen=True, kw_only=True):
    """How much more the lost work of important pods counts."""

    priority: int
    """Pods of at least this priority."""
    weight: _Rate


class Prices(msgspec.Struct, frozen=True, rename="camel"):
    """Rates, as their file writes them."""

    gpu_hour_lost: _Rate = 1.0
    cpu_hour_lost: _Rate = 0.02
    """For each core."""
    gpu_hour_gained: _Rate = 1.0
    node_hour_gained: _Rate | None = None
    """For a node that is given back; if not given, that of its GPUs, or of its cores if it has none."""
    move: _Rate = 0.05
    """For every move, whatever the pod loses."""
    start_up: str = "2m"
    """How long pods take until they run again, where the cluster does not show it."""
    horizon: str = "24h"
    """For how long what is gained counts."""
    priorities: list[PriorityWeight] = []
    checkpoint: str = CHECKPOINTED
    """The annotation of pods that has the time of their last checkpoint."""

    def weight(self, priority: int) -> float:
        """The weight of the lost work of pods of a priority: that of the highest step it reaches, else 1."""
        reached = [one for one in self.priorities if one.priority <= priority]
        return max(reached, key=lambda one: one.priority).weight if reached else 1.0


class WorkLost(msgspec.Struct, frozen=True):
    """What a pod loses by being moved."""

    hours: float
    """Since its last checkpoint, or since its start, and until it runs again."""
    gpu_hours: float
    price: float


class Losses:
    """Works out what pods lose if they are moved at a given time."""

    def __init__(self, cluster: Cluster, prices: Prices, at: float, start_up: float) -> None:
        self._cluster, self._prices, self._at, self._start_up = cluster, prices, at, start_up

    def of(self, task: Task, gpus: float) -> WorkLost | None:
        """What a pod that holds so many GPUs loses; nothing if it is not known since when it runs."""
        since = self.since(task)
        if since is None:
            return None
        saved = past_timestamp(task.annotations.get(self._prices.checkpoint), self._at)
        hours = (self._at - max(since, saved if saved is not None else since) + self._start_up) / HOUR
        rate = gpus * self._prices.gpu_hour_lost + cpu_of(task) / _MILLI * self._prices.cpu_hour_lost
        price = self._prices.weight(task.priority) * rate * hours + self._prices.move
        return WorkLost(hours, gpus * hours, price)

    def since(self, task: Task) -> float | None:
        """When a pod started; when it was created if that is all that is known."""
        started = past_timestamp(task.pod.status.startTime, self._at)
        return started if started is not None else past_timestamp(task.created, self._at)

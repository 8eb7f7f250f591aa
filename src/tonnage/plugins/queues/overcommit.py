"""Volcano's overcommit: groups are enqueued while their `minResources` fit into a multiple of the cluster.

inqueue + minResources ≤ factor × total − used      of every resource that `minResources` names
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tonnage.cluster.jobs.job import Job
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.plugins.queues._inqueue import InqueueResources
from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues._waterfill import too_much
from tonnage.plugins.queues.queuecounts import QueueCounts

FACTOR = "overcommit-factor"
DEFAULT = 1.2


class Overcommit(Plugin, trusted=True):
    """Enqueues groups beyond what is free, up to a factor of the cluster, so that some are ready for what frees up."""

    name = "overcommit"

    class Arguments(PluginArguments):
        """The factors: `overcommit-factor`, and `overcommit-factor.<resource>` for a single resource."""

        factor: float = msgspec.field(default=DEFAULT, name=FACTOR)
        """The multiple of the cluster's resources that groups may start with, at least 1."""
        resources: dict[str, float] = msgspec.field(default_factory=dict)
        """The same for single resources."""

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """Volcano's keys; a factor below 1 means the default."""
        factors: dict[str, float] = {}
        for key, value in given.items():
            name = str(key).removeprefix(f"{FACTOR}.")
            if name == key and key != FACTOR:
                raise ArgumentError(str(key), f"is no argument of {cls.name}, which takes {FACTOR} and {FACTOR}.<name>")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ArgumentError(str(key), f"expected a number, got {value!r}")
            if not value >= 1:
                warn(str(key), f"{value:g} is below 1; {DEFAULT:g} is used, as in Volcano")
            factors[name] = float(value) if value >= 1 else DEFAULT
        return cls.Arguments(factor=factors.pop(FACTOR, DEFAULT), resources=factors)

    def written_arguments(self) -> dict[str, Any]:
        """The factors by Volcano's keys."""
        return {FACTOR: self.args.factor} | {f"{FACTOR}.{name}": value for name, value in self.args.resources.items()}

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._inqueue: InqueueResources | None = None
        self._room: list[float] = []
        session.add_job_enqueueable(self.may_enqueue)

    def may_enqueue(self, job: Job) -> bool | None:
        """Whether the job's `minResources` fit beside the inqueue resources of others."""
        if self._inqueue is None:
            counts = QueueCounts(self._session.cluster, by_kai=False)
            self._inqueue = InqueueResources(self._session, counts)
            self._room = self._free(counts)
        start = wanted = self._inqueue.start_of(job)
        for lacking in self._inqueue.lacking().values():
            wanted = plus(wanted, lacking)
        return too_much(wanted, self._room, start) is None

    def _free(self, counts: QueueCounts) -> list[float]:
        cluster, factors = self._session.cluster, self.args.resources
        used: Amounts = [0] * len(counts.dimensions)
        for task in (*cluster.running.values(), *cluster.reserved.values()):
            used = plus(used, counts.of_task(task))
        return [
            offered * factors.get(dimension.name, self.args.factor) - held
            for dimension, offered, held in zip(counts.dimensions, counts.offered, used, strict=True)
        ]

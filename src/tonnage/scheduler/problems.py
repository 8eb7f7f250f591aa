"""Problems: what is wrong with the objects of the cluster, for the log, /debug/problems and the pods that need them.

Objects that are created one after another pass through states that look wrong, so a problem is logged only when two
checks in a row find it, and once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Decision
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import POD_GROUPS, QUEUES, WatchedKind
from tonnage.kube.resource import Change
from tonnage.kube.supervision import failed
from tonnage.model.problem import Problem

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two checks."""
MOST_LINES = 20
"""Problems that one check logs."""


class Problems:
    """Problems of objects that are used all the same; logs them while `run` runs."""

    def __init__(self, cluster: Cluster, unreadable: Mapping[str, Problem]) -> None:
        self._cluster = cluster
        self._unreadable = unreadable
        """Objects that cannot be read; the informer has logged them."""
        self._found: frozenset[Problem] = frozenset()
        self._logged: frozenset[Problem] = frozenset()

    def __len__(self) -> int:
        """How many the last check found."""
        return len(self._found)

    def all(self) -> list[Problem]:
        """Every problem that there is now."""
        return [*self._unreadable.values(), *self._cluster.problems()]

    def check(self) -> None:
        """Log what is new and was found by the last check too."""
        found = dict.fromkeys(self._cluster.problems())
        new = [problem for problem in found if problem in self._found and problem not in self._logged]
        for problem in new[:MOST_LINES]:
            log.warning("%s", problem)
        if len(new) > MOST_LINES:
            log.warning("%d more problems; /debug/problems shows them all", len(new) - MOST_LINES)
        self._logged = frozenset(problem for problem in found if problem in self._logged).union(new)
        self._found = frozenset(found)

    async def run(self) -> None:
        """Check every 5 seconds until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                self.check()
            except Exception as error:
                # One object that nobody can say the problem of must not end the scheduler.
                failed("problems", error)


class Unreadable:
    """PodGroups and Queues that exist and cannot be read: pods that name them say what is wrong."""

    def __init__(self, problems: Mapping[str, Problem], retry_all: Callable[[], None]) -> None:
        self._problems = problems
        """Objects that cannot be read, by kind and name."""
        self._retry_all = retry_all
        self._seen: dict[str, Problem] = {}

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of PodGroups and Queues."""
        informer.add_listener((*POD_GROUPS, *QUEUES), self.seen)

    def about(self, decision: Decision) -> str:
        """What is wrong with the PodGroup or Queue that the pod lacks; empty if there is no such object."""
        reason = decision.rejected[0].reason if decision.rejected else ""
        if reason == "GroupNotFound":
            names = [f"{kind.resource.name}/{decision.job.key}" for kind in POD_GROUPS]
        elif reason == "QueueNotFound":
            names = [f"{kind.resource.name}/{decision.job.queue}" for kind in QUEUES]
        else:
            return ""
        return next((str(self._problems[name]) for name in names if name in self._problems), "")

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Have pods decided again when another problem is found with a group or queue that they may name."""
        for change in changes:
            name = f"{kind.resource.name}/{change.key}"
            if change.problem is None:
                self._seen.pop(name, None)
            elif self._seen.get(name) != change.problem:
                self._seen[name] = change.problem
                self._retry_all()

"""What is wrong with objects that are used all the same: told in the log, once each, and shown to those who ask.

Whoever creates objects one after another passes through states that look wrong. So a problem is told only when it is
there at two looks in a row.
"""

import asyncio
import logging
from collections.abc import Mapping

from tonnage.cluster.cluster import Cluster
from tonnage.model.problem import Problem

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks."""
MOST_LINES = 20
"""Problems told by one look."""


class Problems:
    """Looks after problems while `run` runs."""

    def __init__(self, cluster: Cluster, unreadable: Mapping[str, Problem]) -> None:
        self._cluster = cluster
        self._unreadable = unreadable
        """Objects that cannot be read; of these the picture has told the log."""
        self._found: frozenset[Problem] = frozenset()
        self._told: frozenset[Problem] = frozenset()

    def __len__(self) -> int:
        """How many there were at the last look."""
        return len(self._found)

    def all(self) -> list[Problem]:
        """Everything that is wrong now."""
        return [*self._unreadable.values(), *self._cluster.problems()]

    def look(self) -> None:
        """Tell what is new since the look before the last one."""
        found = dict.fromkeys(self._cluster.problems())
        new = [problem for problem in found if problem in self._found and problem not in self._told]
        for problem in new[:MOST_LINES]:
            log.warning("%s", problem)
        if len(new) > MOST_LINES:
            log.warning("%d more problems; /debug/problems shows them all", len(new) - MOST_LINES)
        self._told = frozenset(problem for problem in found if problem in self._told).union(new)
        self._found = frozenset(found)

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.look()

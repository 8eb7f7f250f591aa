"""Counts, while decisions are made, how many pods each namespace gained or lost."""

import logging
from collections import Counter

from tonnage.api import Plugin, Session, Task

log = logging.getLogger(__name__)


class NamespaceAllocationTracker(Plugin):
    """Tracks the number of pods placed per namespace, evictions and undone placements taken off again."""

    name = "namespace-allocation-tracker"

    def on_session_open(self, session: Session) -> None:
        self.pods_per_namespace: Counter[str] = Counter()
        session.add_event_handler(self.allocated, self.deallocated)

    def allocated(self, task: Task) -> None:
        self.pods_per_namespace[task.namespace] += 1

    def deallocated(self, task: Task) -> None:
        self.pods_per_namespace[task.namespace] -= 1

    def on_session_close(self, session: Session) -> None:
        for namespace, pods in sorted(self.pods_per_namespace.items()):
            log.info("namespace %s: %+d pods", namespace, pods)

"""GroupWait: pending pods are held for a short time if a controller is about to put them into a PodGroup.

A pod that comes a moment before its group would be placed alone, and a gang that does not fit would start in pieces.
So a pod that shows a sign (`cluster/jobs/grouping.py`) waits until it names its group, or for a few seconds since it
was first seen. A group that a pod names only after it was placed alone is reported.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import link_of
from tonnage.cluster.jobs.grouping import ExpectedGroup, expected_group
from tonnage.kube.kinds import WatchedKind
from tonnage.kube.resource import Change
from tonnage.model.duration import format_seconds
from tonnage.model.pod import Pod

SECONDS = 5.0
"""How long a pod is held unless configured."""


class _Held(NamedTuple):
    """A pod that showed a sign when it was first seen."""

    uid: str | None
    until: float
    group: ExpectedGroup


class GroupWait:
    """Holds pods, by `cluster.groups.expected`."""

    def __init__(
        self,
        cluster: Cluster,
        is_ours: Callable[[Pod], bool],
        is_installed: Callable[[type[Any]], bool],
        came_late: Callable[[Pod, str], None],
        clock: Callable[[], float],
        seconds: float = SECONDS,
    ) -> None:
        self._cluster = cluster
        self._is_ours = is_ours
        self._is_installed = is_installed
        self._came_late = came_late
        """Told of a pod that was placed before it named its group."""
        self._clock = clock
        self.seconds = seconds
        self._known: dict[str, _Held] = {}
        """Pods with a sign that have not named a group yet, held or not, by namespace and name."""

    def seen(self, _pods: WatchedKind, changes: Sequence[Change]) -> bool:
        """Hold and release pods as the watch shows them; whether a pod is held that was not before."""
        held = False
        for change in changes:
            held |= self._see(change.key, None if change.is_gone else change.object)
        return held

    def _see(self, key: str, pod: Pod | None) -> bool:
        known = self._known.get(key)
        if known is not None and (pod is None or pod.metadata.uid != known.uid):
            self._forget(key)
            known = None
        if pod is None or pod.is_over or not self._is_ours(pod):
            self._forget(key)
            return False
        if link_of(pod) is not None:
            if known is not None:
                self._named(key, pod)
            return False
        if pod.node is not None:
            self._cluster.groups.expected.pop(key, None)
            return False
        group = expected_group(pod) if known is None and self.seconds else None
        if group is None:
            return False
        self._known[key] = _Held(pod.metadata.uid, self._clock() + self.seconds, group)
        return self._hold(key)

    def _hold(self, key: str) -> bool:
        group = self._known[key].group
        if not self._is_installed(group.kind):
            return False
        told = f"{group.maker}'s controllers make a PodGroup for {group.owner}"
        self._cluster.groups.expected[key] = f"{told}; the pod waits up to {format_seconds(self.seconds)} for it"
        return True

    def _named(self, key: str, pod: Pod) -> None:
        """A pod names its group now."""
        if pod.node is not None or key in self._cluster.reserved:
            self._came_late(pod, f"{format_seconds(self.seconds)} were not enough for its PodGroup to be made")
        self._forget(key)

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._cluster.groups.expected.pop(key, None)

    def settle(self) -> bool:
        """All kinds were listed: hold the pods that were seen before that; whether there are any."""
        for key in self._known:
            if key in self._cluster.waiting:
                self._hold(key)
        return bool(self._cluster.groups.expected)

    def end(self) -> list[str]:
        """Release pods that were held for long enough; which."""
        now, expected = self._clock(), self._cluster.groups.expected
        over = [key for key in expected if self._known[key].until <= now]
        for key in over:
            del expected[key]
        return over

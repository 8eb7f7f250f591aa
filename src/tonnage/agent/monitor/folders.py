"""Folders of containers: when the folder of a pod that has ended is removed.

Containers of a pod that is being deleted may still run, and a pod that is new may not have been seen yet. So a folder
goes only after its pod has been over or unknown for five minutes without a break.
"""

from collections.abc import Collection, Iterable

from tonnage.agent.core.nodepod import NodePod

KEPT = 300.0
"""Seconds that a folder stays after its pod's end."""


def pods_with_folders(pods: Iterable[NodePod]) -> frozenset[str]:
    """UIDs of the pods whose folders must stay."""
    return frozenset(pod.uid for pod in pods if not pod.is_over or pod.is_terminating)


class FolderCleaner:
    """Knows since when folders have been without a pod."""

    def __init__(self, kept: float = KEPT) -> None:
        self._kept = kept
        self._since: dict[str, float] = {}

    def due(self, folders: Iterable[str], living: Collection[str], now: float) -> list[str]:
        """The folders to remove now, of those that there are, given the UIDs of living pods."""
        without = [name for name in folders if "_" in name and name.partition("_")[0] not in living]
        self._since = {name: self._since.get(name, now) for name in without}
        return [name for name, since in self._since.items() if now - since >= self._kept]

"""Card orders that several plugins share: by use, by free part, and the key of a pod-independent order."""

from collections.abc import Hashable, Sequence

from tonnage.cluster.columns import CORES, MEMORY
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest


def every_task(task: Task) -> Hashable:
    """The key of a score that is the same for every pod."""
    return ()


def used_shares(node: NodeState, free: Sequence[Sequence[int]], cards: Sequence[int]) -> list[float]:
    """The used part of each card's memory."""
    devices, left = node.devices, free[MEMORY]
    return [(total - left[card]) / total if (total := devices[card].memory) else 0.0 for card in cards]


def fullest_first(
    task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
) -> Sequence[float]:
    """Scores a card higher the less of it is free."""
    return [-free_share(node, free, card) for card in fitting]


def free_share(node: NodeState, free: Sequence[Sequence[int]], card: int) -> float:
    """The free part of a card: the smaller of its free memory and free compute."""
    device = node.devices[card]
    of_memory = free[MEMORY][card] / device.memory if device.memory else 1.0
    of_cores = free[CORES][card] / device.cores if device.cores else 1.0
    return min(of_memory, of_cores)

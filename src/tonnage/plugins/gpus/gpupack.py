"""KAI's packing of cards: a part of a card goes to the fullest shared card that it fits on, before an idle one."""

from collections.abc import Hashable, Sequence

from tonnage.cluster.columns import MEMORY
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session


def used_shares(node: NodeState, free: Sequence[Sequence[int]], cards: Sequence[int]) -> list[float]:
    """The part of each card's memory that is in use."""
    devices, left = node.devices, free[MEMORY]
    return [(total - left[card]) / total if (total := devices[card].memory) else 0.0 for card in cards]


def every_task(task: Task) -> Hashable:
    """For answers that do not depend on the pod."""
    return ()


class GpuPack(Plugin, trusted=True):
    """Prefers the cards of which the most is in use."""

    name = "gpupack"

    def on_session_open(self, session: Session) -> None:
        session.add_gpu_order(self._score, key=every_task)

    @staticmethod
    def _score(
        task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        return used_shares(node, free, fitting)

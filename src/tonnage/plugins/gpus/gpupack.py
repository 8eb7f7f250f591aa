"""KAI's gpupack: a part of a card goes to the fullest shared card that it fits on, before an idle one."""

from collections.abc import Sequence

from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardorder import every_task, used_shares


class GpuPack(Plugin, trusted=True):
    """Prefers the cards with the most in use."""

    name = "gpupack"

    def on_session_open(self, session: Session) -> None:
        session.add_gpu_order(self._score, key=every_task)

    @staticmethod
    def _score(
        task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        return used_shares(node, free, fitting)

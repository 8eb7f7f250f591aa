"""KAI's gpuspread: a part of a card goes to an idle card while there is one, then to the emptiest."""

from collections.abc import Sequence

from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardorder import every_task, used_shares


class GpuSpread(Plugin, trusted=True):
    """Prefers the cards with the least in use."""

    name = "gpuspread"

    def on_session_open(self, session: Session) -> None:
        session.add_gpu_order(self._score, key=every_task)

    @staticmethod
    def _score(
        task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        return [1 - used for used in used_shares(node, free, fitting)]

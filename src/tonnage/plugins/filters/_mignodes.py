"""MIG nodes: what a node takes whose GPUs are cut into MIG instances, as KAI marks it by labels.

With the strategy `single` every instance looks like a whole GPU, and no part of one can be handed out; with `mixed` the
instances are resources of their own, and the node serves only pods that ask for some.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Demand, Requests, Task
from tonnage.framework.points import UNCONCERNED
from tonnage.model.selection import Expression
from tonnage.plugins.helpers.cardcounts import MIG_RESOURCES
from tonnage.plugins.helpers.nodeterms import meeting_all

REASONS = ("MigStrategyMismatch",)
_ENABLED = Expression("node-role.kubernetes.io/mig-enabled", "In", ["true"])
_STRATEGY = "nvidia.com/mig.strategy"
_SINGLE, _MIXED = "single", "mixed"
_TAKES = {_SINGLE: "pods that ask for whole GPUs", _MIXED: "pods that ask for MIG instances"}
_VENDOR = "NVIDIA"


class MigNodes:
    """Rejects nodes whose MIG strategy does not serve what the pod asks for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @staticmethod
    def key(task: Task) -> Hashable:
        """The strategies whose nodes do not take the pod."""
        return _refusing(task.requests, task.demands) or UNCONCERNED

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        """1 for each node that does not take the pod; nothing if all do."""
        if "true" not in self._cluster.label(_ENABLED.key).numbers:
            return None
        refusing = _refusing(task.requests, task.demands)
        marked = meeting_all(self._cluster, [_ENABLED, Expression(_STRATEGY, "In", list(refusing))], nodes)
        return marked.astype(np.uint8)

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        """The message about one node."""
        node = self._cluster.states[row].node
        strategy = node.labels.get(_STRATEGY, "")
        return lambda: f"{node.name}: with {_STRATEGY} {strategy} it takes only {_TAKES.get(strategy, 'others')}"


@lru_cache(maxsize=1024)
def _refusing(requests: Requests, demands: tuple[Demand, ...]) -> tuple[str, ...]:
    """The strategies whose nodes do not take pods with these requests."""
    if any(amount and name.startswith(MIG_RESOURCES) for name, amount in requests):
        return (_SINGLE,)
    asked = [request for demand in demands for request in demand.requests if request.vendor == _VENDOR]
    if any(request.shares for request in asked):
        return _SINGLE, _MIXED
    return (_MIXED,) if asked else ()

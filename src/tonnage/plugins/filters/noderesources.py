"""Node resources: a pod fits where processors, memory, storage, pod places and extended resources are left for it."""

from collections.abc import Callable

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task, requests_of
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.resources import NATIVE, show

REASONS = (
    "InsufficientCpu",
    "InsufficientMemory",
    "InsufficientEphemeralStorage",
    "InsufficientPods",
    "InsufficientExtendedResource",
)


class NodeResources(Plugin, trusted=True):
    """Keeps what is requested on a node within what the node can allocate."""

    name = "noderesources"

    def __init__(self, args: PluginArguments | None = None, *, only_cards: bool = False) -> None:
        super().__init__(args)
        self._only_cards = only_cards
        """Whether it checks only resources that count cards, because kube-scheduler has checked the others."""

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._counts = frozenset(vendor.count_resource for vendor in session.cluster.vendors)
        self._unquestioned = self._counts.union(NATIVE)
        self._known: Memo[Requests, tuple[Array, Array]] = Memo()
        session.add_pre_predicate(self._makes_sense)
        # The same function as others have, so that it is asked once for all of them.
        key = self._concerned if self._only_cards else requests_of
        session.add_batch_predicate(self._fits, key=key, reasons=REASONS, detail=self._detail)

    def _concerned(self, task: Task) -> Requests:
        """The part of a pod's requests that is looked at."""
        if not self._only_cards:
            return task.requests
        return tuple(request for request in task.requests if request[0] in self._counts)

    def _makes_sense(self, task: Task, job: Job) -> Reason | None:
        if task.fault:
            return Reason("InvalidRequest", task.fault)
        for name, value in task.requests:
            if name not in self._unquestioned and not self._is_offered(name):
                return Reason("InsufficientExtendedResource", f"no node offers {name}; the pod requests {value}")
        return None

    def _is_offered(self, name: str) -> bool:
        columns = self._cluster.columns
        position = columns.resources.get(name)
        return position is not None and bool(columns.allocatable[position].any())

    def _fits(self, task: Task, nodes: Nodes) -> Array | None:
        needs, codes = self._needs(task)
        short = nodes.free < needs
        # Looking at the bytes of a short array is faster than reducing it, and there is nearly always enough.
        if not short.tobytes().count(1):
            return None
        result: Array = np.maximum.reduce(short * codes, axis=0)
        return result

    def _needs(self, task: Task) -> tuple[Array, Array]:
        """How much of each resource must be free, and the code if it is not; of several the last one is reported."""
        memo, requests = self._known.at(self._cluster.columns.layout), self._concerned(task)
        known = memo.get(requests)
        if known is None:
            vector = self._cluster.vector(requests)
            codes = np.minimum(np.arange(1, len(vector) + 1), len(REASONS)).astype(np.uint8)
            # A pod that asks for none of something does not mind if less than none is left.
            known = memo.keep(requests, (np.where(vector > 0, vector, -UNLIMITED)[:, None], codes[:, None]))
        return known

    def _detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        columns = self._cluster.columns
        needs, free = self._cluster.vector(self._concerned(task)), columns.free[:, row].copy()
        offered, node = columns.allocatable[:, row].copy(), self._cluster.states[row].name

        def render() -> str:
            parts = []
            for name, position in sorted(columns.resources.items()):
                if position >= len(needs) or needs[position] <= free[position] or offered[position] >= UNLIMITED:
                    continue
                wanted, left = int(needs[position]), max(0, int(free[position]))
                texts = [show(name, wanted), show(name, left)]
                if texts[0] == texts[1]:
                    texts = [str(wanted), str(left)]
                parts.append(f"{name}: wants {texts[0]}, {texts[1]} of {show(name, int(offered[position]))} free")
            return f"{node}: " + "; ".join(parts)

        return render

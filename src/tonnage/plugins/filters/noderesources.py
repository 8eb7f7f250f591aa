"""Node resources: a pod fits where the node has enough CPU, memory, storage, pod slots and extended resources."""

from collections.abc import Callable

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task, requests_of
from tonnage.framework.classfit import FITS
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.resources import NATIVE, show

REASONS = (
    "InsufficientCpu",
    "InsufficientMemory",
    "InsufficientEphemeralStorage",
    "InsufficientPods",
    "InsufficientExtendedResource",
    "RefusedByKubelet",
)
_EXTENDED, _REFUSED = 5, 6


class NodeResources(Plugin, trusted=True):
    """Keeps the requests on a node within its allocatable resources."""

    name = "noderesources"

    def __init__(self, args: PluginArguments | None = None, *, only_cards: bool = False) -> None:
        super().__init__(args)
        self._only_cards = only_cards
        """Whether only card-counting resources are checked, because kube-scheduler has checked the others."""

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._counts = frozenset(vendor.count_resource for vendor in session.cluster.vendors)
        self._unquestioned = self._counts.union(NATIVE)
        self._known: Memo[Requests, tuple[Array, Array]] = Memo()
        session.add_pre_predicate(self._why_invalid)
        # Other plugins use the same function as key, so that it is evaluated once for all of them.
        self._checked = self._card_requests if self._only_cards else requests_of
        session.add_batch_predicate(
            self._fits,
            key=self._checked,
            reasons=REASONS,
            detail=self._detail,
            detail_per_class=True,
            reads=Reads.LOOK,
        )

    def _card_requests(self, task: Task) -> Requests:
        return tuple(request for request in task.requests if request[0] in self._counts)

    def _why_invalid(self, task: Task, job: Job) -> Reason | None:
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
        refused = self._cluster.refusals.nodes(task.requests) if self._cluster.refusals else None
        # Counting the bytes of a short array is faster than a reduction, and nearly always nothing is short.
        if not refused and not short.tobytes().count(1):
            return None
        result: Array = np.maximum.reduce(short * codes, axis=0)
        if refused:
            result[(result == FITS) & nodes.pick(self._cluster.mask(refused))] = _REFUSED
        return result

    def _needs(self, task: Task) -> tuple[Array, Array]:
        """The required amount of each resource, and the code if it is short; of several the last is reported."""
        memo, requests = self._known.at(self._cluster.columns.layout), self._checked(task)
        known = memo.get(requests)
        if known is None:
            vector = self._cluster.vector(requests)
            codes = np.minimum(np.arange(1, len(vector) + 1), _EXTENDED).astype(np.uint8)
            # A pod that does not request a resource fits even if the node is overcommitted in it.
            known = memo.keep(requests, (np.where(vector > 0, vector, -UNLIMITED)[:, None], codes[:, None]))
        return known

    def _detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        columns = self._cluster.columns
        needs, free = self._cluster.vector(self._checked(task)), columns.free[:, row].copy()
        offered, node = columns.allocatable[:, row].copy(), self._cluster.states[row].name
        refused = self._cluster.refusals.get(node, task.requests) if code == _REFUSED else None

        def render() -> str:
            if refused is not None:
                return f"{node}: its kubelet refused {refused.pod} ({refused.reason}), which asked for the same"
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

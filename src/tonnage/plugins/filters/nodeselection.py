"""Node selection: selector, required node affinity, taints and cordons, over label columns."""

from collections.abc import Callable

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Task, selection_of
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.selection import UNSCHEDULABLE, SelectionError, check_term, untolerated
from tonnage.plugins.helpers.nodeterms import required_terms, selected_nodes

REASONS = ("NodeUnschedulable", "NodeAffinityMismatch", "UntoleratedTaint")
_UNSCHEDULABLE, _MISMATCH, _TAINT = 1, 2, 3


class NodeSelection(Plugin, trusted=True):
    """Rejects nodes that the pod does not select or whose taints it does not tolerate."""

    name = "nodeselection"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._known: Memo[bytes, tuple[Array, bool]] = Memo()
        session.add_pre_predicate(self._why_invalid)
        session.add_batch_predicate(
            self._fits,
            key=selection_of,
            reasons=REASONS,
            detail=self._detail,
            detail_per_class=True,
            reads=Reads.NODE,
        )

    def _why_invalid(self, task: Task, job: Job) -> Reason | None:
        gates = task.pod.spec.schedulingGates
        if gates:
            return Reason(
                "SchedulingGated", f"waits for its scheduling gates: {', '.join(gate.name for gate in gates)}"
            )
        try:
            for term in (required_terms(task) if task.selection else None) or ():
                check_term(term)
        except SelectionError as error:
            return Reason("InvalidNodeAffinity", f"required node affinity: {error}")
        return None

    def _fits(self, task: Task, nodes: Nodes) -> Array | None:
        by_taints, anything = self._taint_codes(task)
        if not anything and not task.selection:
            return None
        codes: Array = by_taints.take(nodes.pick(self._cluster.columns.taints))
        selected = selected_nodes(self._cluster, task, nodes)
        if selected is not None:
            codes[~selected & (codes != _UNSCHEDULABLE)] = _MISMATCH
        return codes

    def _taint_codes(self, task: Task) -> tuple[Array, bool]:
        """The code of each set of taints in the cluster, and whether any of them rejects the pod."""
        known = self._known.get(task.selection)
        if known is not None and len(known[0]) == len(self._cluster.labels.taint_sets):
            return known
        tolerations = task.pod.spec.tolerations or ()
        codes = np.zeros(len(self._cluster.labels.taint_sets), np.uint8)
        for number, taints in enumerate(self._cluster.labels.taint_sets):
            taint = untolerated(tolerations, taints)
            if taint is not None:
                codes[number] = _UNSCHEDULABLE if taint == UNSCHEDULABLE else _TAINT
        return self._known.keep(task.selection, (codes, bool(codes.any())))

    def _detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        node = self._cluster.states[row].node
        taints = self._cluster.labels.taint_sets[self._cluster.columns.taints[row]]

        def render() -> str:
            if code == _MISMATCH:
                return f"{node.name}: its labels do not match the pod's node selector or required node affinity"
            if code == _UNSCHEDULABLE:
                return f"{node.name}: cordoned (spec.unschedulable)"
            taint = untolerated(task.pod.spec.tolerations or (), taints)
            if taint is None:
                return f"{node.name}: a taint the pod does not tolerate"
            value = f"={taint.value}" if taint.value else ""
            return f"{node.name}: the pod does not tolerate taint {taint.key}{value}:{taint.effect}"

        return render

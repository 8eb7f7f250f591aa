"""Fragmentation gradient descent (FGD): a pod goes where it adds the fewest fragments for typical pods.

For each node the plugin places the pod hypothetically, a part of one card on the card where it does the least harm, and
counts fragments before and after. The fewer it adds, the higher the score: the integer part of 100 × the sigmoid of the
gain, in cards. Nodes therefore often tie. Among equals, nodes with a card in use come first, in a hashed order of their
names, so that no pool or model is used up before the others.
"""

from collections.abc import Hashable, Sequence
from math import log

import numpy as np

from tonnage.cluster.columns import SLOTS, Array, Nodes
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.session import Session
from tonnage.plugins.fragmentation._workloads import WorkloadPlugin
from tonnage.plugins.fragmentation.fragments import SCALE, Fragments, free_cpu
from tonnage.plugins.fragmentation.trial import Trial
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.cardshares import WHOLE, share_of, size_of
from tonnage.plugins.helpers.hashes import part_of_one
from tonnage.plugins.helpers.podneeds import cpu_of, lasting_requests, needs_of

_ROUNDING = 1e-5
"""Popularities are rounded, so a hundred-thousandth of a card counts as nothing."""
_STEPS = np.array([(log(percent / (100 - percent)) - _ROUNDING) * SCALE for percent in range(1, 100)])
"""The gain required for each integer score from 1 on; 50 is a pod that changes nothing."""
_IN_USE, _MIXED = 0.5, 0.4
"""The tie-breakers: for a card in use, and at most for the hashed order."""


class FragmentationGradient(WorkloadPlugin, trusted=True):
    """Orders nodes, and the cards of a node, by the fragments that a pod would add."""

    name = "fragmentation"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._workload = self.workload_in(session.cluster)
        self._fragments = Fragments(session.cluster, ())
        self._number = 0
        """The version of the typical pods."""
        self._trial = Trial(session.cluster)
        self._layout = -1
        self._mixed = np.zeros(0)
        session.add_batch_node_order(self._score, key=self._key)
        session.add_gpu_order(self._order_cards, key=every_task)

    def _key(self, task: Task) -> Hashable:
        """The pod's needs and the version of the typical pods, so that relearning changes the pod class."""
        workload = self._workload()
        if workload is not self._fragments.workload:
            self._fragments = Fragments(self._cluster, workload)
            self._number += 1
        return needs_of(task), self._number

    def _score(self, task: Task, nodes: Nodes) -> Array:
        known, cards = self._fragments, nodes.cards
        known.update()
        self._mix()
        shares, before, cpu = nodes.pick(known.shares), nodes.pick(known.fragments), free_cpu(nodes) - cpu_of(task)
        requests = lasting_requests(task)
        if len(requests) == 1 and requests[0].count == 1:
            fits, after = self._trial.each(task, requests[0], cards)
            steps = np.where(fits, self._steps_of_each(shares, after, cards.model, before, cpu), -1).max(axis=0)
        else:
            left = self._trial.all_together(task, cards, shares)
            useful = known.usefulness.of(left, cards.model, cpu)
            steps = _steps(before - np.add.reduce(left, axis=0) * known.usefulness.everybody + useful)
        in_use = nodes.pick(nodes.columns.node_used[SLOTS]) > 0
        result: Array = steps + in_use * _IN_USE + nodes.pick(self._mixed)
        return result

    def _mix(self) -> None:
        """Recompute the hashed order if rows have moved."""
        if self._layout != self._cluster.columns.layout:
            self._layout = self._cluster.columns.layout
            self._mixed = np.array([part_of_one(state.name) for state in self._cluster.states]) * _MIXED

    def _steps_of_each(self, shares: Array, after: Array, model: Array, before: Array, cpu: Array) -> Array:
        """The score of using each card."""
        usefulness = self._fragments.usefulness
        left = np.add.reduce(shares, axis=0) - shares + after
        useful = usefulness.of_each(shares, after, model, cpu)
        return _steps(before - left * usefulness.everybody + useful)

    def _order_cards(
        self, task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        if all(share_of(request, size_of(node.devices[card])) == WHOLE for card in fitting):
            return [0.0] * len(fitting)
        if request.count > 1:
            return fullest_first(task, request, node, free, fitting)
        nodes = Nodes(self._cluster.columns, slice(node.row, node.row + 1))
        cards, amounts = nodes.cards, np.array(free, np.int64)[:, :, None]
        shares = self._trial.shares.of_amounts(amounts, cards.total, cards.model)
        after = self._trial.shares.after(request, amounts, cards.total, cards.model)
        self._fragments.update()
        before, cpu = nodes.pick(self._fragments.fragments), free_cpu(nodes) - cpu_of(task)
        steps = self._steps_of_each(shares, after, cards.model, before, cpu)
        result: list[float] = steps[fitting, 0].tolist()
        return result


def _steps(gained: Array) -> Array:
    """The integer part of 100 × the sigmoid of the gain."""
    return _STEPS.searchsorted(gained, side="right")

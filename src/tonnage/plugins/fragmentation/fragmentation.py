"""Fragmentation gradient descent (FGD): a pod goes where it adds the fewest fragments for typical pods.

For each node the plugin places the pod hypothetically, a part of one card on the card where it does the least harm, and
counts fragments before and after. The fewer it adds, the higher the score: the integer part of 100 × the sigmoid of the
gain, in cards. Nodes therefore often tie. Among equals, nodes with a card in use come first, in a hashed order of their
names, so that no pool or model is used up before the others.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import SLOTS, Array, Cards, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.plugins.fragmentation._learnedpods import HALF_LIFE_DAYS, LearnedPods
from tonnage.plugins.fragmentation.fragments import SCALE, Fragments, free_cpu
from tonnage.plugins.fragmentation.typicalpods import TypicalPods, WrittenPod, workload_of, written_in_file
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.cardrules import CARD_FITS, CardAsk
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares, share_of, size_of
from tonnage.plugins.helpers.hashes import part_of_one
from tonnage.plugins.helpers.podneeds import cpu_of, lasting_requests, needs_of

_FILE = "workload_file"

_ROUNDING = 1e-5
"""Popularities are rounded, so a hundred-thousandth of a card counts as nothing."""
_STEPS = np.array([(log(percent / (100 - percent)) - _ROUNDING) * SCALE for percent in range(1, 100)])
"""The gain required for each integer score from 1 on; 50 is a pod that changes nothing."""
_IN_USE, _MIXED = 0.5, 0.4
"""The tie-breakers: for a card in use, and at most for the hashed order."""


class FragmentationGradient(Plugin, trusted=True):
    """Orders nodes, and the cards of a node, by the fragments that a pod would add."""

    name = "fragmentation"

    class Arguments(PluginArguments):
        """The typical pods, or how they are learned from the cluster's pods if none are given."""

        workload: tuple[WrittenPod, ...] = ()
        half_life_days: float = HALF_LIFE_DAYS

        def __post_init__(self) -> None:
            if not 0 < self.half_life_days < float("inf"):
                raise ValueError(f"half_life_days: {self.half_life_days} is not a number of days above 0")

    file_arguments = frozenset((_FILE,))

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """The arguments; typical pods from a file replace the list."""
        content = given.get(_FILE)
        if content is None:
            return super().read_arguments(given, warn)
        if "workload" in given:
            raise ArgumentError(_FILE, "is given beside workload; keep one of them")
        others = {name: value for name, value in given.items() if name != _FILE}
        return super().read_arguments(others | {"workload": written_in_file(_FILE, content)}, warn)

    def workload_in(self, cluster: Cluster) -> Callable[[], TypicalPods]:
        """A function that returns the typical pods of a cluster as known at the time of the call."""
        learned = self.learned_in(cluster)
        if learned is not None:
            return learned.current
        given = workload_of(self.args.workload)
        return lambda: given

    def learned_in(self, cluster: Cluster) -> LearnedPods | None:
        """The learner of a cluster's typical pods; nothing if they are given."""
        return None if self.args.workload else LearnedPods(cluster, self.args.half_life_days)

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


class Trial:
    """Trial placements: the cards that fit a request, and what stays free of them once the pod is there."""

    def __init__(self, cluster: Cluster) -> None:
        self.shares = CardShares(cluster.columns)
        self._cluster = cluster
        self._asks: Memo[Hashable, CardAsk] = Memo()

    def each(self, task: Task, request: DeviceRequest, cards: Cards) -> tuple[Array, Array]:
        """The cards that the request fits on, and the share that it would leave free of each."""
        fits = self._ask(task, request).codes(cards, self._cluster.columns) == CARD_FITS
        return fits, self.shares.after(request, cards.free, cards.total, cards.model)

    def all_together(self, task: Task, cards: Cards, shares: Array) -> Array:
        """The free shares once each request has its cards, taken from the fullest first."""
        left = shares
        for request in lasting_requests(task):
            fits, after = self.each(task, request, cards)
            taken = shares - after
            fits &= left >= taken
            order = np.where(fits, left, WHOLE + 1).argsort(axis=0, kind="stable")[: request.count]
            chosen = np.zeros_like(fits)
            np.put_along_axis(chosen, order, True, axis=0)
            left = left - taken * (chosen & fits)
        return left

    def _ask(self, task: Task, request: DeviceRequest) -> CardAsk:
        key = (request, task.constraints)
        known = self._asks.get(key)
        if known is None:
            number = self._cluster.vendor_numbers[request.vendor]
            known = self._asks.keep(key, CardAsk(request, task, self._cluster.vendors[number], number))
        return known

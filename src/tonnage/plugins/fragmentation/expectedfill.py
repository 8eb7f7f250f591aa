"""Expected fill: a pod goes where the free cards lose the least of what typical pods will use of them.

The value of a node is what a stream of typical pods would fill of its free cards, plus what its places for scarce kinds
of pods are worth: whole cards, several cards, certain models. A score is 100 × the change of the value by the pod, in
cards, and is at most about 0; it is shown in two parts. Equal nodes come in a hashed order of their names.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards, Nodes
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.session import Session
from tonnage.plugins.fragmentation._nodevalues import NodeValues, Worth
from tonnage.plugins.fragmentation._places import ScarceKind
from tonnage.plugins.fragmentation._workloads import WorkloadPlugin
from tonnage.plugins.fragmentation.fragments import free_cpu
from tonnage.plugins.fragmentation.trial import Trial
from tonnage.plugins.helpers.cardorder import every_task, fullest_first
from tonnage.plugins.helpers.cardshares import WHOLE, share_of, size_of
from tonnage.plugins.helpers.hashes import part_of_one
from tonnage.plugins.helpers.podneeds import cpu_of, lasting_requests, needs_of

_SCALE = 100.0
"""The score of a card."""
_GRAIN = 1e-4
"""Scores are whole multiples of it, so that the order of sums decides nothing."""
_MOST_NAMED = 3
"""A note names no more kinds of pods than this."""
_MIXED = 4e-5
"""At most for the hashed order among equals."""


class ExpectedFill(WorkloadPlugin, trusted=True):
    """Orders nodes, and the cards of a node, by what a pod leaves to the typical pods."""

    name = "expectedfill"
    covered = 1.0
    _cluster: Cluster | None = None
    """The cluster of the last session; while it stays, so does what is known of it, because tables take time."""

    def on_session_open(self, session: Session) -> None:
        cluster = session.cluster
        if self._cluster is not cluster:
            self._cluster = cluster
            self._workload = self.workload_in(cluster)
            self._values = NodeValues(cluster, ())
        self._trial = Trial(cluster)
        self._layout = -1
        self._mixed = np.zeros(0)
        self._places = np.zeros(0)
        """The second part of the scores of which the first was asked for last."""
        session.add_batch_node_order(self._score_fill, key=self._key, part="fill")
        session.add_batch_node_order(self._score_places, key=self._key, part="places", note=self._note)
        session.add_gpu_order(self._order_cards, key=every_task)

    def _key(self, task: Task) -> Hashable:
        """The pod's needs and the number of the values, so that refreshing all of them changes the pod class."""
        workload = self._workload()
        if workload is not self._values.workload:
            number = self._values.number
            self._values = NodeValues(self._values.cluster, workload)
            self._values.number = number
        self._values.update()
        return needs_of(task), self._values.number

    def _score_fill(self, task: Task, nodes: Nodes) -> Array:
        after = self._after(task, nodes)
        self._mix()
        now = self._values.now
        self._places = _score(after.places, nodes.pick(now.places)) + nodes.pick(self._mixed)
        return _score(after.fill, nodes.pick(now.fill))

    def _score_places(self, task: Task, nodes: Nodes) -> Array:
        return self._places

    def _after(self, task: Task, nodes: Nodes) -> Worth:
        """The values of nodes with the pod, on the card where it leaves the most."""
        values, cards = self._values, nodes.cards
        shares, cpu = nodes.pick(values.shares), free_cpu(nodes) - cpu_of(task)
        requests = lasting_requests(task)
        if len(requests) != 1 or requests[0].count != 1:
            return values.of(self._trial.all_together(task, cards, shares), cards.model, cpu)
        fits, after = self._trial.each(task, requests[0], cards)
        each = values.of_each(shares, after, cards.model, cpu)
        best, everyone = _best(fits, each), np.arange(len(nodes))
        return Worth(each.fill[best, everyone], each.places[best, everyone])

    def _note(self, task: Task, row: int) -> Callable[[], str]:
        """What the pod costs the typical pods on its node, and which places it takes."""
        values, nodes = self._values, Nodes(self._values.cluster.columns, slice(row, row + 1))
        cards, shares, cpu = nodes.cards.copy(), nodes.pick(values.shares).copy(), np.maximum(free_cpu(nodes), 0)
        fill, kinds = values.now.fill.item(row), values.places.kinds

        def sentence() -> str:
            after, left = self._left(task, cards, shares, cpu), np.maximum(cpu - cpu_of(task), 0)
            lost = fill - values.of(after, cards.model, left).fill.item()
            before, now = (
                values.places.room(*each) for each in ((shares, cards.model, cpu), (after, cards.model, left))
            )
            taken = [(kind, was - stays) for kind, was, stays in zip(kinds, before, now, strict=True) if was > stays]
            return _sentence(lost, taken)

        return sentence

    def _left(self, task: Task, cards: Cards, shares: Array, cpu: Array) -> Array:
        """The free shares of a node with the pod."""
        requests = lasting_requests(task)
        if len(requests) != 1 or requests[0].count != 1:
            return self._trial.all_together(task, cards, shares)
        fits, each = self._trial.each(task, requests[0], cards)
        best = _best(fits, self._values.of_each(shares, each, cards.model, cpu - cpu_of(task)))[0]
        after = shares.copy()
        after[best] = each[best]
        return after

    def _mix(self) -> None:
        """Recompute the hashed order if rows have moved."""
        cluster = self._values.cluster
        if self._layout != cluster.columns.layout:
            self._layout = cluster.columns.layout
            self._mixed = np.array([part_of_one(state.name) for state in cluster.states]) * _MIXED

    def _order_cards(
        self, task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        if len(fitting) == 1 or all(share_of(request, size_of(node.devices[card])) == WHOLE for card in fitting):
            return [0.0] * len(fitting)
        if request.count > 1:
            return fullest_first(task, request, node, free, fitting)
        nodes = Nodes(self._values.cluster.columns, slice(node.row, node.row + 1))
        cards, amounts = nodes.cards, np.array(free, np.int64)[:, :, None]
        shares = self._trial.shares.of_amounts(amounts, cards.total, cards.model)
        after = self._trial.shares.after(request, amounts, cards.total, cards.model)
        self._values.update()
        each = self._values.of_each(shares, after, cards.model, free_cpu(nodes) - cpu_of(task))
        result: list[float] = _score(each.fill + each.places, np.zeros(1))[fitting, 0].tolist()
        return result


def _best(fits: Array, each: Worth) -> Array:
    """The card of each node on which a pod leaves the most."""
    result: Array = np.where(fits, each.fill + each.places, -np.inf).argmax(axis=0)
    return result


def _sentence(lost: float, taken: Sequence[tuple[ScarceKind, int]]) -> str:
    """What a pod costs on its node, and up to three kinds whose places it takes, the dearest first."""
    sentence = f"typical pods can fill {max(0.0, lost):.2f} cards less of this node"
    dearest = sorted(taken, key=lambda one: -one[0].worth * one[1])[:_MOST_NAMED]
    places = [
        f"{count} of {kind.places} places for {kind.name} (about {kind.expected:.0f} such pods expected)"
        for kind, count in dearest
    ]
    return f"{sentence}; takes {', '.join(places)}" if places else sentence


def _score(after: Array, before: Array) -> Array:
    """The score of a change."""
    result: Array = np.rint((after - before) * (_SCALE / _GRAIN)) * _GRAIN
    return result

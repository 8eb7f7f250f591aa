"""Queue counts: nodes, queues and pods in the units of shares (millicores, bytes, thousandths of cards).

KAI divides the cards of all vendors together, CPU and memory; a MIG instance of n slices counts as n cards. Volcano
divides every resource that nodes offer, the cards of each vendor separately. A part of a card counts as its part of the
card's memory: a fraction or percentage as given, MiB relative to the vendor's largest card, rounded up to a hundredth,
as in KAI. So a pod counts the same wherever it runs.
"""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import LARGEST, MEMORY, OFFERED, Array
from tonnage.cluster.jobs.queue import GPU, Shares
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import INIT, Demand, Requests, Task
from tonnage.devices.base import PERCENTAGE_UNSET, DeviceRequest
from tonnage.model import resources
from tonnage.plugins.queues._queuetable import Amounts, Dimension

CARD = 1000
"""The count of a whole card."""
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes that are not ready."""
_UNLIMITED = -1
_MIG = re.compile(r"nvidia\.com/mig-([1-9])g\.\d+gb(\..+)?")
"""The resource of a MIG instance, with the number of its slices."""


class _Kind(NamedTuple):
    """A counted dimension: a node resource, or the cards of some vendors."""

    names: tuple[str, ...]
    """The names that queues use for it."""
    vendors: tuple[int, ...] = ()


class QueueCounts:
    """The dimensions of shares, the cluster's total in them, and the count of each pod."""

    def __init__(self, cluster: Cluster, by_kai: bool) -> None:
        nodes = cluster.all_nodes()
        ready = np.array([_is_ready(cluster, row) for row in range(len(nodes))], np.bool_)
        offered = nodes.amounts[OFFERED].compress(ready, axis=1).sum(axis=1).tolist()
        there = {name: offered[place] for name, place in cluster.columns.resources.items() if name != resources.PODS}
        vendor = _vendors_of_cards(cluster)
        self._vendors = cluster.vendor_numbers
        self._largest = [
            int(cluster.columns.card_total[MEMORY][vendor == n].max(initial=0)) for n in range(len(cluster.vendors))
        ]
        usable = vendor.compress(ready, axis=1) if len(nodes) else vendor
        cards = [CARD * int(np.count_nonzero(usable == number)) for number in range(len(cluster.vendors))]
        counts = [one.count_resource for one in cluster.vendors]
        if by_kai:
            kinds = [_Kind((GPU, *dict.fromkeys(counts)), tuple(range(len(counts))))]
            plain = [resources.CPU, resources.MEMORY]
        else:
            kinds = [_Kind((counts[number],), (number,)) for number, count in enumerate(cards) if count]
            plain = [name for name, amount in there.items() if amount > 0 and name not in counts]
        self._kinds = [*kinds, *(_Kind((name,)) for name in plain)]
        self.dimensions = [Dimension(kind.names[0], CARD if kind.vendors else 1) for kind in self._kinds]
        self.total: Amounts = [
            sum(cards[number] for number in kind.vendors) if kind.vendors else there.get(kind.names[0], 0)
            for kind in self._kinds
        ]
        self._slices = {name: int(found[1]) for name in there if (found := _MIG.fullmatch(name))} if by_kai else {}
        """By the resource of a MIG instance, how many cards it counts."""
        if self._slices:
            self.total = [self.total[0] + self._instances(there.items()), *self.total[1:]]
        self._known: Memo[tuple[Requests, tuple[Demand, ...]], Amounts] = Memo()
        self.offered = self.total
        """What the nodes offer; the total leaves out what pods of other schedulers hold of it."""
        self._leave_out_others(
            cluster, {state.name for state, is_ready in zip(cluster.states, ready, strict=True) if is_ready}
        )

    def _leave_out_others(self, cluster: Cluster, ready: set[str]) -> None:
        """Divide only what is left beside the pods of other schedulers, which no queue can get."""
        for task in cluster.running.values():
            if not cluster.is_ours(task.pod) and task.pod.node in ready:
                held = zip(self.total, self.of_task(task), strict=True)
                self.total = [max(total - amount, 0) for total, amount in held]

    def of_shares(self, shares: Shares, absent: int) -> Amounts:
        """A queue's amounts in the order of the dimensions; `absent` where it states none."""
        return [self._of_queue(shares, kind, absent) for kind in self._kinds]

    def _of_queue(self, shares: Shares, kind: _Kind, absent: int) -> int:
        given = [shares[name] for name in kind.names if name in shares]
        if not given:
            return absent
        amount = sum(given) * (CARD if kind.vendors else 1)
        return _UNLIMITED if math.isinf(amount) else min(round(amount), LARGEST)

    def of_task(self, task: Task) -> Amounts:
        """The amounts that a running pod holds."""
        key = (task.requests, task.demands)
        known = self._known.get(key)
        if known is None:
            needs = dict(task.requests)
            known = [
                self._cards(task.demands, kind.vendors) if kind.vendors else min(needs.get(kind.names[0], 0), LARGEST)
                for kind in self._kinds
            ]
            if self._slices:
                known = [min(known[0] + self._instances(task.requests), LARGEST), *known[1:]]
            self._known.keep(key, known)
        return known

    def _instances(self, amounts: Iterable[tuple[str, int]]) -> int:
        """The count of MIG instances; cards are the first dimension of KAI's."""
        return sum([CARD * self._slices[name] * amount for name, amount in amounts if name in self._slices])

    def _cards(self, demands: tuple[Demand, ...], vendors: tuple[int, ...]) -> int:
        """Cards at the pod's peak: of its containers together, or of the init container that asks for more."""
        together = alone = 0
        for demand in demands:
            asked = [r for r in demand.requests if self._vendors[r.vendor] in vendors]
            cards = sum([self._part(request) * request.count for request in asked])
            if demand.kind == INIT:
                alone = max(alone, cards)
            else:
                together += cards
        return min(max(together, alone), LARGEST)

    def _part(self, request: DeviceRequest) -> int:
        numerator, denominator = request.fraction
        if not numerator:
            if request.memory <= 0 and request.percentage != PERCENTAGE_UNSET:
                return min(request.percentage * CARD // 100, CARD)
            numerator, denominator = request.memory, self._largest[self._vendors[request.vendor]]
            if not numerator or not denominator:
                return CARD
        return min(-(-100 * numerator // denominator) * CARD // 100, CARD)


def _is_ready(cluster: Cluster, row: int) -> bool:
    return not any(taint.key in _NOT_READY for taint in cluster.states[row].node.spec.taints or ())


def _vendors_of_cards(cluster: Cluster) -> Array:
    """The vendor of each usable card, -1 elsewhere, as (positions, nodes)."""
    columns = cluster.columns
    vendors = np.array([-1 if model.state else model.vendor for model in columns.models], np.intp)
    return vendors[columns.model[:, : columns.size]]

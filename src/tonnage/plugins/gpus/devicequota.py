"""Device quotas: the pods of a namespace hold no more card memory and compute than its quota allows.

What a pod will hold is mostly known in advance. Where it depends on the card (a whole card, a percentage, a MIG
instance, a plain card) and the quota is too tight for any card, the plugin rejects nodes whose smallest card is too
large, chooses cards of different sizes so that they stay within the quota, and counts what the pod would get before it
gets it. The key alone separates these pods from pods that any card suits.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import CORES, MEMORY, Array, Nodes
from tonnage.cluster.holding import VendorUse, card_uses
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.memo import Memo
from tonnage.cluster.quotas import Amounts, Excess, Quota, peak
from tonnage.cluster.task import Task
from tonnage.devices.base import MIG_MODE, WHOLE_CARD, DeviceRequest
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardcounts import CardCounts

REASONS = ("ResourceQuotaNotFit",)
_FAR = np.int64(2**40)
"""More memory than any card has, in MiB."""

Tight = tuple[tuple[int, int], ...]
"""Resources of which some card may take more than is left, with the rest."""
Asked = tuple[tuple[str, int, DeviceRequest], ...]
"""A pod's requests in the order of its containers, with the kind of container and the vendor's number."""


class DeviceQuota(Plugin, trusted=True):
    """Keeps namespaces within their quotas on the memory and compute of cards."""

    name = "devicequota"

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        self._quotas = session.cluster.quotas
        self._counts = CardCounts(session.cluster)
        self._found: tuple[Task | None, Tight] = (None, ())
        self._refused: Memo[Hashable, Amounts] = Memo()
        """The amounts that pods would have got, by the node's row, the pod's requests and the rest of its quota."""
        session.add_pre_predicate(self._within)
        number = session.add_batch_predicate(
            self._too_large, key=self._key, reasons=REASONS, detail=self._detail, reads=Reads.LOOK
        )
        session.add_gpu_set(self._affordable)
        if number >= 0:
            session.add_grant_predicate(self._is_too_much, number)

    # -- the pod itself

    def _within(self, task: Task, job: Job) -> Reason | None:
        """Why the pod exceeds the quota with any cards."""
        if not self._quotas.limits or not task.demands:
            return None
        if task.namespace not in self._quotas.limits:
            return None
        over = self._excess(task, self._least(task))
        return Reason("ResourceQuotaNotFit", over.message) if over is not None else None

    def _excess(self, task: Task, amounts: Amounts) -> Excess | None:
        """The first quota that the amounts would exceed."""
        limits, used = self._quotas.limits.get(task.namespace, {}), self._quotas.used(task.namespace)
        for number, amount in sorted(amounts.items()):
            quota = Quota(limits[number], used.get(number, 0)) if number in limits and amount else None
            if quota is not None and quota.used + amount > quota.limit:
                return Excess(self._quotas.names[number], amount, quota)
        return None

    def _asked(self, task: Task) -> Asked:
        numbers = self._cluster.vendor_numbers
        return tuple([(d.kind, numbers[request.vendor], request) for d in task.demands for request in d.requests])

    def _least(self, task: Task) -> Amounts:
        """The least that the pod will hold."""
        steps: dict[int, list[tuple[str, int]]] = {}
        for kind, vendor, request in self._asked(task):
            memory, cores = self._quotas.numbers[vendor]
            steps.setdefault(memory, []).append((kind, request.count * request.memory))
            if not request.scales:
                steps.setdefault(cores, []).append((kind, request.count * min(request.cores, WHOLE_CARD)))
        return {number: peak(parts) for number, parts in steps.items()}

    def _most(self, task: Task) -> Amounts:
        """The most that the pod will hold, with any cards."""
        columns = self._cluster.columns
        varies = columns.particulars or columns.plain
        most: Amounts = {}
        for _, vendor, request in self._asked(task):
            largest, most_cores = self._quotas.largest[vendor]
            memory = max(request.memory, largest) if varies else int(request.memory_on(largest))
            cores = max(WHOLE_CARD, most_cores) if varies else _cores_on(request, most_cores)
            for number, amount in zip(self._quotas.numbers[vendor], (memory, cores), strict=True):
                most[number] = most.get(number, 0) + request.count * amount
        return most

    def _tight(self, task: Task) -> Tight:
        """The result of `_find_tight`, which every decision calls first for its key."""
        last, tight = self._found
        return tight if task is last else self._find_tight(task)

    def _key(self, task: Task) -> Hashable:
        return self._find_tight(task) or UNCONCERNED

    def _find_tight(self, task: Task) -> Tight:
        """The rest of each quota that the pod may exceed, depending on its cards."""
        quotas = self._quotas
        limits = quotas.limits.get(task.namespace) if quotas.limits and task.demands else None
        if limits is None:
            self._found = (task, ())
            return ()
        used, most = quotas.used(task.namespace), self._most(task)
        left = {number: max(limit - used.get(number, 0), 0) for number, limit in sorted(limits.items())}
        tight = tuple([(number, rest) for number, rest in left.items() if most.get(number, 0) > rest])
        self._found = (task, tight)
        return tight

    # -- all nodes at once

    def _too_large(self, task: Task, nodes: Nodes) -> Array | None:
        result: Array | None = None
        for number, left in self._tight(task):
            # Only arrays can exceed the rest: amounts that do not depend on the node were checked before.
            beyond = self._cheapest(task, number, nodes) > left
            if isinstance(beyond, np.ndarray):
                result = beyond if result is None else result | beyond
        return None if result is None else result.astype(np.uint8)

    def _cheapest(self, task: Task, number: int, nodes: Nodes) -> Any:
        """The least that the pod needs of a resource on each node: all its cards are the node's smallest."""
        steps: list[tuple[str, Any]] = []
        for kind, vendor, request in self._asked(task):
            memory, cores = self._quotas.numbers[vendor]
            if number not in (cores, memory):
                continue
            total = nodes.cards.total
            if number == memory:
                each = request.memory_on(total[MEMORY])
                if isinstance(each, np.ndarray):
                    each = each * self._counts.sized(nodes.cards)
            else:
                each = _cores_on(request, total[CORES])
            if isinstance(each, np.ndarray):
                each = np.where(self._counts.owned(nodes.cards, (vendor,)), each, _FAR).min(axis=0)
            steps.append((kind, each * request.count))
        return peak(steps, np.maximum)

    # -- one node

    def _affordable(
        self, task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]
    ) -> Sequence[int] | None:
        """The most preferred cards that stay within the quota, where cards differ in their amounts."""
        tight = self._tight(task)
        if not tight:
            return None
        number = self._quotas.numbers[self._cluster.vendor_numbers[request.vendor]][0]
        left = dict(tight).get(number)
        devices = self._cluster.states[row].devices
        if left is None or len(self._asked(task)) > 1 or any(devices[card].mode == MIG_MODE for card in candidates):
            return None
        sizes = [devices[card].memory if devices[card].memory_known else 0 for card in candidates]
        costs = [int(request.memory_on(size)) for size in sizes]
        chosen: list[int] = []
        for place, card in enumerate(candidates):
            missing = request.count - len(chosen)
            if not missing:
                break
            rest = sorted(costs[place + 1 :])[: missing - 1]
            if len(rest) == missing - 1 and costs[place] + sum(rest) <= left:
                chosen.append(card)
                left -= costs[place]
        return chosen if len(chosen) == request.count else None

    def _is_too_much(self, task: Task, row: int, grant: Grant) -> bool:
        tight = self._tight(task)
        if not tight:
            return False
        amounts = self._quotas.amounts(VendorUse(vendor, card_uses(task.kinds, uses)) for vendor, uses in grant)
        if all(amounts.get(number, 0) <= left for number, left in tight):
            return False
        self._refused.at(self._cluster.columns.layout).keep((row, task.demands, tight), amounts)
        return True

    # -- messages

    def _detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        tight, name = self._tight(task), self._cluster.states[row].name
        nodes = Nodes(self._cluster.columns, slice(row, row + 1))
        amounts = {number: int(np.max(self._cheapest(task, number, nodes))) for number, _ in tight}
        over = self._excess(task, amounts)
        if over is None:
            amounts = self._refused.at(self._cluster.columns.layout).get((row, task.demands, tight), {})
            over = self._excess(task, amounts)
        message = over.message if over is not None else "the cards that the pod would get exceed a quota"
        return lambda: f"{name}: {message}"


def _cores_on(request: DeviceRequest, total: Any) -> Any:
    """The compute that a request takes of a card with so many cores."""
    return request.cores_on(total) if request.scales else min(request.cores, WHOLE_CARD)

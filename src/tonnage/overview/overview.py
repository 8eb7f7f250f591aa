"""Overview: the rows and totals of one cluster at one time, brought up to date at the cost of what has changed."""

from collections.abc import Sequence

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.overview.noderows import NodeRow, NodeRows
from tonnage.overview.queuerows import QueueNumbers, QueueRow, queue_rows
from tonnage.overview.usage import measure
from tonnage.overview.waitingpods import DecisionOf, WaitingGroup, WaitingPods, grouped
from tonnage.plugins.fragmentation.usablecards import UsableCards


class ClusterTotals(msgspec.Struct, frozen=True, gc=False):
    """Figures of the whole cluster."""

    nodes: int
    cards: int
    idle: int
    """Cards that nobody uses."""
    partial: int
    """Cards with something used and something left."""
    full: int
    """Cards whose memory, compute or slots are exhausted."""
    stranded: int
    """Cards that only look free."""
    stranded_free: float
    """The free parts of those, in cards."""
    unhealthy: int
    """Cards that take no new pods, cordoned ones included."""
    memory_percent: float
    """Of all card memory, what is allocated."""
    cores_percent: float
    free: float
    """The free parts of all cards, in cards."""
    usable: float
    """The part of them that a typical pod can use."""
    fragmentation_percent: float
    """The free parts that typical pods cannot use, in percent of all cards."""
    running: int
    """Pods with a node or a reserved place."""
    waiting: int
    """Pods that wait."""


class ClusterOverview(msgspec.Struct, frozen=True, gc=False):
    """A cluster at one time."""

    nodes: tuple[NodeRow, ...]
    """In the order of names."""
    waiting: tuple[WaitingGroup, ...]
    queues: tuple[QueueRow, ...]
    totals: ClusterTotals
    stamp: int
    """The stamp of the newest node row."""


class Overview:
    """Follows one cluster; whoever changes the cluster must not do so during `update`."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin] = ()) -> None:
        self._cluster = cluster
        self._usable = UsableCards(cluster, plugins)
        self.node_rows = NodeRows(cluster, self._usable)
        self._waiting = WaitingPods(cluster)

    def update(
        self, decision_of: DecisionOf = lambda task: None, figures: QueueNumbers | None = None
    ) -> ClusterOverview:
        """The cluster as it is now, with the decisions about waiting pods and the figures of its queues."""
        self.node_rows.update()
        nodes = tuple([row for _, row in sorted(self.node_rows.rows.items())])
        waiting = self._waiting.rows(decision_of)
        queues = queue_rows(self._cluster, figures or {}, nodes, waiting)
        totals = self._totals(nodes, len(waiting))
        return ClusterOverview(nodes, tuple(grouped(waiting)), tuple(queues), totals, self.node_rows.stamp)

    def _totals(self, nodes: Sequence[NodeRow], waiting: int) -> ClusterTotals:
        usage, cards, cluster = measure(self._cluster), self._usable.count(), self._cluster
        return ClusterTotals(
            len(nodes),
            usage.cards,
            usage.idle,
            usage.partial,
            usage.full,
            sum([row.stranded for row in nodes]),
            sum([card.free for row in nodes for card in row.cards if card.stranded]),
            sum([bool(card.health) for row in nodes for card in row.cards]),
            usage.memory,
            usage.cores,
            cards.free,
            cards.usable,
            cards.fragmentation,
            len(cluster.running) + len(cluster.reserved) - len(cluster.pipelined),
            waiting,
        )

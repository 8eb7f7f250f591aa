"""Volcano's nodeorder: Kubernetes' scores of nodes, added up with weights.

| argument | nodes are better | default |
|---|---|---|
| leastrequested.weight | the less of their CPU and memory is requested | 1 |
| mostrequested.weight | the more of it | 0 |
| balancedresource.weight | the more evenly CPU, memory and GPUs are requested with the pod there | 1 |
| nodeaffinity.weight | the more of the pod's preferred node affinity they match | 2 |
| podaffinity.weight | the more preferred pods, and the fewer avoided ones, run in their domains | 2 |
| tainttoleration.weight | the fewer PreferNoSchedule taints they have that the pod does not tolerate | 3 |
| imagelocality.weight | the more of the pod's images they have | 1 |
| podtopologyspread.weight | the fewer matching pods there are in their domains | 2 |

Every score is an integer from 0 to 100, as Kubernetes computes it, and is multiplied by its weight. Volcano does not
normalize preferred node affinity to the highest sum of weights; Kubernetes does, and so does this plugin.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import COUNTED, OFFERED, USED, Array, Nodes
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task, counted_of, selection_of
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments, Pull
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.model.resources import CPU, MEMORY, Additions
from tonnage.plugins.scoring import _singlenode
from tonnage.plugins.scoring._nodepreferences import NodeAffinityScore, TaintScore
from tonnage.plugins.scoring._podpreferences import PodAffinityScore, SpreadScore, add_part
from tonnage.plugins.scoring._resourcescores import balanced_allocation, least_allocated, most_allocated

GPU = "nvidia.com/gpu"
_LARGEST_WEIGHT = 2**31 - 1
_KEYS = {
    "least_requested": "leastrequested.weight",
    "most_requested": "mostrequested.weight",
    "balanced_resource": "balancedresource.weight",
    "node_affinity": "nodeaffinity.weight",
    "pod_affinity": "podaffinity.weight",
    "taint_toleration": "tainttoleration.weight",
    "image_locality": "imagelocality.weight",
    "pod_topology_spread": "podtopologyspread.weight",
}
_CPU_AND_MEMORY = slice(0, 2)
"""The rows of CPU and memory, which come first."""
_EQUALLY = np.array([[1], [1]])
_MIB = 1024 * 1024
_SMALLEST_IMAGES, _LARGEST_IMAGES = 23 * _MIB, 1000 * _MIB
_HIGHEST = 100


class OrderRequest(NamedTuple):
    """The part of a pod that the resource scores depend on."""

    counted: list[tuple[int, int, int]]
    """Row, amount and weight of CPU and memory, as Kubernetes counts them."""
    balanced: list[int]
    """The rows of the balanced resources; empty if the pod requests none of them."""
    requested: list[int]
    """The pod's requests of those."""


class NodeOrder(Plugin, trusted=True):
    """Orders nodes as Kubernetes does."""

    name = "nodeorder"

    class Arguments(PluginArguments, rename=_KEYS):
        """The weight of each score; 0 switches it off."""

        least_requested: int = 1
        most_requested: int = 0
        balanced_resource: int = 1
        node_affinity: int = 2
        pod_affinity: int = 2
        taint_toleration: int = 3
        image_locality: int = 1
        pod_topology_spread: int = 2

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        for key, weight in self.written_arguments().items():
            if abs(weight) > _LARGEST_WEIGHT:
                raise ArgumentError(key, f"expects a weight up to {_LARGEST_WEIGHT}, not {weight}")

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """Volcano's keys; a negative weight inverts the score, as in Volcano."""
        args = super().read_arguments(given, warn)
        weights = cls(args).written_arguments()
        for key, weight in weights.items():
            if weight < 0:
                warn(key, f"{weight} is below 0, so that what it prefers is avoided")
        if not any(weights.values()):
            warn(next(iter(given)), "every weight is 0, so that the plugin scores nothing")
        return args

    def pull(self) -> Pull:
        least, most = self.args.least_requested, self.args.most_requested
        label = f"{self.name} with {_KEYS['least_requested']} {least}"
        label += f" and {_KEYS['most_requested']} {most}" if most else ""
        return Pull(label, most - least, least, {CPU: 1, MEMORY: 1})

    def on_session_open(self, session: Session) -> None:
        args, cluster = self.args, session.cluster
        self._cluster = cluster
        self._known: Memo[tuple[Requests, Additions], OrderRequest] = Memo()
        if args.least_requested or args.most_requested or args.balanced_resource:
            session.add_batch_node_order(self._score, key=counted_of, reads=Reads.LOOK)
        if args.image_locality:
            images = ImageScore(cluster, args.image_locality)
            session.add_batch_node_order(images.evaluate, key=images.key, reads=Reads.NODE)
        if args.node_affinity:
            affinity = NodeAffinityScore(session, args.node_affinity)
            session.add_batch_node_order(affinity.evaluate, key=affinity.key, reduce=affinity.reduce)
        if args.taint_toleration:
            taints = TaintScore(cluster, args.taint_toleration)
            session.add_batch_node_order(
                taints.evaluate,
                key=selection_of,
                reduce=taints.reduce,
                alike=taints.without_taints,
                reads=Reads.NODE,
            )
        if args.pod_affinity:
            add_part(session, PodAffinityScore(cluster), float(args.pod_affinity))
        if args.pod_topology_spread:
            add_part(session, SpreadScore(cluster), float(args.pod_topology_spread))

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        """The scores that depend on a node's resources."""
        wanted = self._wanted(task)
        even = self.args.balanced_resource if wanted.balanced else 0
        weights = (self.args.least_requested, self.args.most_requested, even)
        if not any(weights):
            return None
        few = nodes.each
        if few is not None:
            return np.array([_score_one(node, wanted, *weights) for node in few])
        return _score_all(nodes, wanted, *weights)

    def _wanted(self, task: Task) -> OrderRequest:
        memo, key = self._known.at(self._cluster.columns.layout), (task.requests, task.unstated)
        known = memo.get(key)
        return memo.keep(key, self._work_out(*key)) if known is None else known

    def _work_out(self, requests: Requests, additions: Additions) -> OrderRequest:
        resources, vector, asked = self._cluster.columns.resources, self._cluster.vector(requests), dict(requests)
        amounts = [int(vector[row]) + more for row, more in enumerate(additions)]
        names = [name for name in (CPU, MEMORY, GPU) if name in resources and (name != GPU or name in asked)]
        rows = [resources[name] for name in names]
        requested = [int(vector[row]) for row in rows]
        counted = [(row, amount, 1) for row, amount in enumerate(amounts)]
        asks = any(name in asked for name in (CPU, MEMORY, GPU))
        return OrderRequest(counted, rows if asks else [], requested)


def _score_one(node: _singlenode.Node, wanted: OrderRequest, least: int, most: int, even: int) -> float:
    score = 0
    if least:
        score += _singlenode.least_allocated(node, wanted.counted) * least
    if most:
        score += _singlenode.most_allocated(node, wanted.counted) * most
    if even:
        score += _singlenode.balanced_allocation(node, wanted.balanced, wanted.requested) * even
    return float(score)


def _score_all(nodes: Nodes, wanted: OrderRequest, least: int, most: int, even: int) -> Array:
    score = np.zeros(len(nodes))
    if least or most:
        amounts = np.array([amount for _, amount, _ in wanted.counted])[:, None]
        counted, capacity = nodes.amounts[COUNTED, _CPU_AND_MEMORY] + amounts, nodes.amounts[OFFERED, _CPU_AND_MEMORY]
        score += least_allocated(counted, capacity, _EQUALLY) * least
        score += most_allocated(counted, capacity, _EQUALLY) * most
    if even:
        used, capacity = nodes.amounts[USED, wanted.balanced], nodes.amounts[OFFERED, wanted.balanced]
        score += balanced_allocation(used, np.array(wanted.requested)[:, None], capacity) * even
    return score


class ImageScore:
    """Kubernetes' ImageLocality: nodes that have more of a pod's images score higher.

    An image counts its size times the share of nodes that have it, so that not all pods go to the first node that
    pulled it. Sums go from 23 MiB to 1000 MiB for each container.
    """

    def __init__(self, cluster: Cluster, weight: int) -> None:
        self._cluster = cluster
        self._weight = np.array(weight)

    def key(self, task: Task) -> Hashable:
        """The pod's images with the number of nodes that have each: a change rescores all nodes."""
        spread = self._cluster.rows.images.spread
        known = [(name, spread[name]) for name in task.images if name in spread] if spread else ()
        return (len(task.kinds), *known) if known else UNCONCERNED

    def evaluate(self, task: Task, nodes: Nodes) -> Array:
        spread, total = self._cluster.rows.images.spread, self._cluster.columns.size
        known = [name for name in task.images if name in spread]
        parts = [nodes.pick(self._cluster.rows.image(name)) * (spread[name] / total) for name in known]
        found = np.array(parts).astype(np.int64).sum(axis=0)
        most = _LARGEST_IMAGES * len(task.kinds)
        scores: Array = (
            _HIGHEST
            * (np.minimum(np.maximum(found, _SMALLEST_IMAGES), most) - _SMALLEST_IMAGES)
            // (most - _SMALLEST_IMAGES)
        )
        scores *= self._weight
        return scores

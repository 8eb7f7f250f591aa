"""Refusals: what kubelets refused, so that it is not tried again on the same picture.

A kubelet that refuses a pod knows of something on its node that the watch has not shown: mostly a pod that another
scheduler has bound there at the same moment. Pods with the same requests are not placed there until something on the
node changes. Only what says that the node has not enough counts here: other refusals come from the pod itself, its
annotations for instance, and its tenant must not keep others off a node by them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tonnage.cluster.rows import Rows
from tonnage.cluster.task import Requests
from tonnage.model.problem import Problem

MOST_PER_NODE = 64
"""Different requests that are remembered for a node; the first ones are forgotten beyond that."""
_OUT_OF = "OutOf"
_TOPOLOGY = "TopologyAffinityError"
_ABOUT_THE_POD = frozenset(("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "NodeName"))


class Refusal(NamedTuple):
    """A pod that a kubelet refused."""

    pod: str
    reason: str


def is_refusal(reason: str | None) -> bool:
    """Whether a failed pod's reason is that its kubelet did not admit it."""
    return reason is not None and (_is_about_the_node(reason) or reason in _ABOUT_THE_POD)


def _is_about_the_node(reason: str) -> bool:
    """Whether another pod with the same requests would be refused as well, whoever created it."""
    return reason.startswith(_OUT_OF) or reason == _TOPOLOGY


class Refusals:
    """Refused requests by node; the cluster's user says what was refused, and when something changed on a node."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_node: dict[str, dict[Requests, Refusal]] = {}
        self.counts: Counter[str] = Counter()
        """Pods that were ever refused, by reason."""

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(self, node: str, requests: Requests, refusal: Refusal) -> None:
        """A kubelet has refused a pod."""
        self.counts[refusal.reason] += 1
        if not _is_about_the_node(refusal.reason):
            return
        known = self._by_node.setdefault(node, {})
        known[requests] = refusal
        if len(known) > MOST_PER_NODE:
            del known[next(iter(known))]
        self._touch(node)

    def clear(self, node: str) -> bool:
        """Something has changed on a node; whether anything was refused there."""
        if self._by_node.pop(node, None) is None:
            return False
        self._touch(node)
        return True

    def nodes(self, requests: Requests) -> list[str]:
        """The nodes whose kubelet has refused a pod with these requests."""
        return [node for node, known in self._by_node.items() if requests in known]

    def get(self, node: str, requests: Requests) -> Refusal | None:
        """The pod with these requests that a node's kubelet refused last."""
        return self._by_node.get(node, {}).get(requests)

    def problems(self) -> Iterator[Problem]:
        """One problem per node, in the order of names."""
        for node in sorted(self._by_node):
            pod, reason = list(self._by_node[node].values())[-1]
            message = f"its kubelet refused {pod} ({reason}); such pods go elsewhere until something changes there"
            yield Problem(f"Node/{node}", "", "", "", message)

    def _touch(self, node: str) -> None:
        state = self._rows.nodes.get(node)
        if state is not None:
            self._rows.columns.touch(state.row)

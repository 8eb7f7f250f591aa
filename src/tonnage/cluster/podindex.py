"""The index of pods with a node, by what rules about other pods select: labels, carried terms, ports, claims.

Everything is counted per node and kept current by events. Labels are indexed only once the first rule selects by them;
until then pods without rules of their own cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tonnage.cluster.columns import Array, Columns
from tonnage.cluster.memo import Memo
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.podrules import PodRules, WeightedTerm
from tonnage.cluster.task import Task
from tonnage.model.podselector import PodSelector

T = TypeVar("T")

_MOST_COUNTERS = 2048
_MOST_IDLE = 256
Pair = tuple[str, str]


class NodeCounts:
    """The number of pods of some kind on each node, also as a column."""

    __slots__ = ("_changed", "_column", "_layout", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[str, int] = {}
        self._layout = -1
        self._column: Array
        self._changed: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self.by_node)

    def add(self, node: str, sign: int) -> None:
        count = self.by_node.get(node, 0) + sign
        if count:
            self.by_node[node] = count
        else:
            self.by_node.pop(node, None)
        if self._layout >= 0:
            self._changed.add(node)

    def column(self, columns: Columns, nodes: Mapping[str, NodeState]) -> Array:
        """The counts by row; do not write to it."""
        if self._layout != columns.layout:
            self._layout = columns.layout
            self._column = np.zeros(columns.size, np.int64)
            self._changed = set(self.by_node)
        if self._changed:
            for name in self._changed:
                state = nodes.get(name)
                if state is not None:
                    self._column[state.row] = self.by_node.get(name, 0)
            self._changed.clear()
        return self._column


class ByLabel(Generic[T]):
    """Things that select pods by labels, found without visiting all of them."""

    def __init__(self) -> None:
        self._anchored: dict[Pair, dict[T, None]] = {}
        self._others: dict[T, None] = {}

    def add(self, selector: PodSelector, thing: T) -> None:
        anchored = False
        for pair in selector.anchors():
            self._anchored.setdefault(pair, {})[thing] = None
            anchored = True
        if not anchored:
            self._others[thing] = None

    def remove(self, selector: PodSelector, thing: T) -> None:
        for pair in selector.anchors():
            things = self._anchored.get(pair)
            if things is not None:
                things.pop(thing, None)
                if not things:
                    del self._anchored[pair]
        self._others.pop(thing, None)

    def about(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Everything that may select a pod with these labels, each once."""
        for pair in labels.items():
            yield from self._anchored.get(pair, ())
        yield from self._others


class CarriedTerms:
    """The terms about other pods that pods with a node carry, with the number of carriers on each node.

    A term without a carrier is idle and stays for a while: a search for victims removes carriers and restores them.
    """

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._counts: dict[WeightedTerm, NodeCounts] = {}
        self._numbers: dict[WeightedTerm, int] = {}
        self._given = 0
        self._idle: set[WeightedTerm] = set()
        self._by_label: ByLabel[WeightedTerm] = ByLabel()
        self._about: Memo[tuple[str, tuple[Pair, ...]], MatchingTerms] = Memo()
        self._last: tuple[Task, MatchingTerms] | None = None
        """The last answer; a decision asks several times about one pod."""

    def add(self, weighted: WeightedTerm, node: str, sign: int) -> None:
        counts = self._counts.get(weighted)
        if counts is None:
            counts = self._counts[weighted] = NodeCounts()
            self._given += 1
            self._numbers[weighted] = self._given
            self._by_label.add(weighted.term.selector, weighted)
            self.forget()
        elif not counts:
            self._idle.discard(weighted)
            self._last = None
        counts.add(node, sign)
        if not counts:
            self._idle.add(weighted)
            self._last = None
            if len(self._idle) > max(_MOST_IDLE, len(self._counts) // 2):
                self._drop_idle()

    @property
    def carried(self) -> dict[WeightedTerm, NodeCounts]:
        """The terms that a pod carries."""
        return {weighted: counts for weighted, counts in self._counts.items() if counts}

    def __bool__(self) -> bool:
        return len(self._counts) > len(self._idle)

    def _drop_idle(self) -> None:
        for weighted in self._idle:
            del self._counts[weighted], self._numbers[weighted]
            self._by_label.remove(weighted.term.selector, weighted)
        self._idle.clear()
        self.forget()

    def about(self, task: Task) -> "MatchingTerms":
        """The carried terms that select this pod."""
        last = self._last
        if last is not None and last[0] is task:
            return last[1]
        known = self._selecting(task)
        if self._idle and not self._idle.isdisjoint([weighted for weighted, _ in known.terms]):
            places = [place for place, (_, counts) in enumerate(known.terms) if counts]
            known = MatchingTerms(
                tuple([known.numbers[place] for place in places]), tuple([known.terms[place] for place in places])
            )
        self._last = (task, known)
        return known

    def _selecting(self, task: Task) -> "MatchingTerms":
        """The carried and idle terms that select this pod."""
        labels = task.pod.labels
        key = (task.namespace, tuple(labels.items()))
        known = self._about.get(key)
        if known is None:
            found = [
                weighted
                for weighted in self._by_label.about(labels)
                if weighted.term.selector.matches(task.namespace, labels, self._namespaces)
            ]
            found.sort(key=self._numbers.__getitem__)
            known = MatchingTerms(
                tuple([self._numbers[weighted] for weighted in found]),
                tuple([(weighted, self._counts[weighted]) for weighted in found]),
            )
            self._about.keep(key, known)
        return known

    def clear(self) -> None:
        """Forget all terms."""
        self._counts.clear()
        self._idle.clear()
        self._numbers.clear()
        self._by_label = ByLabel()
        self.forget()

    def forget(self) -> None:
        """Forget the answers, because terms or namespaces have changed."""
        self._about.clear()
        self._last = None


class MatchingTerms(NamedTuple):
    """The carried terms that select a pod."""

    numbers: tuple[int, ...]
    """A number for each term, so that pods selected by the same terms share a class."""
    terms: tuple[tuple[WeightedTerm, NodeCounts], ...]


class SelectedPods(NamedTuple):
    """The pods that all of some selectors select."""

    selectors: tuple[PodSelector, ...]
    staying: bool = False
    """Whether pods that are being deleted are left out."""


class PodIndex:
    """The pods with a node that may matter to rules of others."""

    def __init__(
        self,
        columns: Columns,
        nodes: Mapping[str, NodeState],
        namespaces: Mapping[str, Mapping[str, str]],
        all_placed: Callable[[], Iterable[tuple[Task, str]]],
    ) -> None:
        self._columns = columns
        self._nodes = nodes
        self._namespaces = namespaces
        self._all_placed = all_placed
        self.pods: dict[str, tuple[Task, str]] = {}
        """The indexed pods with their nodes: pods with rules, and all pods once labels are indexed."""
        self.indexes_labels = False
        """Whether labels are indexed."""
        self.anti_affinity = CarriedTerms(namespaces)
        """The required anti-affinity terms of pods with a node."""
        self.preferences = CarriedTerms(namespaces)
        """The preferred and required affinity terms of pods with a node, as they count in scores of other pods."""
        self.ports: dict[tuple[str, int], dict[str, NodeCounts]] = {}
        """Nodes on which a port is in use, by protocol and port, then by address."""
        self.users: dict[str, dict[str, str]] = {}
        """Pods that use a claim, with their nodes, by the claim's namespace and name."""
        self.asking_for_namespaces = 0
        """The number of pods whose rules select other pods by labels of namespaces."""
        self._by_pair: dict[Pair, dict[str, str]] = {}
        self._by_namespace: dict[str, dict[str, str]] = {}
        self._counters: dict[SelectedPods, NodeCounts] = {}
        self._asking: ByLabel[SelectedPods] = ByLabel()
        self._counted_in: Memo[tuple[str, bool, tuple[Pair, ...]], tuple[NodeCounts, ...]] = Memo()
        """The counters that count a pod, by its namespace, whether it is being deleted, and its labels."""

    # -- events

    def put(self, task: Task, node: str) -> bool:
        """Index a pod that has a node; whether that may change decisions about other pods."""
        before = self.pods.get(task.key)
        if before is not None and before[1] == node and _alike(before[0], task):
            self.pods[task.key] = (task, node)
            return False
        self.drop(task.key)
        self.pods[task.key] = (task, node)
        self._count(task, node, 1)
        return True

    def drop(self, key: str) -> None:
        """Remove a pod that has no node any more."""
        placed = self.pods.pop(key, None)
        if placed is not None:
            self._count(*placed, -1)

    def forget(self) -> None:
        """Forget answers and counters, because changed namespaces change what selectors select."""
        self.anti_affinity.forget()
        self.preferences.forget()
        self._drop_counters()

    def rebuild(self) -> None:
        """Index all pods with a node anew."""
        self.pods.clear()
        self.ports.clear()
        self.users.clear()
        self._by_pair.clear()
        self._by_namespace.clear()
        self.asking_for_namespaces = 0
        self.anti_affinity.clear()
        self.preferences.clear()
        self.forget()
        for task, node in self._all_placed():
            if task.rules is not None or self.indexes_labels:
                self.put(task, node)

    # -- reading

    def column(self, counts: NodeCounts) -> Array:
        """Counts by row."""
        return counts.column(self._columns, self._nodes)

    def counts(self, selected: SelectedPods) -> NodeCounts:
        """The number of selected pods on each node; the counter stays current from its first use on."""
        known = self._counters.get(selected)
        if known is None:
            if not self.indexes_labels:
                self._index_labels()
            if len(self._counters) >= _MOST_COUNTERS:
                self._drop_counters()
            self._counted_in.clear()
            known = self._counters[selected] = NodeCounts()
            self._asking.add(selected.selectors[0], selected)
            for task, node in self._candidates(selected.selectors[0]):
                if self.selects(selected, task):
                    known.add(node, 1)
        return known

    def selects(self, selected: SelectedPods, task: Task) -> bool:
        """Whether a pod is selected."""
        if selected.staying and task.pod.is_leaving:
            return False
        labels = task.pod.labels
        return all(s.matches(task.namespace, labels, self._namespaces) for s in selected.selectors)

    def _drop_counters(self) -> None:
        self._counters.clear()
        self._counted_in.clear()
        self._asking = ByLabel()

    def _candidates(self, selector: PodSelector) -> Iterator[tuple[Task, str]]:
        pairs = list(selector.anchors())
        found = [self._by_pair.get(pair, ()) for pair in pairs]
        if not pairs and selector.chosen is not None:
            yield from self.pods.values()
        elif not pairs:
            found = [self._by_namespace.get(namespace, ()) for namespace in selector.namespaces]
        for keys in found:
            for key in keys:
                yield self.pods[key]

    # -- counting

    def _index_labels(self) -> None:
        """Index the labels of all pods from now on; pods with rules are in the index already."""
        self.indexes_labels = True
        for task, node in self._all_placed():
            self.pods.setdefault(task.key, (task, node))
            self._index_labels_of(task, node, 1)

    def _count(self, task: Task, node: str, sign: int) -> None:
        if task.rules is not None:
            self._count_rules(task, task.rules, node, sign)
        if self.indexes_labels:
            self._index_labels_of(task, node, sign)
            for counts in self._counting(task):
                counts.add(node, sign)

    def _index_labels_of(self, task: Task, node: str, sign: int) -> None:
        _index(self._by_namespace, task.namespace, task.key, node, sign)
        for pair in task.pod.labels.items():
            _index(self._by_pair, pair, task.key, node, sign)

    def _counting(self, task: Task) -> tuple[NodeCounts, ...]:
        """The counters that count a pod."""
        labels = task.pod.labels
        key = task.namespace, task.pod.is_leaving, tuple(labels.items())
        known = self._counted_in.get(key)
        if known is None:
            asking = [selected for selected in self._asking.about(labels) if self.selects(selected, task)]
            known = self._counted_in.keep(key, tuple([self._counters[selected] for selected in asking]))
        return known

    def _count_rules(self, task: Task, rules: PodRules, node: str, sign: int) -> None:
        for weighted in rules.carried_anti:
            self.anti_affinity.add(weighted, node, sign)
        for weighted in rules.carried_preferences:
            self.preferences.add(weighted, node, sign)
        for port in rules.ports:
            by_address = self.ports.setdefault((port.protocol, port.port), {})
            by_address.setdefault(port.address, NodeCounts()).add(node, sign)
        self.asking_for_namespaces += sign * rules.asks_for_namespaces
        for claim in rules.claims:
            _index(self.users, claim, task.key, node, sign)


def _index(index: dict[T, dict[str, str]], thing: T, key: str, node: str, sign: int) -> None:
    """Add a pod to the pods of something (sign 1), or remove it (sign -1)."""
    pods = index.get(thing)
    if pods is None:
        pods = index[thing] = {}
    if sign > 0:
        pods[key] = node
        return
    pods.pop(key, None)
    if not pods:
        del index[thing]


def _alike(one: Task, other: Task) -> bool:
    """Whether no rule can distinguish two states of a pod."""
    if one.pod.labels != other.pod.labels or one.pod.is_leaving != other.pod.is_leaving:
        return False
    if one.rules is None or other.rules is None:
        return one.rules is other.rules
    return one.rules.key == other.rules.key

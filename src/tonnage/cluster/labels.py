"""Node labels and taints as columns of small numbers, so that a selector is evaluated for all nodes at once.

A label's column is built when the first selector uses it and kept current from then on.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.model.node import Node
from tonnage.model.selection import UNSCHEDULABLE, Expression, Taint, integer

ABSENT = -1
NODE_NAME = ""
"""The key under which the column of node names is found; no label has an empty key."""


class LabelColumn:
    """One label: a number per node, and the number of each value."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.numbers: dict[str, int] = {}
        self.ids = np.array([self.number(value) for value in values], dtype=np.int64)

    def number(self, value: str | None) -> int:
        """The number of a value, allocated on first use."""
        return ABSENT if value is None else self.numbers.setdefault(value, len(self.numbers))

    def where(self, expression: Expression, ids: Array) -> Array:
        """Whether nodes with these numbers meet the expression."""
        match expression.operator:
            case "Exists":
                return np.asarray(ids != ABSENT)
            case "DoesNotExist":
                return np.asarray(ids == ABSENT)
            case "In" | "NotIn":
                listed = [self.numbers[v] for v in expression.values or [] if v in self.numbers]
                found = np.isin(ids, listed) if len(listed) != 1 else ids == listed[0]
                return np.asarray(found if expression.operator == "In" else ~found)
        bound = integer((expression.values or [""])[0])
        meets = np.zeros(len(self.numbers) + 1, np.bool_)
        for value, number in self.numbers.items():
            have = integer(value)
            if have is not None and bound is not None:
                meets[number] = have > bound if expression.operator == "Gt" else have < bound
        return np.asarray(meets[ids])


class Labels:
    """The label columns in use, and the taint sets that occur."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}

    def column(self, key: str, nodes: Callable[[], Iterable[Node]]) -> LabelColumn:
        """The column of a label, or of the nodes' names."""
        known = self._columns.get(key)
        if known is None:
            known = self._columns[key] = LabelColumn([_value(node, key) for node in nodes()])
        return known

    def change(self, row: int, node: Node) -> None:
        """Update a row with a node's labels."""
        for key, column in self._columns.items():
            column.ids[row] = column.number(_value(node, key))

    def forget(self) -> None:
        """Drop the columns, because row numbers have changed."""
        self._columns.clear()

    def taint_id(self, node: Node) -> int:
        """The number of the node's set of taints, including the one for a cordoned node."""
        taints = tuple(node.spec.taints or ())
        if node.spec.unschedulable:
            taints += (UNSCHEDULABLE,)
        known = self._taint_ids.get(taints)
        if known is None:
            self.taint_sets.append(taints)
            known = self._taint_ids[taints] = len(self.taint_sets) - 1
        return known


def _value(node: Node, key: str) -> str | None:
    return node.name if key == NODE_NAME else node.labels.get(key)

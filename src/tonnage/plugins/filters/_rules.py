"""Several rules that a plugin asks as one predicate."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task


class Rule(Protocol):
    """Something that may keep pods off nodes."""

    @property
    def reasons(self) -> Sequence[str]:
        """The names of the codes from 1 on."""

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        """A code for each node, 0 if it will do; nothing if all of them will."""

    def sentence(self, task: Task, row: int, code: int) -> str:
        """Why one node will not do."""


class RuleSet:
    """Rules that must all pass; the first that says no is the reason."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        lengths = [len(rule.reasons) for rule in rules]
        self._offsets = [np.uint8(sum(lengths[:number])) for number in range(len(lengths))]
        self.reasons = [reason for rule in rules for reason in rule.reasons]

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        joined: Array | None = None
        for rule, offset in zip(self._rules, self._offsets, strict=True):
            codes = rule.codes(task, nodes)
            if codes is None:
                continue
            if offset:
                codes = np.where(codes != 0, codes + offset, codes)
            joined = codes if joined is None else np.where(joined != 0, joined, codes)
        return joined

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        """The sentence about one node; put together at once, because the pods that it names may go."""
        number = max(n for n, offset in enumerate(self._offsets) if offset < code)
        sentence = self._rules[number].sentence(task, row, code - int(self._offsets[number]))
        return lambda: sentence

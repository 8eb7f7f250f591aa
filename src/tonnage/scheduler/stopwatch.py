"""Stopwatch: the time that plugins and actions take, measured by wrapping them, because the engine has no clock."""

from collections.abc import Callable
from typing import Any, cast

from tonnage.framework.action import Action
from tonnage.framework.points import BATCH_NODE_ORDER, BATCH_PREDICATE, NODE_ORDER, PREDICATE
from tonnage.framework.registration import F
from tonnage.framework.session import Session

LONG = 50e-6
"""A function that takes at least so many seconds is measured at every call."""
SKIPPED = 15
_ABOUT_NODES = {point.name for point in (PREDICATE, BATCH_PREDICATE, NODE_ORDER, BATCH_NODE_ORDER)}
"""Points whose functions take a task and some nodes."""


class Stopwatch:
    """Adds up the time that plugins take, by plugin and extension point; a session calls it for every function.

    Short calls about nodes are measured every sixteenth time and counted for the fifteen in between: there are so many
    of them that reading the clock would take a noticeable part of a cycle.
    """

    def __init__(self, clock: Callable[[], float], report: Callable[[str, float], None]) -> None:
        self._clock = clock
        self._report = report
        """Called with the name of each action and the seconds that it took."""
        self._spent: dict[tuple[str, str], list[float]] = {}

    def __call__(self, plugin: str, point: str, function: F) -> F:
        """The function, measured."""
        spent = self._spent.setdefault((plugin, point), [0.0])
        measure = self._sometimes if point in _ABOUT_NODES else self._always
        return cast(F, measure(function, spent))

    def _always(self, function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
        clock = self._clock

        def measured(*about: Any) -> Any:
            begun = clock()
            try:
                return function(*about)
            finally:
                spent[0] += clock() - begun

        return measured

    def _sometimes(self, function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
        clock, left, skipped = self._clock, 0, 0

        def measured(task: Any, nodes: Any) -> Any:
            nonlocal left, skipped
            if left:
                left -= 1
                return function(task, nodes)
            begun = clock()
            answer = function(task, nodes)
            took = clock() - begun
            spent[0] += took * (1 + skipped)
            left = skipped = 0 if took >= LONG else SKIPPED
            return answer

        return measured

    def action(self, action: Action) -> Action:
        """The action, measured."""
        return _TimedAction(action, self._clock, self._report)

    def seconds(self) -> dict[tuple[str, str], float]:
        """The seconds that each plugin has taken so far at each point."""
        return {where: spent[0] for where, spent in self._spent.items()}


class _TimedAction(Action):
    """An action that reports how long it takes."""

    def __init__(self, action: Action, clock: Callable[[], float], report: Callable[[str, float], None]) -> None:
        self._action = action
        self._clock = clock
        self._report = report
        self.name = action.name  # type: ignore[misc]  # each has the name of the one it wraps

    def run(self, session: Session) -> None:
        begun = self._clock()
        try:
            self._action.run(session)
        finally:
            self._report(self.name, self._clock() - begun)

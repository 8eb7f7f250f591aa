"""Names in a plugin's arguments that stand for nothing: resources that no node offers are most likely misspelt."""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.framework.session import Session
from tonnage.model.problem import Problem

ANY = "*"
"""Stands at the end of a name for whatever follows."""


class NamedResource(NamedTuple):
    """A resource that an argument names, and what comes of it if no node offers it."""

    field: str
    resource: str
    effect: str


class UnknownResources:
    """Reports once, as soon as there are nodes."""

    def __init__(self, session: Session, plugin: str, named: Iterable[NamedResource]) -> None:
        self._session = session
        self._plugin = plugin
        self._named = list(named)
        self.report()

    def report(self) -> None:
        """Say which of the resources no node offers; to be called before each use, costs nothing after the first."""
        if not self._named or not self._session.cluster.nodes:
            return
        states = self._session.cluster.nodes.values()
        offered = {name for state in states for name, amount in state.offers.items() if amount}
        for field, resource, effect in self._named:
            if not _is_among(resource, offered):
                message = f"no node offers {resource}; {effect}"
                self._session.report(Problem(f"Plugin/{self._plugin}", field, "", "a resource of a node", message))
        self._named = []


def _is_among(resource: str, offered: Iterable[str]) -> bool:
    if resource.endswith(ANY):
        return any(name.startswith(resource[:-1]) for name in offered)
    return resource in offered

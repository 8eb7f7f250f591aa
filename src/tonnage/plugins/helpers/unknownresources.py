"""Unknown resources in plugin arguments: names that no node offers are most likely misspelt."""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.framework.session import Session
from tonnage.model.problem import Problem

ANY = "*"
"""The suffix of a name that stands for any ending."""


class NamedResource(NamedTuple):
    """A resource that an argument names, and the effect if no node offers it."""

    field: str
    resource: str
    effect: str


class UnknownResources:
    """The report of a plugin's unknown resources, made once, as soon as there are nodes."""

    def __init__(self, session: Session, plugin: str, named: Iterable[NamedResource]) -> None:
        self._session = session
        self._plugin = plugin
        self._named = list(named)
        self.report()

    def report(self) -> None:
        """Report the resources that no node offers; plugins call this before each use, and only the first costs."""
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

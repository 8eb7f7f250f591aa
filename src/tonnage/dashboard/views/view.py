"""View: what all views have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tonnage.dashboard.board import Board
from tonnage.dashboard.liveview import Parts
from tonnage.server.viewer import Viewer


class UnknownThingError(Exception):
    """Something that a page should be about does not exist, or may not be seen by this caller."""

    def __init__(self, kind: str, name: str, near: list[str]) -> None:
        super().__init__(f"there is no {kind} {name}")
        self.kind, self.name, self.near = kind, name, near


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a view: by whom, about what, and where links begin."""

    board: Board
    viewer: Viewer
    base: str
    params: Mapping[str, str]

    def choice(self, name: str, known: Mapping[str, object], otherwise: str) -> str:
        """A parameter with a few known values."""
        given = self.params.get(name, otherwise)
        return given if given in known else otherwise


class View(ABC):
    """One kind of page."""

    name: ClassVar[str]
    title: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    """The parameters that its parts depend on; others are ignored."""
    needs_nodes: ClassVar[bool] = False
    """Whether it says nothing without the right to see nodes."""
    needs_queues: ClassVar[bool] = False

    def heading(self, asked: Asked) -> str:
        """The heading of the page."""
        return self.title

    def missing_right(self, viewer: Viewer) -> str:
        """The right without which the view says nothing to a caller; empty if the caller has it."""
        if self.needs_nodes and not viewer.sees_nodes:
            return "list nodes"
        return "list queues" if self.needs_queues and not viewer.sees_queues else ""

    async def prepare(self, asked: Asked) -> None:
        """Find out what takes long before a page is made; streams only show what was found."""
        return

    @abstractmethod
    def parts(self, asked: Asked) -> Parts:
        """The parts that change, as HTML."""

    def around(self, asked: Asked) -> dict[str, Any]:
        """What the template needs besides."""
        return {}

"""Action: the base class of the steps of a scheduling cycle."""

from abc import ABC, abstractmethod
from typing import ClassVar

from tonnage.framework.session import Session


class Action(ABC):
    """One step of a cycle. The configuration says which actions run, and in which order."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, session: Session) -> None:
        """Place or evict pods, and record the decision about each in `session.decisions`."""

"""What an action is: a name, and what it does with a session."""

from abc import ABC, abstractmethod
from typing import ClassVar

from tonnage.framework.session import Session


class Action(ABC):
    """One step of a cycle. The configuration says which actions run, and in which order."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, session: Session) -> None:
        """Place or evict pods, and keep what was concluded about each in `session.decisions`."""

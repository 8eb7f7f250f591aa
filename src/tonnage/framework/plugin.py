"""What a plugin is: a name, and what it registers when a session opens."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tonnage.framework.session import Session


class Plugin(ABC):
    """A policy. In `on_session_open` it registers callbacks at the session's extension points."""

    name: ClassVar[str]

    @abstractmethod
    def on_session_open(self, session: "Session") -> None:
        """Register callbacks."""

    def on_session_close(self, session: "Session") -> None:  # noqa: B027 -- most plugins have nothing to tidy up
        """Tidy up."""

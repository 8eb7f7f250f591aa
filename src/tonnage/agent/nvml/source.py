"""CardSource: where cards come from, and the thread that owns it.

The thread opens the source again and again until it works, so a driver that comes later is found; looks at the cards
every half minute; and waits for their errors in between.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from tonnage.agent.core.cards import CardLoad
from tonnage.agent.nvml.found import FoundCard, LeftOut

SCAN = 30.0
"""Seconds between two looks at all cards."""
LOOK = 5.0
"""Seconds between two looks at what the cards do."""
_WAIT = 500
"""Milliseconds of one wait for errors."""
_OPEN_AGAIN = 2.0


class SourceError(Exception):
    """The cards cannot be had now; the message says why."""


class CardSource(Protocol):
    """NVML, or invented cards."""

    is_invented: bool

    def open(self) -> None:
        """Begin; SourceError if it is not possible now."""

    def close(self) -> None:
        """End."""

    def cards(self) -> tuple[list[FoundCard], list[LeftOut]]:
        """All cards, and those that do not answer; SourceError."""

    def loads(self) -> dict[str, CardLoad]:
        """What the cards do, by UUID; those that do not answer are left out."""

    def next_error(self, milliseconds: int) -> tuple[str | None, int] | None:
        """The next error of a card (None: of all) with its XID; None if there is none in that time; SourceError."""


class CardListener(Protocol):
    """Is told what the thread sees, in that thread."""

    def found(self, cards: list[FoundCard], left: list[LeftOut]) -> None: ...

    def loaded(self, loads: dict[str, CardLoad]) -> None: ...

    def struck(self, uuid: str | None, xid: int) -> None: ...

    def failed(self, why: str) -> None: ...


class CardThread:
    """Follows a source until it is stopped."""

    def __init__(self, source: CardSource, listener: CardListener, clock: Callable[[], float]) -> None:
        self._source = source
        self._listener = listener
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cards", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._source.open()
                try:
                    self._follow()
                finally:
                    self._source.close()
            except SourceError as error:
                self._listener.failed(str(error))
                self._stopped.wait(_OPEN_AGAIN)

    def _follow(self) -> None:
        due = look = self._clock()
        while not self._stopped.is_set():
            if self._clock() >= due:
                self._listener.found(*self._source.cards())
                due = self._clock() + SCAN
            if self._clock() >= look:
                self._listener.loaded(self._source.loads())
                look = self._clock() + LOOK
            error = self._source.next_error(_WAIT)
            if error is not None:
                self._listener.struck(*error)

"""LiveView: the parts of a page that change, and which of them have changed since a page was told last."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Parts = Mapping[str, Mapping[str, str]]
"""By the id of the element that holds them: elements of a page by their id, in order, as HTML."""
MOST_VIEWS = 64
"""Views that are kept; the ones that were not asked for longest go first."""
_FIRST = ""


class Update(msgspec.Struct, frozen=True):
    """What a page is told: elements to set, each with its parent and the one before it, and elements to remove."""

    stamp: int
    set: list[tuple[str, str, str, str]]
    """Parent, id, the id of the element before it (empty for none), HTML."""
    gone: list[str]
    now: float
    seen: float
    trouble: str
    waiting: int | None = None
    """How many pods wait, for whoever may see all of them."""


class LiveView:
    """The parts of one view, each with the look at which it changed last."""

    def __init__(self, render: Callable[[], Parts]) -> None:
        self._render = render
        self._version = -1
        self.parts: dict[str, dict[str, str]] = {}
        self._stamps: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._since = 0
        """Whoever was told before this look is told everything."""
        self._answers: dict[int, tuple[list[tuple[str, str, str, str]], list[str]]] = {}

    def update(self, version: int) -> None:
        """Render the parts as of a look at the cluster, once."""
        if version == self._version:
            return
        before = {key: html for elements in self.parts.values() for key, html in elements.items()}
        self.parts = {holder: dict(elements) for holder, elements in self._render().items()}
        after = {key for elements in self.parts.values() for key in elements}
        for elements in self.parts.values():
            for key, html in elements.items():
                # Rows that did not change are mostly the same object.
                if before.get(key) is not html and before.get(key) != html:
                    self._stamps[key] = version
                    self._gone.pop(key, None)
        for key in before.keys() - after:
            self._stamps.pop(key, None)
            self._gone[key] = version
        if len(self._gone) > len(after) + 1000:
            self._gone.clear()
            self._since = version
        if self._version < 0:
            self._since = version
        self._version = version
        self._answers.clear()

    @property
    def stamp(self) -> int:
        return self._version

    def since(self, stamp: int) -> tuple[list[tuple[str, str, str, str]], list[str]]:
        """Elements that changed after a look, and elements that went; everything if that was too long ago."""
        known = self._answers.get(stamp)
        if known is None:
            changed = []
            for holder, elements in self.parts.items():
                last = _FIRST
                for key, html in elements.items():
                    if self._stamps[key] > stamp or stamp < self._since:
                        changed.append((holder, key, last, html))
                    last = key
            known = self._answers[stamp] = changed, [key for key, when in self._gone.items() if when > stamp]
        return known


class LiveViews:
    """The views that pages look at, one for all pages with the same address and the same rights."""

    def __init__(self) -> None:
        self._views: dict[Any, LiveView] = {}

    def get(self, key: Any, version: int, render: Callable[[], Parts]) -> LiveView:
        """A view, up to date."""
        found = self._views.pop(key, None)
        if found is None:
            found = LiveView(render)
            while len(self._views) >= MOST_VIEWS:
                del self._views[next(iter(self._views))]
        self._views[key] = found
        found.update(version)
        return found


class RowCache:
    """HTML of rows, made again only for rows that are other objects than before."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, str]] = {}
        self._used: dict[Any, tuple[Any, str]] = {}

    def begin(self) -> None:
        """Forget what the last round did not use."""
        self._known, self._used = self._used, {}

    def get(self, key: Any, row: Any, make: Callable[[], object]) -> str:
        """The HTML of a row."""
        known = self._known.get(key)
        if known is None or known[0] is not row:
            known = row, str(make())
        self._used[key] = known
        return known[1]

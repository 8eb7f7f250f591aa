"""Memos: caches of bounded size."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A dictionary that is cleared when it is full or when the layout of the columns changes."""

    layout = -1

    def __init__(self, most: int = 1024) -> None:
        super().__init__()
        self._most = most

    def at(self, layout: int) -> "Memo[K, V]":
        """The memo, cleared if it was filled for another layout of the columns."""
        if layout != self.layout:
            self.layout = layout
            self.clear()
        return self

    def keep(self, key: K, value: V) -> V:
        """Keep a value and return it."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value

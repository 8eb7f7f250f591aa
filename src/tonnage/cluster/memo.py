"""What is worth remembering for a while, without growing for ever."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 1024


class Memo(dict[K, V]):
    """A dictionary that starts afresh when it is full, or when rows have moved."""

    layout = -1

    def at(self, layout: int) -> "Memo[K, V]":
        """The memo, emptied if what it holds is about another layout of the columns."""
        if layout != self.layout:
            self.layout = layout
            self.clear()
        return self

    def keep(self, key: K, value: V) -> V:
        """Remember a value."""
        if len(self) >= _MOST:
            self.clear()
        self[key] = value
        return value

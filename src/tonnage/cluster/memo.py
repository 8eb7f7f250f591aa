"""What is worth remembering for a while, without growing for ever."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A dictionary that starts afresh when it is full, or when rows have moved."""

    layout = -1

    def __init__(self, most: int = 1024) -> None:
        super().__init__()
        self._most = most

    def at(self, layout: int) -> "Memo[K, V]":
        """The memo, emptied if what it holds is about another layout of the columns."""
        if layout != self.layout:
            self.layout = layout
            self.clear()
        return self

    def keep(self, key: K, value: V) -> V:
        """Remember a value."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value

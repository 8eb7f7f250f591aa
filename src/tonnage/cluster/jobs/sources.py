"""Things of one name that objects of several kinds may give, such as queues of Volcano and of KAI."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Sources(Generic[T]):
    """What each kind of object gives; where two give the same name, the kind that was named first counts."""

    def __init__(self, kinds: Sequence[type[Any]]) -> None:
        self._given: dict[type[Any], dict[str, T]] = {kind: {} for kind in kinds}

    def put(self, kind: type[Any], name: str, thing: T) -> T:
        """Take over what an object gives; says what counts under its name now."""
        self._given[kind][name] = thing
        return next(given[name] for given in self._given.values() if name in given)

    def drop(self, kind: type[Any], name: str) -> T | None:
        """Forget what an object gave; says what counts under its name now."""
        self._given[kind].pop(name, None)
        return next((given[name] for given in self._given.values() if name in given), None)

    def of(self, kind: type[Any]) -> Mapping[str, T]:
        """All that one kind of object gives."""
        return self._given[kind]

    def twice(self) -> Iterator[str]:
        """Names that more than one kind of object gives, in their order."""
        names = [name for given in self._given.values() for name in given]
        if len(names) > len(set(names)):
            yield from sorted({name for name in names if sum(name in given for given in self._given.values()) > 1})

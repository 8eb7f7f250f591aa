"""Numbers that look drawn at random and are the same every time, for orders that must prefer nothing."""

from functools import lru_cache
from hashlib import blake2b

_BYTES = 8


def hash_of(text: str) -> int:
    """A number below 2^64 for a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


@lru_cache(maxsize=65536)
def part_of_one(text: str) -> float:
    """A number from 0 up to 1 for a text."""
    return hash_of(text) / 2.0 ** (8 * _BYTES)

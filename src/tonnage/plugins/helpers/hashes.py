"""Hashes of names: numbers that look random but are reproducible, for orders without a preference."""

from functools import lru_cache
from hashlib import blake2b

_BYTES = 8


def hash_of(text: str) -> int:
    """A 64-bit number for a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


@lru_cache(maxsize=65536)
def part_of_one(text: str) -> float:
    """A number in [0, 1) for a text."""
    return hash_of(text) / 2.0 ** (8 * _BYTES)

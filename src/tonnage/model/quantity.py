"""Kubernetes quantities as exact integers.

A quantity is kept as a whole number of nano-units, the finest step Kubernetes stores. Reading it in milli or whole
units rounds away from zero, and everything is capped at what a signed 64-bit integer can hold, as Kubernetes does.
"""

import re
from functools import lru_cache

from tonnage.model.excerpt import quoted
from tonnage.model.number import LONGEST_NUMBER

NANO = 1_000_000_000
MILLI = 1_000
LARGEST = 2**63 - 1

_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Beyond this many decimal digits a value is far past the cap, or far below one nano, whatever its digits say.
_EXPONENT_LIMIT = 64
_LONGEST_TEXT = 1000


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{quoted(str(text))} is not a quantity; expected a number with an optional suffix such as 500m, 2, 16Gi"
        )


def _away_from_zero(numerator: int, denominator: int) -> int:
    """The quotient rounded away from zero; the denominator is positive."""
    return -(-numerator // denominator) if numerator > 0 else numerator // denominator


@lru_cache(maxsize=65536)
def _nano(text: str) -> int:
    return _parsed(text)


def _parsed(text: str) -> int:
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise QuantityError(text)
    sign, whole, fraction, suffix, exponent = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise QuantityError(text)
    digits = int(whole + fraction)
    power = -len(fraction)
    binary = _BINARY.get(suffix or "", 0)
    if exponent is not None:
        power += int(exponent)
    elif not binary:
        power += _DECIMAL[suffix or ""]
    power += 9
    if digits == 0:
        return 0
    if power > _EXPONENT_LIMIT:
        amount = LARGEST * NANO
    elif power >= 0:
        amount = min((digits << binary) * 10**power, LARGEST * NANO)
    elif -power > _EXPONENT_LIMIT + len(str(digits)):
        amount = 1
    else:
        amount = min(_away_from_zero(digits << binary, 10**-power), LARGEST * NANO)
    return -amount if sign == "-" else amount


def nano(value: str | int | float) -> int:
    """The quantity in billionths of its unit."""
    if isinstance(value, bool):
        raise QuantityError(value)
    if isinstance(value, int):
        return max(-LARGEST, min(LARGEST, value)) * NANO
    text = value if isinstance(value, str) else repr(value)
    # Only short texts, as people write them, are worth memory.
    return _nano(text) if len(text) <= LONGEST_NUMBER else _parsed(text)


def milli(value: str | int | float) -> int:
    """The quantity in thousandths of its unit, rounded away from zero: the way CPU is counted."""
    return max(-LARGEST, min(LARGEST, _away_from_zero(nano(value), NANO // MILLI)))


def whole(value: str | int | float) -> int:
    """The quantity in whole units, rounded away from zero: the way bytes, pods and devices are counted."""
    return _away_from_zero(nano(value), NANO)


def exact(value: str | int | float) -> int | None:
    """The quantity if it is a whole number."""
    units, rest = divmod(nano(value), NANO)
    return None if rest else units


def format_milli(amount: int) -> str:
    """Thousandths as a quantity: 1500 is 1500m, 2000 is 2."""
    return f"{amount}m" if amount % MILLI else str(amount // MILLI)


def format_binary(amount: int) -> str:
    """Bytes as an exact quantity, in the largest binary unit of which it is a whole number: 1Gi, 1536Mi, 1000."""
    units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    place = 0
    while amount and amount % 1024 == 0 and place < len(units) - 1:
        amount, place = amount // 1024, place + 1
    return f"{amount}{units[place]}"


def format_bytes(amount: int) -> str:
    """Bytes for people: the largest binary unit, at most one decimal."""
    size = float(abs(amount))
    for unit in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
        if round(size, 1) < 1024 or unit == "Pi":
            text = f"{size:.1f}".removesuffix(".0")
            return f"{'-' if amount < 0 else ''}{text}{unit}"
        size /= 1024
    raise AssertionError("the loop returns at its last unit")

"""Numbers in texts that users write: bounded in length before they are parsed, and in range after that.

Python refuses to parse more than 4,300 digits and takes quadratic time below that; an annotation may have 262,144.
"""

from decimal import Decimal, InvalidOperation
from typing import Annotated

from msgspec import Meta

LARGEST_COUNT = 2**31 - 1
"""The largest 32-bit integer, as Kubernetes counts pods and priorities."""
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Integers of objects as the API server limits them; files may hold larger ones."""
LONGEST_NUMBER = 64
"""Characters of the longest text that is read as a number."""


def whole_number(text: str, least: int, most: int) -> int | None:
    """The whole number in a text of ASCII digits with an optional sign; nothing if it is none or out of range."""
    if not 0 < len(text) <= LONGEST_NUMBER:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if least <= number <= most else None


def decimal_number(text: str) -> Decimal | None:
    """The finite number in a text such as 0.5 or 5e-1; nothing if it is none."""
    if len(text) > LONGEST_NUMBER or not text.isascii() or "_" in text:
        return None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None

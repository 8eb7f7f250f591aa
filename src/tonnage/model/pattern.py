"""Name patterns in Go's syntax, whose matcher needs time linear in the length of a name, whatever the pattern.

Python's matcher takes exponential time for some patterns. Those are refused, as is syntax that Go does not know or
writes differently.
"""

import re
import warnings
from functools import lru_cache

_LONGEST = 1024
_FOREIGN = re.compile(r"\(\?(?:[=!>]|<[=!])|\(\?P=|\\[1-9]|\[\[:|\\[pPzQ]")
_BRACKETS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class PatternError(ValueError):
    """A pattern that cannot be used, and why."""


@lru_cache(maxsize=4096)
def name_pattern(text: str) -> re.Pattern[str]:
    """The pattern, ready for use."""
    if len(text) > _LONGEST:
        raise PatternError(f"it is longer than {_LONGEST} characters")
    foreign = _FOREIGN.search(text)
    if foreign:
        raise PatternError(f"{foreign[0]} is not supported")
    if _repeats_too_much(text):
        raise PatternError("it repeats something that holds a repetition or a choice itself")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from error


def _repeats_too_much(text: str) -> bool:
    """Whether a group that holds a repetition or a choice is followed by a repetition."""
    holds = [False]
    closed = False
    place = 0
    while place < len(text):
        sign = text[place]
        brackets = _BRACKETS.match(text, place) if sign == "[" else None
        if sign in "*+{" and closed:
            return True
        if sign in "*+{|":
            holds[-1] = True
        if sign == "(":
            holds.append(False)
        closed = sign == ")" and len(holds) > 1 and holds.pop()
        holds[-1] |= closed
        place = brackets.end() if brackets else place + (2 if sign == "\\" else 1)
    return False

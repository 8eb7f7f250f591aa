"""Texts of numbers, durations and lists."""

from collections.abc import Sequence

from tonnage.model.duration import format_seconds

MINUS, NARROW = "−", "\N{NARROW NO-BREAK SPACE}"


def number(value: float, digits: int = 0) -> str:
    """1234.5 as 1,234.5; never -0."""
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if not text.strip("-0.,") else text.replace("-", MINUS)


def signed(value: float, digits: int = 0) -> str:
    """A difference with its sign, unless it rounds to 0."""
    text = number(value, digits)
    return f"+{text}" if value > 0 and text.strip("0.,") else text


def percent(value: float, digits: int = 1) -> str:
    return f"{number(value, digits)}{NARROW}%"


def duration(seconds: float) -> str:
    """A duration as everywhere: 45s, 1h30m."""
    return format_seconds(seconds)


def counted(count: float, noun: str, digits: int = 0) -> str:
    """1 node, 2 nodes."""
    text = number(count, digits)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

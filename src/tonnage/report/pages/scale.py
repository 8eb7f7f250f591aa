"""Axes: their range, ticks and tick labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.report.pages import text

_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_DECIMALS = 6
_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0))
"""Units of time in seconds, the largest first; all ticks of an axis have the same."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers with ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, value: float, start: float, end: float) -> float:
        """The position of a value on a line from `start` to `end`."""
        return start + (value - self.low) / (self.high - self.low) * (end - start)


def number_axis(label: str, low: float, high: float, ticks: int = 5, unit: str = "") -> Axis:
    """An axis tight around its numbers, with about so many round ticks."""
    low, high = _apart(low, high)
    step = _round_step((high - low) / ticks)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = tuple(number * step for number in range(first, last + 1))
    digits = min(max(-math.floor(math.log10(step) + 1e-9), 0), _MOST_DECIMALS)
    return Axis(label, low, high, places, tuple(text.number(place, digits) + unit for place in places))


def time_axis(label: str, low: float, high: float, ticks: int = 6) -> Axis:
    """An axis of seconds, tight around them, with ticks at whole minutes, hours or days."""
    low, high = _apart(low, high)
    wanted = (high - low) / ticks
    step = next((float(time) for time in _TIMES if time >= wanted), 0.0) or 86400 * _round_step(wanted / 86400)
    places = tuple(number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1))
    unit, length = next(((unit, length) for unit, length in _UNITS if step % length == 0), ("s", 1.0))
    return Axis(label, low, high, places, tuple(f"{place / length:g}{unit}" for place in places))


def _apart(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, low + 0.5) if low > 0.5 else (0.0, 1.0)


def _round_step(wanted: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * (1 - 1e-9))


def around(values: Sequence[float], margin: float = 0.04) -> tuple[float, float]:
    """The lowest and highest value with a margin, on the same side of 0."""
    low, high = min(values), max(values)
    room = (high - low) * margin
    return (max(low - room, 0.0) if low >= 0 else low - room), high + room

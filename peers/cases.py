"""Cases of our own for a peer's programs: functions that raise AssertionError where something does not hold."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from peers.report import Outcome
from tonnage.lab.api import ApiError
from tonnage.lab.program import LabError

LIMIT = 90.0
"""Seconds that something may take which must come in the end."""
_DETAIL = 600
"""Characters of a failure that a report shows."""
World = TypeVar("World")


def name_of(case: Callable[[World], None]) -> str:
    return case.__name__.strip("_").replace("_", " ")


def outcomes(
    world: World, cases: Mapping[str, Callable[[World], None]], clear: Callable[[], None], side: str
) -> dict[str, Outcome]:
    """Run cases one after another in the same world, which is cleared after each."""
    found = {}
    for name, case in cases.items():
        found[name] = _outcome(world, case, clear)
        said = "holds" if found[name].holds else found[name].detail
        print(f"{side}: {name}: {said}", file=sys.stderr, flush=True)
    return found


def _outcome(world: World, case: Callable[[World], None], clear: Callable[[], None]) -> Outcome:
    said = _said(lambda: case(world))
    # Cleared in any case; what cannot be cleared would spoil the cases that follow, so it counts.
    said += _said(clear)
    return Outcome(not said, said[:_DETAIL])


def _said(step: Callable[[], None]) -> str:
    """What a step says if it does not hold."""
    try:
        step()
    except (AssertionError, ApiError, LabError, OSError, ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}; "
    return ""


def until(holds: Callable[[], bool], otherwise: str, seen: Callable[[], object] = lambda: "") -> None:
    """Wait for what must come in the end; AssertionError with what was seen if it does not."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, f"{otherwise}: {seen()}"
        time.sleep(0.2)

"""Signals that end a view in an orderly way."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Stop in an orderly way at the first SIGINT or SIGTERM; a second one does what it did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()
        restore()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()

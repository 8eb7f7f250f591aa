"""Waiting for what must come in the end, with a limit that only a hang reaches, however busy the machine is."""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 300.0


def until(holds: Callable[[], object], otherwise: str, more: Callable[[], object] = lambda: "") -> None:
    """Wait until something holds; after that long it is an error with these words and what else can be said then."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{otherwise} after {PATIENCE:g} s\n{more()}"
        time.sleep(0.05)


async def until_true(holds: Callable[[], object], pause: float = 0.01) -> None:
    """Let other tasks run until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(pause)

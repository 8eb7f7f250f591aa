"""Copies of this process: work on the cluster that takes long or changes it, done where nobody else is disturbed.

A copy is a fork. It has the whole state of the cluster without writing it down, the original goes on however long it
takes, and it ends by itself, at its limit of time or when it is killed.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_ANSWER, _REFUSAL = b"+", b"-"


class CopyError(Exception):
    """Why a copy gave no answer."""


async def in_copy(work: Callable[[], T], kind: type[T], seconds: float) -> T:
    """What the work comes to in a copy; CopyError if it fails or takes too long."""
    if not hasattr(os, "fork"):
        raise CopyError("this needs a system that can fork processes")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(writing, work, seconds)
    os.close(writing)
    try:
        async with asyncio.timeout(seconds):
            answer = await _read(reading)
    except TimeoutError as error:
        raise CopyError(f"it took more than {seconds:g} s and was stopped") from error
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if answer[:1] != _ANSWER:
        raise CopyError(answer[1:].decode("utf-8", "replace")[:500] or "it ended without an answer")
    return msgspec.json.decode(answer[1:], type=kind)


def _answer(writing: int, work: Callable[[], msgspec.Struct], seconds: float) -> None:
    """In the copy: answer and end, whatever happens, without running anything that belongs to the original."""
    try:
        _leave_original(writing)
        signal.alarm(int(seconds) + 1)
        try:
            words = _ANSWER + msgspec.json.encode(work())
        except CopyError as error:
            words = _REFUSAL + str(error).encode()
        except Exception as error:
            words = _REFUSAL + f"it failed: {type(error).__name__}: {error}".encode()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(words)
    finally:
        os._exit(0)


def _leave_original(writing: int) -> None:
    """Give back what the copy has in common with the original, or a connection that ends there would stay open here."""
    os.nice(5)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))


async def _read(descriptor: int) -> bytes:
    """All that comes out of a pipe."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return await reader.read()
    finally:
        transport.close()

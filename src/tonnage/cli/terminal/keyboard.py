"""Keys of a terminal, one by one: the terminal is set so that they come at once, and set back whatever happens."""

import codecs
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
_MOST = 1024


def has_keyboard() -> bool:
    """Whether standard input is a terminal that is this process's to read."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


class Keyboard:
    """The keys of standard input, while `listening`."""

    def __init__(self) -> None:
        self.descriptor = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[int | list[bytes | int]] = []
        self.is_interrupted = False
        """Whether the terminal may have changed hands: Ctrl-Z was pressed, or the process goes on after a stop."""
        self._is_to_stop = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have keys at once and unseen; signals of keys (Ctrl-C, Ctrl-Z) stay as they are."""
        self._before = termios.tcgetattr(self.descriptor)
        handlers = {signal.SIGTSTP: self._stop, signal.SIGCONT: self._go_on}
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            tty.setcbreak(self.descriptor)
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._restore()

    def keys(self) -> list[str]:
        """The keys since the last call; a key with a sequence of characters is one text."""
        text = ""
        while self.wait(0):
            piece = os.read(self.descriptor, _MOST)
            if not piece:
                break
            text += self._decoder.decode(piece)
        return _KEY.findall(text)

    def wait(self, seconds: float) -> bool:
        """Wait for a key, but no longer than that; whether there is one."""
        return bool(select.select([self.descriptor], [], [], seconds)[0])

    def settle(self) -> None:
        """Stop this process if Ctrl-Z asked for it; afterwards, take the terminal again."""
        self.is_interrupted = False
        if self._is_to_stop:
            self._is_to_stop = False
            self._restore()
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)
        tty.setcbreak(self.descriptor)

    def _restore(self) -> None:
        termios.tcsetattr(self.descriptor, termios.TCSAFLUSH, self._before)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.is_interrupted = self._is_to_stop = True

    def _go_on(self, _number: int, _frame: FrameType | None) -> None:
        self.is_interrupted = True

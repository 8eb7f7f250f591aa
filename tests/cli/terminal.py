"""A command on a pseudo-terminal of its own, alone or as a job of a shell's; `tonnage up` unless another is named."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Sequence

from tests.paths import ROOT
from tests.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "tonnage.cli.main", "up"]
JOB = [sys.executable, str(ROOT / "tests/cli/jobcontrol.py")]
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])")


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(
        self,
        *arguments: str,
        command: Sequence[str] = COMMAND,
        width: int = 120,
        height: int = 36,
        through: Sequence[str] = (),
        **environment: str,
    ) -> None:
        sized, sizing = os.pipe()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            keep = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
            os.read(sized, 1)  # comes when the parent has set the size
            words = [*through, *command, *arguments]
            os.execve(words[0], words, {**keep, "TERM": "xterm-256color", **environment})
        self.resize(width, height)
        os.write(sizing, b".")
        os.close(sized)
        os.close(sizing)
        self.text = ""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, until: str = "") -> str:
        """Everything written so far, once a pattern has come; without one, once the process has ended."""
        deadline = time.monotonic() + PATIENCE
        while not (until and re.search(until, ESCAPES.sub("", self.text))):
            assert time.monotonic() < deadline, f"{until!r} did not come: {self.text[-2000:]!r}"
            if not select.select([self.master], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                break
            self.text += piece.decode(errors="replace")
        return self.text

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def end(self) -> int:
        self.read()
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

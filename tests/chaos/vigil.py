"""The vigil over a server's process: its memory, how soon it answers, whether it ends, what it logs."""

import os
import threading
import time
from pathlib import Path
from types import TracebackType

from tests.e2e.extending import Command

_SAMPLED = 0.2
_CLOSED = "unable to perform operation on <TCPTransport closed=True"
"""What uvloop says when the other side of a TLS connection closes it at the wrong moment."""


class Vigil:
    """Looks again and again until it is stopped; a context manager that stops."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._pid = command.process.pid
        self.memory = 0.0
        """The most of resident memory, in MB."""
        self.slowest = 0.0
        """The slowest answer of /healthz, in seconds."""
        self.failures: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Vigil":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, after a last look."""
        self._stopped.set()
        self._thread.join(60)

    def _watch(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopped.wait(_SAMPLED)
            started = time.monotonic()
            try:
                self.command.get("/healthz")
            except OSError as error:
                self.failures.append(f"/healthz: {error}")
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.memory = max(self.memory, resident(self._pid))
            if self.command.process.poll() is not None:
                self.failures.append(f"the process has ended with {self.command.process.returncode}")
                return

    def internal_errors(self) -> list[str]:
        """The ends of all lines of the log that tell of an exception."""
        lines = self.command.log.read_text(errors="replace").splitlines()
        raised = [line for line in lines if "Traceback" in line or '"exception"' in line]
        return [line[-600:] for line in raised if not ("uvloop/sslproto" in line and _CLOSED in line)]


def resident(pid: int) -> float:
    """A process's resident memory in MB; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

"""A running program of the practice cluster: its log, whether it lives, and its certain end."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
_TAIL = 20
_STARTER = ThreadPoolExecutor(1, "starter")
"""For Linux the parent of a program is the thread that starts it, so that thread must last as long as we do."""


class LabError(Exception):
    """The practice cluster does not work: which program, and what its log says."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Program:
    """A program that writes into a log, and ends with this process at the latest."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._process = _STARTER.submit(self._start, command).result()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own, so that Ctrl-C reaches only us and we end the programs in order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """LabError with the end of the log if the program has ended."""
        status = self._process.poll()
        if status is not None:
            raise LabError(f"{self.name} ended with status {status}; {self._tail()}")

    def wait_until(self, ready: Callable[[], bool], what: str, patience: float) -> None:
        """Ask again and again until the program is ready; LabError if it dies or takes longer than `patience`."""
        deadline = time.monotonic() + patience
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: {what} after {patience:.0f} s; {self._tail()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the program at once, as a crash would: nothing that it holds is worth waiting for."""
        self._process.kill()
        self._process.wait()

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join([f"the end of its log {self.log}:", *lines])

"""The running programs of the lab: start, log, readiness and certain end."""

import http.client
import itertools
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

HOST = "127.0.0.1"
TETHER = Path(__file__).with_name("tether.py")
_TAIL = 20
_PORTS = range(20_000, 32_768)
"""Below the ports that systems give to outgoing connections, one of which could take a port before its program does."""
_TURNS = itertools.count(os.getpid() * 97)
"""Processes begin at different ports, so that two of them hardly ever choose the same one at the same time."""


class LabError(Exception):
    """A program of the lab failed; the message has the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports that are free at the moment, on every address; LabError if there are not as many."""
    turns = itertools.islice(_TURNS, len(_PORTS))
    found = list(itertools.islice(filter(_is_free, (_PORTS[turn % len(_PORTS)] for turn in turns)), count))
    if len(found) < count:
        raise LabError(f"{count} ports are needed and {len(found)} are free from {_PORTS[0]} to {_PORTS[-1]}")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections have just ended is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def answers(port: int, path: str, secure: bool = False) -> bool:
    """Whether the program on that loopback port answers 200 OK."""
    if secure:
        # The program has just made its own certificate, and this only asks for its health. The system's authorities
        # are not loaded, which would take from the program longer than all the rest.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(HOST, port, timeout=5, context=context)
    else:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class _Starter:
    """Starts programs in a thread of its own; one whose start is interrupted does not stay.

    Linux takes the thread that starts a program for its parent, so that thread lasts as long as this process. It is no
    executor's: those are waited for at the end, for ever if their own start was interrupted.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], Path]] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="starter", daemon=True)
                self._thread.start()
        started: Future[subprocess.Popen[bytes]] = Future()
        try:
            self._asked.put((started, command, log))
            return started.result()
        except BaseException:
            if not started.cancel():
                process = started.result()
                process.kill()
                process.wait()
            raise

    def _work(self) -> None:
        while True:
            started, command, log = self._asked.get()
            if started.set_running_or_notify_cancel():
                try:
                    started.set_result(_started(command, log))
                except Exception as error:
                    started.set_exception(error)


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # In a session of its own, so that Ctrl-C reaches only this process, which stops the programs in order.
            start_new_session=True,
        )


_STARTER = _Starter()


class Program:
    """A program that writes to a log file and ends with this process at the latest."""

    def __init__(self, command: list[str], log: Path, name: str = "") -> None:
        self.name = name or Path(command[0]).name
        self.log = log
        self._process = _STARTER.start(command, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """LabError with the end of the log if the program has exited."""
        status = self._process.poll()
        if status is not None:
            raise LabError(f"{self.name} ended with status {status}; {self._tail()}")

    def wait_until(self, ready: Callable[[], bool], what: str, patience: float) -> None:
        """Poll until the program is ready; LabError if it exits or takes longer than `patience` seconds."""
        deadline = time.monotonic() + patience
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: {what} after {patience:.0f} s; {self._tail()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill the program, since it holds no state worth waiting for."""
        self._process.kill()
        self._process.wait()

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join([f"the end of its log {self.log}:", *lines])

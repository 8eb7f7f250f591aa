"""The running programs of the lab: start, log, readiness and certain end."""

import http.client
import itertools
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOST = "127.0.0.1"
TETHER = Path(__file__).with_name("tether.py")
_TAIL = 20
_STARTER = ThreadPoolExecutor(1, "starter")
"""Linux takes the thread that starts a program for its parent, so that thread must last as long as this process."""
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


class Program:
    """A program that writes to a log file and ends with this process at the latest."""

    def __init__(self, command: list[str], log: Path, name: str = "") -> None:
        self.name = name or Path(command[0]).name
        self.log = log
        self._process = _STARTER.submit(self._start, command).result()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # In a session of its own, so that Ctrl-C reaches only this process, which stops the programs in order.
                start_new_session=True,
            )

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

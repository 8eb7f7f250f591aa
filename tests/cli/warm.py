"""`tonnage` as a process that is forked from one which has imported the engine: all but its start is as users have it.

Imports are two thirds of the CPU time of a short command, and tests run hundreds of them. What only a command itself
needs is imported in each process anew.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.paths import ROOT

IMPORTED = (
    "click",
    "numpy",
    "yaml",
    "tonnage.config.load",
    "tonnage.framework.cycle",
    "tonnage.manifests.read",
    "tonnage.plugins.catalog",
)
_STATUS_BYTES = 64


class WarmCommand:
    """The process from which commands are forked, one after another; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], stdin: bytes, cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        with TemporaryFile() as asked, TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as told:
            asked.write(json.dumps([list(arguments), str(cwd), dict(environment)]).encode())
            given.write(stdin)
            for file in (asked, given):
                file.flush()
                file.seek(0)
            with self._lock:
                channel = self._channel = self._channel or _started()
                channel.settimeout(timeout)
                socket.send_fds(channel, [b"."], [file.fileno() for file in (asked, given, said, told)])
                answer = channel.recv(_STATUS_BYTES)
            assert answer, "the process that starts commands is gone"
            said.seek(0)
            told.seek(0)
            return subprocess.CompletedProcess(list(arguments), int(answer), said.read(), told.read())


def _started() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(channel: socket.socket) -> list[str] | None:
    """Fork a process for each command that is asked for; in it, the arguments are the result."""
    while True:
        word, files, *_ = socket.recv_fds(channel, 1, 4)
        if not word:
            return None
        pid = os.fork()
        if not pid:
            channel.close()
            return _become(files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(files: Sequence[int]) -> list[str]:
    """Take files, folder and environment of a command; its arguments."""
    with os.fdopen(files[0]) as asked:
        arguments, cwd, environment = json.load(asked)
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    sys.path[0] = cwd
    os.environ.clear()
    os.environ.update(environment)
    found: list[str] = arguments
    return found


def _main() -> None:
    channel: Any = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        import_module(name)
    arguments = _serve(channel)
    if arguments is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv[1:] = arguments
        runpy.run_module("tonnage.cli.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()

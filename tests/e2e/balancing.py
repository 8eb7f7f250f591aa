"""Balancer: what a Service does, in front of processes on this machine."""

import socket
import threading
from contextlib import suppress


class Balancer:
    """Takes connections at one port; each goes to the next of the ready ports."""

    def __init__(self, *ports: int) -> None:
        self.ready = list(ports)
        """May be changed at any time; connections that stand stay."""
        self._turn = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._turn += 1
            ports = list(self.ready)
            try:
                far = socket.create_connection(("127.0.0.1", ports[self._turn % len(ports)]))
            except (OSError, ZeroDivisionError):
                near.close()
                continue
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=pair, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way until either side ends, and end both then."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

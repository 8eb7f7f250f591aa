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
        self._carried: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            carrying = threading.Thread(target=self._carry, args=(near,), daemon=True)
            self._carried.append(carrying)
            carrying.start()

    def _carry(self, near: socket.socket) -> None:
        """One connection, both ways, until either side ends."""
        self._turn += 1
        ports = list(self.ready)
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", ports[self._turn % len(ports)])) as far:
            self._open |= {near, far}
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()
            self._open -= {near, far}

    def close(self) -> None:
        _end(self._listening)
        self._accepting.join()
        self._listening.close()
        for one in list(self._open):
            _end(one)
        for carrying in self._carried:
            carrying.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way, and end both ways after them."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        _end(one)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)

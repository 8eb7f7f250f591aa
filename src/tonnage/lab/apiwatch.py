"""ApiWatch: a thread that follows the objects of one kind on an API server, whatever happens to the connection."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

_TIMEOUT = 600.0
_PAUSE = 0.05
"""Seconds before the next try after a watch ended."""


class ApiAccess(Protocol):
    """How to reach an API server; a control plane is one."""

    @property
    def server(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def authority(self) -> Path | str: ...


class Server(NamedTuple):
    """How to reach an API server that another process started."""

    server: str
    token: str
    authority: str


class ApiWatch:
    """Calls back with each event of a watch, objects that are there already first, until it is stopped.

    `begun` is called before all objects are told anew, because what was deleted meanwhile is not told.
    """

    def __init__(
        self,
        access: ApiAccess,
        path: str,
        seen: Callable[[dict[str, Any]], None],
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self._access = access
        self._path = path
        self._seen = seen
        self._begun = begun
        self._stopped = threading.Event()
        self._connection: HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Begin to call back."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # Closing it would not wake the thread that reads from it.
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _follow(self) -> None:
        place = urlsplit(self._access.server)
        tls = ssl.create_default_context(cafile=str(self._access.authority))
        while not self._stopped.is_set():
            self._connection = HTTPSConnection(place.hostname or "", place.port, timeout=_TIMEOUT, context=tls)
            self._begun()
            try:
                headers = {"Authorization": f"Bearer {self._access.token}"}
                self._connection.request("GET", f"{self._path}?watch=1", headers=headers)
                response = self._connection.getresponse()
                while line := response.readline():
                    self._seen(json.loads(line))
            except Exception:
                # A connection that is shut under a reader fails in many ways.
                self._stopped.wait(_PAUSE)
            finally:
                self._connection.close()

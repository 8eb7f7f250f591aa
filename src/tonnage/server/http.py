"""The HTTP server: serves applications until stopped, over HTTPS with renewed certificates or over HTTP."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from tonnage.kube.supervision import keep_running
from tonnage.server.callers import is_loopback
from tonnage.server.connections import HEAD_SECONDS, LimitedProtocol, Seat, Seats
from tonnage.server.endpoint import Endpoint, ServeError

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120
"""Longer than the 90 seconds for which Go's clients keep a connection; otherwise they see resets."""
_RELOAD_SECONDS = 10.0
_GRACE_SECONDS = 20
_SHUTDOWN_SECONDS = 5.0
"""How long a peer has to answer the end of a TLS connection."""
_ACCEPTED_AT_ONCE = 32
_PAUSE = 0.5
"""Seconds until connections are accepted again after the process had no file descriptor for one."""
_MOST_FILES = 65536


class _Listener:
    """Accepts the connections of one endpoint as long as there is a place for them."""

    def __init__(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        self._socket = listening
        self.context = context
        """The TLS of connections to come."""
        self._seats = Seats()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._is_open = False

    def start(self, server: uvicorn.Server) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = server
        self._is_open = True
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more; connections that stand stay."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
        for handshake in self._handshakes:
            self._cancel(handshake)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                made, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted: %s", error.strerror or error)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE, self._resume)
                return
            seat = self._seats.admit(is_loopback(peer[0]))
            if seat is None:
                made.close()
                continue
            made.setblocking(False)
            handshake = self._loop.create_task(self._connect(made, seat))
            seat.leave = partial(self._cancel, handshake)
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    def _cancel(self, handshake: asyncio.Task[None]) -> None:
        """End a handshake once it has begun, because only then its transport closes the socket."""
        self._loop.call_soon(handshake.cancel)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._accept)

    async def _connect(self, made: socket.socket, seat: Seat) -> None:
        """Let a protocol answer a connection, after the TLS handshake if there is one."""
        times = {"ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": _SHUTDOWN_SECONDS}
        try:
            await self._loop.connect_accepted_socket(
                lambda: LimitedProtocol(self._server.config, self._server.server_state, self._loop, seat),
                made,
                ssl=self.context,
                **times if self.context is not None else {},
            )
        except OSError as error:
            seat.free()
            log.debug("a connection ended before its first request: %s", error)
        except BaseException:
            seat.free()
            raise


class _Server(uvicorn.Server):
    """A server that leaves signal handling to its caller, and accepts by a listener of ours."""

    def __init__(self, config: uvicorn.Config, listener: _Listener) -> None:
        super().__init__(config)
        self._listener = listener

    def install_signal_handlers(self) -> None:
        pass

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = [self._listener]  # type: ignore[list-item]
        self._listener.start(self)
        self.started = True


async def serve(apps: Sequence[tuple[Any, Endpoint]], stop: asyncio.Event) -> None:
    """Serve all applications until `stop` is set, then finish open requests; ServeError if one cannot start."""
    # A peer that sends no HTTP is not worth a line each time.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    _allow_many_files()
    places = [place for _, place in apps]
    contexts = [_context(place) for place in places]
    sockets = _sockets(places)
    listeners = [_Listener(*both) for both in zip(sockets, contexts, strict=True)]
    servers = [_Server(_config(app), listener) for (app, _), listener in zip(apps, listeners, strict=True)]
    tasks = [
        asyncio.create_task(server.serve(sockets=[listening]))
        for server, listening in zip(servers, sockets, strict=True)
    ]
    renewals = [
        asyncio.create_task(keep_running("certificates", partial(_renew, listener, place)))
        for listener, place in zip(listeners, places, strict=True)
        if listener.context is not None
    ]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for server in servers:
            server.should_exit = True
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for extra in (*renewals, stopping):
            extra.cancel()
        await asyncio.gather(*renewals, stopping, return_exceptions=True)
    for failure in ended:
        if isinstance(failure, Exception):
            raise failure


def _config(app: Any) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        access_log=False,
        log_config=None,
        lifespan="off",
        ws="none",
        # Who calls is the peer of the connection, whatever X-Forwarded-For says.
        proxy_headers=False,
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
    )
    config.load()
    return config


def _context(place: Endpoint) -> ssl.SSLContext | None:
    """The TLS of an endpoint; None for plain HTTP."""
    if not place.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(place.certificate, place.key)
    except (OSError, ssl.SSLError) as error:
        raise ServeError(
            f"the certificate {place.certificate} or its key {place.key} cannot be used: {error}"
        ) from error
    if place.client_authority:
        context.verify_mode = ssl.CERT_REQUIRED if place.needs_client_certificate else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(place.client_authority)
        except (OSError, ssl.SSLError) as error:
            raise ServeError(
                f"the CA of client certificates {place.client_authority} cannot be used: {error}"
            ) from error
    return context


def _allow_many_files() -> None:
    """Raise the soft limit of file descriptors, as Go's programs do: some containers start with 1,024."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _sockets(places: Sequence[Endpoint]) -> list[socket.socket]:
    """Sockets for all endpoints, or none."""
    made: list[socket.socket] = []
    try:
        for place in places:
            made += [_socket(place)]
    except ServeError:
        for one in made:
            one.close()
        raise
    return made


def _socket(place: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without it the second part of a response waits 40 ms for the acknowledgement of the first.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        made.bind((place.host, place.port))
    except OSError as error:
        made.close()
        raise ServeError(f"nothing can be served at {place}: {error.strerror or error}") from error
    made.listen(1024)
    made.setblocking(False)
    return made


async def _renew(listener: _Listener, place: Endpoint) -> None:
    """Take over certificates that were replaced on disk; if they cannot be read, the old ones stay in use."""
    files = [name for name in (place.certificate, place.key, place.client_authority) if name]
    seen = stamp(*files)
    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        now = stamp(*files)
        if now == seen or now is None:
            continue
        try:
            listener.context = _context(place)
        except ServeError as error:
            log.error("new certificates are not used, the old ones stay: %s", error)
            continue
        seen = now
        log.info("the certificate %s was renewed", place.certificate)


def stamp(*files: str) -> tuple[int, ...] | None:
    """When files were changed last; None if one of them is not there."""
    try:
        return tuple(os.stat(name).st_mtime_ns for name in files)
    except OSError:
        return None

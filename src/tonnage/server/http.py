"""The HTTP server: serves applications until stopped, over HTTPS with renewed certificates or over HTTP."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple

import uvicorn

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120
"""Longer than the 90 seconds for which Go's clients keep a connection; otherwise they see resets."""
_RELOAD_SECONDS = 10.0
_GRACE_SECONDS = 20


class Endpoint(NamedTuple):
    """An address to listen at; HTTP without certificate and key."""

    host: str
    port: int
    certificate: str = ""
    key: str = ""

    def __str__(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.host or '0.0.0.0'}:{self.port}"


class ServeError(Exception):
    """Why an endpoint cannot be served."""


class _Server(uvicorn.Server):
    """A server that leaves signal handling to its caller."""

    def install_signal_handlers(self) -> None:
        pass


async def serve(apps: Sequence[tuple[Any, Endpoint]], stop: asyncio.Event) -> None:
    """Serve all applications until `stop` is set, then finish open requests; ServeError if one cannot start."""
    servers = [_server(app, place) for app, place in apps]
    sockets = _sockets([place for _, place in apps])
    tasks = [
        asyncio.create_task(server.serve(sockets=[listening]))
        for server, listening in zip(servers, sockets, strict=True)
    ]
    renewals = [
        asyncio.create_task(_renew(server.config.ssl, place))
        for server, (_, place) in zip(servers, apps, strict=True)
        if server.config.ssl is not None
    ]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*tasks, return_exceptions=True)
        for extra in (*renewals, stopping):
            extra.cancel()
        await asyncio.gather(*renewals, stopping, return_exceptions=True)


def _server(app: Any, place: Endpoint) -> _Server:
    config = uvicorn.Config(
        app,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        access_log=False,
        log_config=None,
        lifespan="off",
        ssl_certfile=place.certificate or None,
        ssl_keyfile=place.key or None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ServeError(
            f"the certificate {place.certificate} or its key {place.key} cannot be used: {error}"
        ) from error
    return _Server(config)


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


async def _renew(context: ssl.SSLContext, place: Endpoint) -> None:
    """Load a certificate that was replaced on disk; if it cannot be read, the old one stays in use."""
    seen = _stamp(place)
    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        now = _stamp(place)
        if now == seen or now is None:
            continue
        try:
            context.load_cert_chain(place.certificate, place.key)
        except (OSError, ssl.SSLError) as error:
            log.error("the new certificate %s cannot be used, the old one stays: %s", place.certificate, error)
            continue
        seen = now
        log.info("the certificate %s was renewed", place.certificate)


def _stamp(place: Endpoint) -> tuple[int, int] | None:
    try:
        return os.stat(place.certificate).st_mtime_ns, os.stat(place.key).st_mtime_ns
    except OSError:
        return None

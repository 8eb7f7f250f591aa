"""The dialer, which makes connections to one server: addresses, TCP keepalive, proxies and TLS.

A proxy is asked for a tunnel to a server with TLS; requests to a server without are sent to the proxy itself.
"""

import asyncio
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from tonnage.kube.http.answer import ProtocolError

CONNECT_SECONDS = 10.0
_IDLE, _BETWEEN, _PROBES = 15, 5, 3
"""TCP keepalive: seconds of silence before the first probe and between probes, and probes before giving up."""
_PROBING = {"TCP_KEEPIDLE": _IDLE, "TCP_KEEPINTVL": _BETWEEN, "TCP_KEEPCNT": _PROBES}
_PORTS = {"http": 80, "https": 443}
_LONGEST_HEAD = 2**16
_SUCCESS = b"200"
PROXIES = tuple(_PORTS)
"""The schemes of proxies that can be used."""


class Dialer:
    """Makes connections to one server."""

    def __init__(
        self, server: str, server_name: str | None = None, proxy: str | None = None, seconds: float = CONNECT_SECONDS
    ) -> None:
        self._server = urlsplit(server)
        self._server_name = server_name or self._server.hostname or ""
        """The name that the server's certificate must have."""
        self._proxy = None if proxy is None else urlsplit(proxy)
        self._seconds = seconds
        self._reached: Any = None
        """The address that answered last, which is tried first."""

    @property
    def host(self) -> str:
        """The Host header."""
        return self._server.netloc.rpartition("@")[2]

    @property
    def prefix(self) -> str:
        """What comes before a path in a request."""
        path = self._server.path.rstrip("/")
        return path if self._proxy is None or self._is_tunnel else f"http://{self.host}{path}"

    @property
    def headers(self) -> str:
        """Header lines that a proxy needs in each request."""
        return "" if self._proxy is None or self._is_tunnel else _authorization(self._proxy)

    @property
    def _is_tunnel(self) -> bool:
        return self._server.scheme == "https"

    async def dial(self, protocol: asyncio.Protocol, tls: ssl.SSLContext | None) -> None:
        """Connect a protocol; OSError if that fails or takes too long."""
        place = self._proxy or self._server
        name = f"{place.hostname}:{_port(place)}"
        try:
            async with asyncio.timeout(self._seconds):
                await self._dial(place, protocol, tls)
        except TimeoutError as error:
            raise ConnectionError(f"Cannot connect to {name} within {self._seconds:g} s") from error
        except OSError as error:
            raise ConnectionError(f"Cannot connect to {name}: {_words(error)}") from error

    async def _dial(self, place: SplitResult, protocol: asyncio.Protocol, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        sock = await self._reach(place.hostname or "", _port(place))
        try:
            if self._proxy is not None:
                await self._through_proxy(sock, self._proxy, protocol, tls)
            elif self._is_tunnel:
                await loop.create_connection(lambda: protocol, sock=sock, ssl=tls, server_hostname=self._server_name)
            else:
                await loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            sock.close()
            raise

    async def _reach(self, host: str, port: int) -> socket.socket:
        """A connected socket; each of several addresses gets its part of the time."""
        found = await _addresses(host, port)
        addresses = sorted(found, key=lambda one: one != self._reached)
        for number, (family, address) in enumerate(addresses, start=1):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                _probe(sock)
                async with asyncio.timeout(self._seconds / len(addresses)):
                    await asyncio.get_running_loop().sock_connect(sock, address)
            except BaseException as error:
                sock.close()
                if number == len(addresses) or not isinstance(error, OSError):
                    raise
            else:
                self._reached = (family, address)
                return sock
        raise OSError("no address is known")

    async def _through_proxy(
        self, sock: socket.socket, proxy: SplitResult, protocol: asyncio.Protocol, tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        outer: dict[str, Any] = {}
        if proxy.scheme == "https":
            outer = {"ssl": ssl.create_default_context(), "server_hostname": proxy.hostname}
        if not self._is_tunnel:
            await loop.create_connection(lambda: protocol, sock=sock, **outer)
            return
        transport, tunnel = await loop.create_connection(_Tunnel, sock=sock, **outer)
        try:
            place = f"{self._bracketed}:{_port(self._server)}"
            transport.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{_authorization(proxy)}\r\n".encode())
            await tunnel.opened
            assert tls is not None
            inner = await loop.start_tls(transport, protocol, tls, server_hostname=self._server_name)
            assert inner is not None
            protocol.connection_made(inner)
        except BaseException:
            transport.abort()
            raise

    @property
    def _bracketed(self) -> str:
        host = self._server.hostname or ""
        return f"[{host}]" if ":" in host else host


class _Tunnel(asyncio.Protocol):
    """Waits for a proxy's answer to CONNECT."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.opened.done():
            return
        if b"\r\n\r\n" not in self._head and len(self._head) < _LONGEST_HEAD:
            return
        first = self._head.partition(b"\r\n")[0]
        if first.split(b" ")[1:2] == [_SUCCESS] and self._head.endswith(b"\r\n\r\n"):
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ProtocolError(f"the proxy answers {first[:80].decode(errors='replace')}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ProtocolError("the proxy closed the connection"))


async def _addresses(host: str, port: int) -> Sequence[tuple[int, Any]]:
    try:
        literal = ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]
    return [(socket.AF_INET if literal.version == 4 else socket.AF_INET6, (host, port))]


def _probe(sock: socket.socket) -> None:
    """Have TCP notice a server that has vanished silently."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBING.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _words(error: OSError) -> str:
    # asyncio puts words of its own in place of the system's; the numbers of TLS and of name resolution are their own.
    if isinstance(error, (ssl.SSLError, socket.gaierror)) or not error.errno:
        return str(error)
    return os.strerror(error.errno)


def _port(place: SplitResult) -> int:
    return place.port or _PORTS.get(place.scheme, 0)


def _authorization(proxy: SplitResult) -> str:
    """The header line for a proxy whose address has a user and a password."""
    if proxy.username is None:
        return ""
    named = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(named.encode()).decode()}\r\n"


def proxy_from_environment(address: str) -> str | None:
    """The environment's proxy for a server; one on this machine is not reached through it."""
    server = urlsplit(address)
    host = server.hostname or ""
    if not any(name.lower() == f"{server.scheme}_proxy" for name in os.environ) or _is_loopback(host):
        return None
    # Imported here: it takes longer than all the rest, and few need it.
    from urllib import request

    found = request.getproxies_environment().get(server.scheme)
    if not found or request.proxy_bypass_environment(server.netloc.rpartition("@")[2]):  # type: ignore[attr-defined]
        return None
    return found if urlsplit(found).scheme in PROXIES else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

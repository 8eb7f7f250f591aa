"""Connections to the API server: aiohttp's, with TCP keepalive to notice a server that has vanished silently.

A connection keeps the client certificate that it was made with. When the certificate is renewed, new connections are
made, and the old ones are closed once the requests on them have ended.
"""

import asyncio
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from tonnage.kube.access import Access, Credentials
from tonnage.kube.errors import AccessError

_IDLE, _BETWEEN, _PROBES = 15, 5, 3
"""TCP keepalive: seconds of silence before the first probe and between probes, and probes before giving up."""
_BUFFER = 2**21
"""Bytes that are read ahead; an event of a watch may be long."""
_LAST_REQUEST = 90.0
"""Seconds until old connections are closed; requests time out before that, and watches begin again."""
_PROXIES = ("http", "https")


class Connections:
    """The open connections to one API server; must be closed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._fingerprint = b""
        self._old: set[aiohttp.ClientSession] = set()
        if access.proxy is not None and urlsplit(access.proxy).scheme not in _PROXIES:
            raise AccessError(f"the proxy {access.proxy} is not supported; its address must begin with http or https")

    async def send(
        self,
        credentials: Credentials,
        method: str,
        url: URL,
        headers: dict[str, str],
        body: bytes | None,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request; the answer's head."""
        session = self._session
        if session is None or credentials.fingerprint != self._fingerprint:
            session = self._renewed(credentials)
        return await session.request(
            method,
            url,
            headers=headers,
            data=body,
            timeout=limits,
            proxy=self._access.proxy,
            server_hostname=self._access.server_name,
        )

    def _renewed(self, credentials: Credentials) -> aiohttp.ClientSession:
        if self._session is not None:
            self._old.add(self._session)
            asyncio.get_running_loop().call_later(_LAST_REQUEST, self._retire, self._session)
        tls = credentials.tls if credentials.tls is not None else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, socket_factory=_probing_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            # An API server on this machine is not reached through the environment's proxy.
            trust_env=not _is_loopback(self._access.server),
            read_bufsize=_BUFFER,
        )
        self._fingerprint = credentials.fingerprint
        return self._session

    def _retire(self, session: aiohttp.ClientSession) -> None:
        closing = asyncio.get_running_loop().create_task(session.close())
        closing.add_done_callback(lambda _: self._old.discard(session))

    async def close(self) -> None:
        for session in [*self._old, self._session]:
            if session is not None:
                await session.close()


def _probing_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _BETWEEN), ("TCP_KEEPCNT", _PROBES)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

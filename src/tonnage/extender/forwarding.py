"""Forwarder: sends a request on to the replica that leads.

Replicas share one certificate, the webhook's, which does not name their addresses. So a replica trusts another
whose certificate is the same or is signed by one in the certificate file, and does not check the host name.
"""

import asyncio
import ssl
from typing import Any

import aiohttp

FORWARDED = "X-Tonnage-Forwarded"
"""The header of a request from another replica, which is not forwarded again."""
_SECONDS = 29.0
"""kube-scheduler gives its extender 30 seconds."""
_CONNECT = 3.0
_NETWORK = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class ForwardError(Exception):
    """The leader did not answer."""


class Forwarder:
    """Connections to the leader, on the port on which this replica listens."""

    def __init__(self, host: str, port: int, certificate: str = "") -> None:
        self._host = host
        self._port = port
        self._certificate = certificate
        self._session: aiohttp.ClientSession | None = None
        self.forwarded = 0
        """How many requests the leader has answered."""

    async def ask(self, address: str, path: str, body: bytes) -> bytes:
        """The answer of the replica at an address; ForwardError if there is none."""
        url = f"{self._scheme}://{f'[{address}]' if ':' in address else address}:{self._port}{path}"
        try:
            if self._session is None:
                self._session = self._open()
            headers = {FORWARDED: self._host, "Content-Type": "application/json"}
            async with self._session.post(url, data=body, headers=headers) as answer:
                content = await answer.read()
        except _NETWORK as error:
            # The certificate on disk may have been renewed.
            await self.close()
            raise ForwardError(f"{url}: {error or type(error).__name__}") from error
        if answer.status != 200:
            raise ForwardError(f"{url}: {answer.status} {content[:200].decode(errors='replace')}")
        self.forwarded += 1
        return content

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def _scheme(self) -> str:
        return "https" if self._certificate else "http"

    def _open(self) -> aiohttp.ClientSession:
        limits = aiohttp.ClientTimeout(total=_SECONDS, sock_connect=_CONNECT)
        trusted: Any = _trusted(self._certificate) if self._certificate else True
        return aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(ssl=trusted))


def _trusted(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context

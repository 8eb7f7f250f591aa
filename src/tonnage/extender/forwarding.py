"""Forwarder: sends a request on to the replica that leads, with mutual TLS.

Replicas are reached by the addresses of their pods, which no certificate names. So each has a certificate with the same
DNS name, signed by a CA of the replicas, and shows it as server and as client.
"""

import asyncio
import ssl

import aiohttp
import msgspec

from tonnage.server.http import stamp

PEER_NAME = "tonnage-peer"
"""The DNS name in the certificate of every replica."""
_SECONDS = 29.0
"""kube-scheduler gives its extender 30 seconds."""
_CONNECT = 3.0
_NETWORK = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class PeerTls(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas reach each other."""

    port: int
    """The port on which all replicas listen for each other."""
    certificate: str
    key: str
    authority: str
    """The CA of all replicas' certificates."""


class ForwardError(Exception):
    """The leader did not answer."""


class Forwarder:
    """Connections to the leader; certificates that were replaced on disk are used from the next request on."""

    def __init__(self, tls: PeerTls | None) -> None:
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._stamp: tuple[int, ...] | None = None
        self._session: aiohttp.ClientSession | None = None
        self.forwarded = 0
        """How many requests the leader has answered."""

    async def ask(self, address: str, path: str, body: bytes) -> bytes:
        """The answer of the replica at an address; ForwardError if there is none."""
        if self._tls is None:
            raise ForwardError("replicas do not forward without --peer-bind and the certificates for it")
        url = f"https://{f'[{address}]' if ':' in address else address}:{self._tls.port}{path}"
        headers = {"Content-Type": "application/json"}
        try:
            trusted = self._trusted(self._tls)
            if self._session is None:
                limits = aiohttp.ClientTimeout(total=_SECONDS, sock_connect=_CONNECT)
                self._session = aiohttp.ClientSession(timeout=limits)
            async with self._session.post(
                url, data=body, headers=headers, ssl=trusted, server_hostname=PEER_NAME
            ) as answer:
                content = await answer.read()
        except _NETWORK as error:
            raise ForwardError(f"{url}: {error or type(error).__name__}") from error
        if answer.status != 200:
            raise ForwardError(f"{url}: {answer.status} {content[:200].decode(errors='replace')}")
        self.forwarded += 1
        return content

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _trusted(self, tls: PeerTls) -> ssl.SSLContext:
        now = stamp(tls.certificate, tls.key, tls.authority)
        if self._context is None or now != self._stamp:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(tls.certificate, tls.key)
            self._context, self._stamp = context, now
        return self._context

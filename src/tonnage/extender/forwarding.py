"""Forwarder: sends a request on to the replica that leads, with mutual TLS.

Replicas are reached by the addresses of their pods, which no certificate names. So each has a certificate with the same
DNS name, signed by a CA of the replicas, and shows it as server and as client.
"""

import asyncio
import ssl

import msgspec

from tonnage.kube.http.answer import BodyTooLargeError
from tonnage.kube.http.dialer import Dialer
from tonnage.kube.http.pool import ConnectionPool
from tonnage.kube.http.request import encode_request, header_lines
from tonnage.server.http import stamp

PEER_NAME = "tonnage-peer"
"""The DNS name in the certificate of every replica."""
_SECONDS = 29.0
"""kube-scheduler gives its extender 30 seconds."""
_CONNECT = 3.0
_LARGEST_ANSWER = 64 * 2**20
_OK = 200


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
        self._pools: dict[str, ConnectionPool] = {}
        """By the URL of a replica; more than one while the leader changes."""
        self.forwarded = 0
        """How many requests the leader has answered."""

    async def ask(self, address: str, path: str, body: bytes) -> bytes:
        """The answer of the replica at an address; ForwardError if there is none."""
        if self._tls is None:
            raise ForwardError("replicas do not forward without --peer-bind and the certificates for it")
        host = f"{f'[{address}]' if ':' in address else address}:{self._tls.port}"
        url = f"https://{host}"
        lines = header_lines({"Host": host, "Content-Type": "application/json"})
        try:
            pool = self._pool(url)
            pool.trust(self._trusted(self._tls), repr(self._stamp).encode())
            async with asyncio.timeout(_SECONDS):
                # The leader may have acted on a request without an answer, so it is not sent again.
                answer, content = await pool.fetch(encode_request("POST", path, lines, body), False, _LARGEST_ANSWER)
        except (BodyTooLargeError, OSError) as error:
            raise ForwardError(f"{url}{path}: {str(error) or type(error).__name__}") from error
        if answer.status != _OK:
            raise ForwardError(f"{url}{path}: {answer.status} {content[:200].decode(errors='replace')}")
        self.forwarded += 1
        return content

    def _pool(self, url: str) -> ConnectionPool:
        if url not in self._pools:
            self._pools = {known: pool for known, pool in self._pools.items() if not pool.is_empty}
            self._pools[url] = ConnectionPool(Dialer(url, PEER_NAME, seconds=_CONNECT))
        return self._pools[url]

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()
        self._pools = {}

    def _trusted(self, tls: PeerTls) -> ssl.SSLContext:
        now = stamp(tls.certificate, tls.key, tls.authority)
        if self._context is None or now != self._stamp:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(tls.certificate, tls.key)
            self._context, self._stamp = context, now
        return self._context

"""Callers of a server: a loopback peer, the holder of a verified client certificate, or a stranger.

Both are facts of the connection: the peer's address and the certificate that the TLS handshake has verified. No header
of a request says who calls.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""The names under which a host asks itself."""
CERTIFICATE = "client_certificate"
"""The extension of an ASGI scope about a verified client certificate."""

Handler = Callable[[Request], Awaitable[Response]]
Guard = Callable[[Handler], Handler]
"""Keeps callers from a handler."""
Refusal = Callable[[Scope], str]
"""Why a caller is refused; empty if it is not."""


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address of a connection's peer is one of this host's loopback interface."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in LOOPBACK)


def from_loopback(scope: Scope) -> bool:
    """Whether a request comes from this host's loopback interface."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0])


def host_of(scope: Scope) -> str:
    """The name under which a request asks, without its port."""
    host = Headers(scope=scope).get("host", "")
    return (host[: host.rindex(":")] if ":" in host.rpartition("]")[2] else host).lower()


def certificate_names(scope: Scope) -> tuple[str, ...] | None:
    """The DNS names of the caller's verified certificate; None if it has shown none."""
    shown = scope.get("extensions", {}).get(CERTIFICATE)
    return None if shown is None else shown["names"]


def dns_names(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The DNS names of a certificate, as `ssl` gives it."""
    return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")


def anybody(handler: Handler) -> Handler:
    """A handler for every caller."""
    return handler

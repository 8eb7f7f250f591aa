"""Endpoint: where a server listens, and why it cannot."""

from typing import NamedTuple


class Endpoint(NamedTuple):
    """An address to listen at; HTTP without certificate and key."""

    host: str
    port: int
    certificate: str = ""
    key: str = ""
    client_authority: str = ""
    """The CA of client certificates; empty if none are asked for."""
    needs_client_certificate: bool = False
    """Whether a peer without a certificate is turned away in the handshake."""

    def __str__(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.host or '0.0.0.0'}:{self.port}"


class ServeError(Exception):
    """Why an endpoint cannot be served."""

"""Access to a cluster: its address and credentials, which the official client reads and refreshes.

They come from a kubeconfig file or from the service account of this process's pod: tokens, client certificates,
programs that fetch credentials. An AccessError says what is wrong with them and what to do.
"""

import os
import socket
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import load_kube_config

from tonnage.kube.errors import AccessError

_DEFAULT_FILE = "~/.kube/config"
_IDLE, _BETWEEN, _PROBES = 15, 5, 3
"""TCP keepalive: seconds of silence before the first probe and between probes, and probes before giving up."""


class Transport(RESTClientObject):
    """The official client's connections, with TCP keepalive to notice a server that has vanished silently."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, socket_factory=_probing_socket)


def _probing_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _BETWEEN), ("TCP_KEEPCNT", _PROBES)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class Access:
    """The address of the API server and the credentials for it."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        self._file, self._context = _source(kubeconfig), context
        self._configuration: Any = Configuration()
        self._transport: Transport | None = None

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    async def open(self) -> Transport:
        """Read the configuration and prepare connections."""
        await self._read()
        # An API server on this machine is not reached through the environment's proxy.
        self._configuration.client_session_kwargs = {"trust_env": not _is_loopback(self.server)}
        try:
            self._transport = Transport(self._configuration)
        except (OSError, ValueError) as error:
            raise AccessError(f"{self._named()}: a certificate or key cannot be used ({error})") from error
        return self._transport

    async def renew(self) -> None:
        """Read the configuration again, because the server did not accept the credentials."""
        before = self._configuration.cert_file
        await self._read()
        if self._transport is not None and self._configuration.cert_file != before:
            # New connections use the new certificate.
            self._transport.ssl_context.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)

    async def headers(self) -> dict[str, str]:
        """The headers of every request; a service account's token is read again when it may have changed."""
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except Exception as error:
            raise AccessError(f"{self._named()} cannot be used: {_words(error)}") from error
        return {"Authorization": token} if token else {}

    async def _read(self) -> None:
        try:
            if self._file is None:
                load_incluster_config(client_configuration=self._configuration)  # type: ignore[no-untyped-call]
            else:
                await load_kube_config(  # type: ignore[no-untyped-call]
                    self._file, self._context, client_configuration=self._configuration, persist_config=False
                )
        except Exception as error:
            # The official client raises errors of any type for a bad file.
            raise AccessError(f"{self._named()} cannot be used: {_words(error)}") from error

    def _named(self) -> str:
        return self._file or "the pod's service account"


def _source(kubeconfig: str | None) -> str | None:
    """The kubeconfig file to read; None for the service account of this process's pod."""
    if kubeconfig is not None:
        if not os.path.isfile(os.path.expanduser(kubeconfig)):
            raise AccessError(f"{kubeconfig}: there is no such file; give the path of a kubeconfig file")
        return kubeconfig
    named = os.environ.get("KUBECONFIG")
    if named:
        if not any(os.path.isfile(os.path.expanduser(part)) for part in named.split(os.pathsep)):
            raise AccessError(f"KUBECONFIG names {named}, and there is no such file; correct or unset it")
        return named
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    if os.path.isfile(os.path.expanduser(_DEFAULT_FILE)):
        return _DEFAULT_FILE
    raise AccessError(f"no cluster is configured; give --kubeconfig, set KUBECONFIG, or write {_DEFAULT_FILE}")


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _words(error: Exception) -> str:
    return f"{error}" if type(error).__name__ == "ConfigException" else f"{type(error).__name__}: {error}"

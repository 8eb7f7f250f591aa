"""Access to a cluster: its address, and credentials that are renewed in time.

The files are read again every minute, and all credentials when the server refuses them; what a program gave is used
until it expires. An AccessError says what is wrong and what to do.
"""

import asyncio
import hashlib
import logging
import os
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import msgspec

from tonnage.kube.errors import AccessError
from tonnage.kube.kubeconfig import DEFAULT_FILE, Chosen, ClusterEntry, User, from_files, from_service_account

log = logging.getLogger(__name__)

REREAD = 60.0
"""After how many seconds the files are read again, which programs beside this one may have changed."""


class Credentials(msgspec.Struct, frozen=True, eq=False):
    """What requests are sent with."""

    headers: dict[str, str]
    tls: ssl.SSLContext | None
    fingerprint: bytes
    """Of the files that the TLS context was made of: a connection is made with one certificate and keeps it."""
    until: float
    """When they are read again, in seconds since 1970."""


class Access:
    """The address of the API server and the credentials for it."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        self._file, self._context = _source(kubeconfig), context
        self._lock = asyncio.Lock()
        self._credentials: Credentials | None = None
        self._cluster = ClusterEntry()

    @property
    def server(self) -> str:
        return self._cluster.server.rstrip("/")

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must have, if not that in the address."""
        return self._cluster.tls_server_name

    @property
    def proxy(self) -> str | None:
        """The proxy that the kubeconfig file asks for."""
        return self._cluster.proxy_url

    def namespace(self) -> str:
        """The namespace of the context; AccessError if there is no such context."""
        return self._choose().namespace

    async def open(self) -> None:
        """Read the configuration and the credentials."""
        chosen = self._choose()
        # Neither another current context nor another address moves a process that works on a cluster.
        self._context, self._cluster = chosen.context, chosen.cluster
        self._credentials = await self._read(chosen)

    async def credentials(self) -> Credentials:
        """The credentials for a request that is sent now."""
        now = self._credentials
        assert now is not None, "open() comes first"
        if time.time() < now.until:
            return now
        try:
            return await self.renew(now)
        except AccessError as error:
            if self._credentials is not now:
                raise
            # They may still be good; the server decides.
            log.warning("%s; the last credentials are used", error)
            self._credentials = msgspec.structs.replace(now, until=time.time() + REREAD)
            return self._credentials

    async def renew(self, used: Credentials) -> Credentials:
        """Newer credentials than those: of many requests that the server refused, one reads them."""
        async with self._lock:
            if self._credentials is used or self._credentials is None:
                self._credentials = await self._read(self._choose())
            return self._credentials

    def _choose(self) -> Chosen:
        return from_service_account() if self._file is None else from_files(self._file, self._context)

    async def _read(self, chosen: Chosen) -> Credentials:
        user, until = chosen.user, time.time() + REREAD
        cluster = self._cluster
        if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
            raise AccessError(
                f"{self._named()} cannot be used: insecure-skip-tls-verify and a certificate authority contradict "
                "each other; take one away"
            )
        if user.auth_provider is not None:
            raise AccessError(
                f"{self._named()} cannot be used: auth-provider is not supported; name a program that fetches "
                "credentials (exec), such as your provider's login plugin"
            )
        try:
            if user.exec is not None and not (user.token or user.token_file):
                from tonnage.kube import execcredential

                fetched, expiry = await execcredential.fetch(user.exec, cluster)
                user, until = fetched, inf if expiry is None else expiry
            return Credentials(_headers(user), _tls(cluster, user), _fingerprint(cluster, user), until)
        except (ssl.SSLError, ValueError) as error:
            raise AccessError(f"{self._named()}: a certificate or key cannot be used ({error})") from error
        except (AccessError, OSError) as error:
            raise AccessError(f"{self._named()} cannot be used: {error}") from error

    def _named(self) -> str:
        return self._file or "the pod's service account"


def _headers(user: User) -> dict[str, str]:
    """A token in a file counts more than one that is given, and both more than a password."""
    if user.token_file is not None:
        return {"Authorization": f"Bearer {Path(user.token_file).read_text().strip()}"}
    if user.token is not None:
        return {"Authorization": f"Bearer {user.token}"}
    if user.username and user.password:
        return {"Authorization": f"Basic {b64encode(f'{user.username}:{user.password}'.encode()).decode()}"}
    return {}


def _tls(cluster: ClusterEntry, user: User) -> ssl.SSLContext | None:
    if not cluster.server.startswith("https:"):
        return None
    # Without an authority of its own the server's certificate is checked by the system's.
    with _file(cluster.certificate_authority, cluster.certificate_authority_data) as authority:
        context = ssl.create_default_context(cafile=authority)
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if user.client_certificate or user.client_certificate_data:
        with (
            _file(user.client_certificate, user.client_certificate_data) as certificate,
            _file(user.client_key, user.client_key_data) as key,
        ):
            assert certificate is not None
            context.load_cert_chain(certificate, key)
    return context


@contextmanager
def _file(path: str | None, data: str | None) -> Iterator[str | None]:
    """A file with what is given as base64, which counts more than a path; OpenSSL reads keys from files only."""
    if not data:
        yield path
        return
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile() as file:
        file.write(b64decode(data))
        file.flush()
        yield file.name


def _fingerprint(cluster: ClusterEntry, user: User) -> bytes:
    digest = hashlib.sha256()
    for file, text in (
        (cluster.certificate_authority, cluster.certificate_authority_data),
        (user.client_certificate, user.client_certificate_data),
        (user.client_key, user.client_key_data),
    ):
        content = (text or "").encode() or (Path(file).read_bytes() if file else b"")
        digest.update(len(content).to_bytes(8) + content)
    return digest.digest()


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
    if os.path.isfile(os.path.expanduser(DEFAULT_FILE)):
        return DEFAULT_FILE
    raise AccessError(f"no cluster is configured; give --kubeconfig, set KUBECONFIG, or write {DEFAULT_FILE}")

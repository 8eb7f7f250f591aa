"""CertificateKeeper: keeps a certificate in a Secret of all replicas, on disk, and its authorities in the webhook.

Every replica looks at the Secret now and then, renews what is due, and writes the Secret only if nobody wrote it since
(resourceVersion), so that replicas agree. The API server learns of authorities before a certificate of theirs is used.
What cannot be repaired is said in the log, again and again; what is in use stays in use.
"""

import asyncio
import base64
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from tonnage.certificates.errors import CertificateError
from tonnage.certificates.material import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    CertificateMaterial,
    CertificateUse,
    MaterialError,
    decode,
    fingerprints,
    joined,
    renewed,
)
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path
from tonnage.model.duration import format_seconds
from tonnage.model.wire import WireError
from tonnage.model.wire import decode as decode_object

log = logging.getLogger(__name__)

JSON_PATCH = "application/json-patch+json"
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_ATTEMPTS = 10
_LONGEST_PAUSE = 60.0
_PAUSE_AT_START = 2.0


class KeptSecret(NamedTuple):
    """Where a Secret is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class CertificateFiles(NamedTuple):
    """Where servers read the certificate from."""

    certificate: str
    key: str
    authority: str = ""
    """Of the peers' certificates; empty if nobody here needs it."""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Version
    data: dict[str, str] | None = None


class _Service(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    service: _Service | None = None
    url: str | None = None
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    client_config: _ClientConfig = _ClientConfig()

    @property
    def bundle(self) -> bytes:
        """The certificates of authorities that the API server trusts."""
        try:
            return base64.b64decode(self.client_config.ca_bundle)
        except ValueError:
            return b""

    @property
    def host(self) -> str | None:
        """By what name the API server calls it."""
        if service := self.client_config.service:
            return f"{service.name}.{service.namespace}.svc"
        return urlsplit(self.client_config.url or "").hostname


class _Configuration(msgspec.Struct, frozen=True):
    webhooks: list[_Webhook] = []


class CertificateKeeper:
    """Keeps the certificate of one use."""

    def __init__(
        self,
        client: Client,
        secret: KeptSecret,
        use: CertificateUse,
        files: CertificateFiles,
        clock: Callable[[], float],
        webhook: str = "",
    ) -> None:
        """A MutatingWebhookConfiguration of that name gives the certificate its names and learns of the authorities."""
        self._client = client
        self._secret = secret
        self._use = use
        self._files = files
        self._clock = clock
        self._webhook = webhook
        self._in_use: CertificateMaterial | None = None

    @property
    def ends(self) -> float:
        """When the certificate in use ends, in seconds since the epoch; 0 before there is one."""
        return self._in_use.serving.ends if self._in_use else 0.0

    async def begin(self) -> None:
        """Have a certificate on disk; CertificateError if there cannot be one."""
        while True:
            try:
                return await self._check()
            except StatusError as error:
                if error.status in (_FORBIDDEN, _NOT_FOUND):
                    raise CertificateError(self._explained(error)) from error
                log.error("no certificate for %s yet: %s", self._use.name, error)
            except KubeError as error:
                log.error("no certificate for %s yet: %s", self._use.name, error)
            await asyncio.sleep(_PAUSE_AT_START)

    async def run(self) -> None:
        """Renew the certificate whenever that is due."""
        pause = min(_LONGEST_PAUSE, self._use.settling / 2)
        while True:
            await asyncio.sleep(pause)
            try:
                await self._check()
            except (CertificateError, KubeError) as error:
                left = format_seconds(max(self.ends - self._clock(), 0.0))
                log.error(
                    "the certificate for %s stays as it is, for %s: %s", self._use.name, left, self._explained(error)
                )

    def _explained(self, error: CertificateError | KubeError) -> str:
        if isinstance(error, StatusError) and error.status == _NOT_FOUND:
            return (
                f"there is no Secret {self._secret}, in which replicas keep the certificate for {self._use.name}; "
                "`helm upgrade`, or `kubectl apply` of the manifests, makes it again"
            )
        return f"Secret {self._secret}: {error}" if isinstance(error, KubeError) else str(error)

    async def _check(self) -> None:
        """Look at the Secret and the webhook once, and do what is due."""
        for _ in range(_ATTEMPTS):
            configuration = await self._configuration()
            secret = decode_object(await self._client.get(self._path), _Secret)
            kept = self._read(secret)
            material = renewed(
                kept or self._in_use, self._wanted(configuration), self._clock(), _trusted(configuration)
            )
            try:
                if material is not kept:
                    await self._write(secret, material)
                await self._tell(configuration, material)
            except StatusError as error:
                if error.status != _CONFLICT:
                    raise
                continue  # somebody else was faster; what they wrote counts
            self._put(material)
            return
        raise CertificateError(f"Secret {self._secret} is written by others all the time; nothing was renewed")

    @property
    def _path(self) -> str:
        return api_path("v1", "namespaces", self._secret.namespace, "secrets", self._secret.name)

    def _read(self, secret: _Secret) -> CertificateMaterial | None:
        if not secret.data:
            return None
        try:
            return decode(secret.data)
        except MaterialError as error:
            log.error("Secret %s is broken and is written anew: %s", self._secret, error)
            return None

    async def _write(self, secret: _Secret, material: CertificateMaterial) -> None:
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": material.encoded()}
        await self._client.request("PATCH", self._path, body=patch, type_=MERGE_PATCH)
        log.info("the certificate for %s or its authority was renewed, in Secret %s", self._use.name, self._secret)

    def _wanted(self, configuration: _Configuration | None) -> CertificateUse:
        hosts = {hook.host for hook in configuration.webhooks} - {None} if configuration else set()
        names = tuple(sorted(str(host) for host in hosts))
        return self._use._replace(names=names) if names else self._use

    async def _configuration(self) -> _Configuration | None:
        """The webhook's configuration; nothing if there is none."""
        if not self._webhook:
            return None
        try:
            return decode_object(await self._client.get(self._webhook_path), _Configuration)
        except WireError as error:
            log.error("MutatingWebhookConfiguration %s cannot be read: %s", self._webhook, error)
        except StatusError as error:
            if error.status != _NOT_FOUND:
                raise
            log.warning("there is no MutatingWebhookConfiguration %s: nobody asks the webhook", self._webhook)
        return None

    @property
    def _webhook_path(self) -> str:
        return api_path("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", self._webhook)

    async def _tell(self, configuration: _Configuration | None, material: CertificateMaterial) -> None:
        """Have the API server trust the authorities, and still those whose certificates others serve."""
        patch = list[dict[str, str]]()
        for index, hook in enumerate(configuration.webhooks if configuration else ()):
            bundle = base64.b64encode(joined(material.bundle, hook.bundle, self._clock())).decode()
            if hook.client_config.ca_bundle != bundle:
                # A place in a list may be another webhook's by now.
                patch.append({"op": "test", "path": f"/webhooks/{index}/name", "value": hook.name})
                patch.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle})
        if patch:
            await self._client.request("PATCH", self._webhook_path, body=patch, type_=JSON_PATCH)
            log.info("MutatingWebhookConfiguration %s has the new authorities", self._webhook)

    def _put(self, material: CertificateMaterial) -> None:
        """Write the files that have changed, the key first: servers read both when the certificate has changed."""
        content = material.files()
        for file, name in (
            (self._files.authority, AUTHORITIES),
            (self._files.key, KEY),
            (self._files.certificate, CERTIFICATE),
        ):
            if file:
                _replace(Path(file), content[name])
        self._in_use = material


def _trusted(configuration: _Configuration | None) -> frozenset[bytes] | None:
    """The authorities that the API server trusts for every webhook; nothing if nobody asks."""
    if configuration is None or not configuration.webhooks:
        return None
    return frozenset.intersection(*(fingerprints(hook.bundle) for hook in configuration.webhooks))


def _replace(file: Path, content: bytes) -> None:
    """Put a file in place at once; nobody but this user reads it."""
    try:
        if file.is_file() and file.read_bytes() == content:
            return
        made = file.with_name(f".{file.name}.{os.getpid()}")
        made.touch(mode=0o600)
        made.write_bytes(content)
        made.replace(file)
    except OSError as error:
        raise CertificateError(f"the certificate cannot be written to {file}: {error.strerror or error}") from error

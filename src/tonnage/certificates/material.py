"""CertificateMaterial: the authorities and the certificate of one use, and the rule by which they are renewed.

The rule takes the time from its caller. A certificate is renewed when a third of its lifetime is left. An authority
lives four times as long and is followed by a new one at half of that; both are trusted until the old one ends. A new
authority signs only after it has been trusted for a while, so that nobody meets a certificate whose authority it does
not know yet.
"""

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from tonnage.certificates.keypair import KeyPair, KeyPairError, make_authority, make_certificate, read

AUTHORITIES, AUTHORITY_KEYS, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""The keys of the Secret; the first two hold one PEM block for each authority."""
_LIFETIMES_OF_AUTHORITY = 4
_LONGEST_SETTLING = 600.0
_PARTS_OF_SETTLING = 15
_MOST_AUTHORITIES = 8
_END = b"-----END"


class MaterialError(Exception):
    """A Secret that holds no usable material."""


class CertificateUse(NamedTuple):
    """What a certificate is for."""

    name: str
    """What logs call it."""
    names: tuple[str, ...]
    """The DNS names and addresses that it must have."""
    is_client: bool
    """Whether it is shown by clients, too."""
    lifetime: float
    """In seconds."""

    @property
    def settling(self) -> float:
        """How many seconds a new authority is trusted before it signs."""
        return min(_LONGEST_SETTLING, self.lifetime / _PARTS_OF_SETTLING)


class CertificateMaterial(NamedTuple):
    """Authorities, the newest first, and the certificate that one of them signed."""

    authorities: tuple[KeyPair, ...]
    serving: KeyPair

    @property
    def bundle(self) -> bytes:
        """The certificates of all authorities that are to be trusted."""
        return b"".join(one.certificate_pem for one in self.authorities)

    def files(self) -> dict[str, bytes]:
        """The content of the Secret."""
        return {
            AUTHORITIES: self.bundle,
            AUTHORITY_KEYS: b"".join(one.key_pem for one in self.authorities),
            CERTIFICATE: self.serving.certificate_pem,
            KEY: self.serving.key_pem,
        }

    def encoded(self) -> dict[str, str]:
        """The data of the Secret."""
        return {name: base64.b64encode(content).decode() for name, content in self.files().items()}


def decode(data: Mapping[str, str]) -> CertificateMaterial:
    """The material in a Secret's data; MaterialError says why there is none."""
    missing = [name for name in (AUTHORITIES, AUTHORITY_KEYS, CERTIFICATE, KEY) if not data.get(name)]
    if missing:
        raise MaterialError(f"it has no {', '.join(missing)}")
    try:
        files = {name: base64.b64decode(data[name], validate=True) for name in data}
    except (binascii.Error, ValueError) as error:
        raise MaterialError(f"its data is not base64: {error}") from error
    certificates, keys = _blocks(files[AUTHORITIES]), _blocks(files[AUTHORITY_KEYS])
    if len(certificates) != len(keys) or not 0 < len(keys) <= _MOST_AUTHORITIES:
        raise MaterialError(f"it has {len(certificates)} authorities and {len(keys)} keys for them")
    try:
        authorities = tuple(read(*pair) for pair in zip(certificates, keys, strict=True))
        return CertificateMaterial(authorities, read(files[CERTIFICATE], files[KEY]))
    except KeyPairError as error:
        raise MaterialError(str(error)) from error


def _blocks(pem: bytes) -> list[bytes]:
    """The single blocks of a PEM text."""
    found, block = list[bytes](), list[bytes]()
    for line in pem.splitlines():
        block.append(line)
        if line.startswith(_END):
            found.append(b"\n".join(block) + b"\n")
            block = []
    return found


def renewed(
    kept: CertificateMaterial | None, use: CertificateUse, now: float, trusted: Collection[bytes] | None = None
) -> CertificateMaterial:
    """The material as it should be now; the same if nothing is due.

    `trusted` has the fingerprints of authorities that clients are known to trust; nothing if that is unknown.
    """
    alive = [one for one in kept.authorities if one.ends > now] if kept else []
    if not alive or alive[0].ends - now < _LIFETIMES_OF_AUTHORITY * use.lifetime / 2:
        alive.insert(0, make_authority(f"tonnage-{use.name}", now, _LIFETIMES_OF_AUTHORITY * use.lifetime))
    signer = _signer(alive, use, now, trusted)
    serving = kept.serving if kept else None
    if serving is None or _is_due(serving, alive, use, now):
        serving = make_certificate(signer, use.names, use.is_client, now, use.lifetime)
    made = CertificateMaterial(tuple(alive[:_MOST_AUTHORITIES]), serving)
    return kept if kept is not None and made == kept else made


def _signer(alive: list[KeyPair], use: CertificateUse, now: float, trusted: Collection[bytes] | None) -> KeyPair:
    """The newest authority that clients trust, or else the oldest there is."""
    for one in alive:
        if now - one.made >= use.settling and (trusted is None or _fingerprint(one.certificate) in trusted):
            return one
    return alive[-1]


def _is_due(serving: KeyPair, alive: list[KeyPair], use: CertificateUse, now: float) -> bool:
    return (
        serving.ends - now < use.lifetime / 3
        or serving.names != tuple(sorted(use.names))
        or not any(one.signed(serving) for one in alive)
    )


def fingerprints(bundle: bytes) -> frozenset[bytes]:
    """The certificates of a bundle, by which authorities are found again; none if it cannot be read."""
    return frozenset(_fingerprint(one) for one in _certificates(bundle))


def joined(ours: bytes, others: bytes, now: float) -> bytes:
    """Our bundle, and of another one the certificates that have not ended: replicas may still be served by them."""
    known = fingerprints(ours)
    kept = [
        one
        for one in _certificates(others)
        if _fingerprint(one) not in known and one.not_valid_after_utc.timestamp() > now
    ]
    return ours + b"".join(one.public_bytes(Encoding.PEM) for one in kept[:_MOST_AUTHORITIES])


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def _fingerprint(certificate: x509.Certificate) -> bytes:
    return certificate.fingerprint(SHA256())

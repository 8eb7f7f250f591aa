"""KeyPair: a certificate with its key; makes authorities and the certificates that they sign."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = 3600.0
"""Seconds by which a certificate begins before it is made, for clocks that are behind; less if it lives shorter."""


class KeyPairError(Exception):
    """A certificate and a key that cannot be read or do not belong together."""


class KeyPair(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(encoding, form, serialization.NoEncryption())

    @property
    def ends(self) -> float:
        return self.certificate.not_valid_after_utc.timestamp()

    @property
    def made(self) -> float:
        """When it was made, which is after it begins to be valid."""
        begins = self.certificate.not_valid_before_utc.timestamp()
        return begins + backdated((self.ends - begins) / 2)

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names and addresses that it is for."""
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return ()
        return tuple(sorted(str(name.value) for name in found))

    def signed(self, other: "KeyPair") -> bool:
        """Whether the certificate of another pair is signed by this authority."""
        try:
            other.certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def backdated(seconds: float) -> float:
    """By how much a certificate of that lifetime begins earlier than it is made."""
    return min(BACKDATED, seconds)


def read(certificate_pem: bytes, key_pem: bytes) -> KeyPair:
    """A pair from PEM; KeyPairError says what is wrong with it."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError) as error:
        raise KeyPairError(f"the certificate or its key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise KeyPairError("the key is not that of the certificate")
    return KeyPair(certificate, key)


def make_authority(name: str, now: float, seconds: float) -> KeyPair:
    """A certificate that signs others, itself first."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two authorities of one name would be told apart by their keys only.
    subject = _named(f"{name}-{serial:x}"[:64])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = _begun(subject, subject, key, serial, now, now + seconds, backdated(seconds))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def make_certificate(authority: KeyPair, names: Sequence[str], is_client: bool, now: float, seconds: float) -> KeyPair:
    """A server's certificate, and a client's if asked for; it never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + seconds, authority.ends)
    issuer = authority.certificate.subject
    builder = _begun(_named(names[0][:64]), issuer, key, x509.random_serial_number(), now, ends, backdated(seconds))
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] + ([ExtendedKeyUsageOID.CLIENT_AUTH] if is_client else [])
    signer = authority.certificate.public_key()
    assert isinstance(signer, ec.EllipticCurvePublicKey)
    for extension, is_critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.KeyUsage(True, False, False, False, False, False, False, False, False), True),
        (x509.ExtendedKeyUsage(usages), False),
        (x509.SubjectAlternativeName([_general(name) for name in names]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), False),
    ):
        builder = builder.add_extension(extension, is_critical)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: float,
    ends: float,
    earlier: float,
) -> x509.CertificateBuilder:
    made = datetime.fromtimestamp(int(now), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(made - timedelta(seconds=int(earlier)))
        .not_valid_after(datetime.fromtimestamp(int(ends), UTC))
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

"""The certificates that an extender makes for itself: the webhook's, and that of its replicas."""

from collections.abc import Callable, Iterator

from tonnage.certificates.keeper import CertificateFiles, CertificateKeeper, KeptSecret
from tonnage.certificates.material import CertificateUse
from tonnage.extender.forwarding import PEER_NAME
from tonnage.extender.options import ExtenderOptions
from tonnage.kube.client import Client

_NOBODY_ASKS = ("localhost",)
"""The name of the webhook's certificate as long as there is no webhook configuration."""


def certificate_keepers(
    options: ExtenderOptions, client: Client, clock: Callable[[], float]
) -> Iterator[CertificateKeeper]:
    """One keeper for each certificate that the options want to be made."""
    lifetime = options.certificate_lifetime
    if options.certificate_secret:
        use = CertificateUse("webhook", _NOBODY_ASKS, False, lifetime)
        files = CertificateFiles(options.cert_file, options.key_file)
        secret = KeptSecret(*options.certificate_secret.split("/"))
        yield CertificateKeeper(client, secret, use, files, clock, options.webhook_configuration)
    if options.peer_certificate_secret:
        use = CertificateUse("peers", (PEER_NAME,), True, lifetime)
        files = CertificateFiles(options.peer_cert_file, options.peer_key_file, options.peer_ca_file)
        yield CertificateKeeper(client, KeptSecret(*options.peer_certificate_secret.split("/")), use, files, clock)

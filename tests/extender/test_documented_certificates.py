"""The commands in docs/install.md make certificates with which the extender can serve and replicas can meet."""

import ssl

import pytest

from tests.e2e.certificates import documented
from tests.server.listening import needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    documented(made)
    return made


def shaken_hands(server_side, client_side, name):
    """Whether a client and a server accept each other, without a network between them."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for one in list(waiting):
            try:
                one.do_handshake()
                waiting.remove(one)
            except ssl.SSLWantReadError:
                pass
    return not waiting


def side(purpose, folder, authority, certificate=None):
    context = ssl.create_default_context(purpose, cafile=str(folder / authority))
    # The default of Python 3.13.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    if certificate is not None:
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    return context


def test_replicas_know_each_other_by_the_peers_certificate(folder):
    server = side(ssl.Purpose.CLIENT_AUTH, folder, "ca.crt", "peer")
    client = side(ssl.Purpose.SERVER_AUTH, folder, "ca.crt", "peer")
    assert shaken_hands(server, client, "tonnage-peer")


def test_a_certificate_of_another_authority_is_no_peers(folder):
    server = side(ssl.Purpose.CLIENT_AUTH, folder, "ca.crt", "peer")
    client = side(ssl.Purpose.SERVER_AUTH, folder, "ca.crt", "tls")
    with pytest.raises(ssl.SSLError):
        shaken_hands(server, client, "tonnage-peer")


def test_the_api_server_accepts_the_webhooks_certificate(folder):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    assert shaken_hands(server, client, "tonnage-scheduler.tonnage.svc")

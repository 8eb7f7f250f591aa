"""Who may call the extender's verbs: loopback peers and client certificates; webhook and probes answer everybody."""

import asyncio
import json
import ssl

import pytest

from tests.extender.fuzzing import Server, valid
from tests.server.listening import authority, needs_openssl, signed
from tests.server.strangers import LOOPBACK, STRANGER, asked, head, serving
from tonnage.server.callers import is_loopback

VERBS = ("/filter", "/prioritize", "/preempt", "/bind")


def post(path: str, **headers: object) -> bytes:
    body = json.dumps(valid(path, whole=False)).encode()
    return head(path, "POST", Content_Length=len(body), **headers) + body


def play(scene, app=lambda server: server.app, **tls):
    server = Server()

    async def main():
        async with serving(app(server), **tls) as port:
            await scene(port)

    try:
        asyncio.run(main())
        return server
    finally:
        server.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *(("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("::ffff:127.0.0.1", True)),
        *(("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False), ("::", False), ("", False)),
        *(("0.0.0.0", False), ("localhost", False), ("128.0.0.1", False), ("::ffff:0:127.0.0.1", False)),
    ],
)
def test_loopback_addresses(address, expected):
    assert is_loopback(address) is expected


def test_a_stranger_calls_no_verb_whatever_its_headers_say():
    async def scene(port):
        for verb in VERBS:
            for claim in ({}, {"X_Forwarded_For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"X_Real_Ip": "::1"}):
                answer = await asked(port, post(verb, **claim), STRANGER)
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert b"--client-ca-file" in answer
                assert b"loopback address" in answer
        assert b" 200 " in await asked(port, post("/webhook"), STRANGER)
        for probe in ("/healthz", "/livez", "/readyz"):
            assert (await asked(port, head(probe), STRANGER)).endswith(b"\r\nok")
            assert b" 405 " in await asked(port, head(probe, "POST", Content_Length=0), STRANGER)

    server = play(scene)
    assert not server.cluster.reserved
    assert not server.api.written


def test_a_strangers_body_is_not_waited_for():
    async def scene(port):
        assert b" 403 " in await asked(port, head("/filter", "POST", Content_Length=10**9), STRANGER)

    play(scene)


def test_kube_scheduler_beside_the_extender_calls_every_verb():
    async def scene(port):
        for verb in VERBS:
            assert b" 200 " in await asked(port, post(verb), LOOPBACK)

    play(scene)


# -- certificates


def client(folder, shown=None):
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if shown is not None:
        context.load_cert_chain(shown / "tls.crt", shown / "tls.key")
    return context


def files(folder):
    return {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}


async def is_hung_up_on(port, tls):
    try:
        await asked(port, post("/filter"), STRANGER, tls)
    except (OSError, asyncio.IncompleteReadError):
        return True
    return False


@needs_openssl
def test_a_kube_scheduler_elsewhere_shows_a_client_certificate(tmp_path):
    for name in ("web", "clients", "others"):
        authority(tmp_path / name)
    web = signed(tmp_path / "server", tmp_path / "web", "extender", "serverAuth")
    ours = signed(tmp_path / "ours", tmp_path / "clients", "kube-scheduler", "clientAuth")
    theirs = signed(tmp_path / "theirs", tmp_path / "others", "kube-scheduler", "clientAuth")
    for_servers = signed(tmp_path / "servers", tmp_path / "clients", "kube-scheduler", "serverAuth")

    async def scene(port):
        for verb in VERBS:
            assert b" 200 " in await asked(port, post(verb), STRANGER, client(web, ours))
            assert b" 403 " in await asked(port, post(verb), STRANGER, client(web))
            assert b" 200 " in await asked(port, post(verb), LOOPBACK, client(web))
        # The API server shows none.
        assert b" 200 " in await asked(port, post("/webhook"), STRANGER, client(web))
        assert await is_hung_up_on(port, client(web, theirs))
        assert await is_hung_up_on(port, client(web, for_servers))

    play(scene, **files(web), client_authority=str(tmp_path / "clients" / "ca.crt"))


@needs_openssl
def test_without_a_client_ca_no_certificate_helps(tmp_path):
    authority(tmp_path)
    web = signed(tmp_path / "server", tmp_path, "extender")

    async def scene(port):
        assert b" 403 " in await asked(port, post("/bind"), STRANGER, client(web, web))

    play(scene, **files(web))


@needs_openssl
def test_the_port_for_peers_serves_verbs_only_and_only_to_replicas(tmp_path):
    authority(tmp_path)
    peer = signed(tmp_path / "peer", tmp_path)
    other = signed(tmp_path / "other", tmp_path, "another")

    def trusting(shown=None):
        context = client(tmp_path, shown)
        context.check_hostname = False
        return context

    async def scene(port):
        for address in (LOOPBACK, STRANGER):
            for verb in VERBS:
                assert b" 200 " in await asked(port, post(verb), address, trusting(peer))
                assert b" 403 " in await asked(port, post(verb), address, trusting(other))
            assert b" 404 " in await asked(port, post("/webhook"), address, trusting(peer))
            assert b" 404 " in await asked(port, head("/metrics"), address, trusting(peer))
        assert await is_hung_up_on(port, trusting())

    more = {"client_authority": str(tmp_path / "ca.crt"), "needs_client_certificate": True}
    play(scene, lambda server: server.extender.peer_app(), **files(peer), **more)


@needs_openssl
def test_old_tls_is_refused(tmp_path):
    authority(tmp_path)
    web = signed(tmp_path / "server", tmp_path, "extender")

    async def scene(port):
        old = client(web)
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        assert await is_hung_up_on(port, old)

    with pytest.warns(DeprecationWarning, match="TLS"):
        play(scene, **files(web))


def test_an_error_of_ours_is_told_without_its_details(monkeypatch):
    async def scene(port):
        answer = await asked(port, post("/filter"), LOOPBACK)
        assert b'"Error":"the extender failed to answer; its log says why"' in answer
        assert b"secret" not in answer

    def broken(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr("tonnage.extender.reservations.Reservations.filter", broken)
    server = play(scene)
    assert "secret" in server.mistakes.texts[0]

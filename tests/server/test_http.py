"""Serving: HTTP and HTTPS, certificates that are renewed, ports that are taken, and an orderly end."""

import asyncio
import socket
import ssl

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server.listening import certificate, needs_openssl, until_listening
from tests.waiting import PATIENCE, until_true
from tonnage.lab.program import free_ports
from tonnage.server import http as serving
from tonnage.server.endpoint import Endpoint, ServeError
from tonnage.server.http import serve

ASKED: list[str] = []


async def slow(request):
    ASKED.append(request.url.path)
    await asyncio.sleep(0.2)
    return PlainTextResponse("done")


APP = Starlette(routes=[Route("/slow", slow)])


async def ask(port: int, tls: ssl.SSLContext | None = None) -> tuple[bytes, bytes | None]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    shown = writer.get_extra_info("ssl_object")
    writer.close()
    return answer, shown.getpeercert(binary_form=True) if shown is not None else None


def test_open_requests_are_answered_before_the_end():
    async def main():
        (port,) = free_ports(1)
        stop = asyncio.Event()
        task = asyncio.create_task(serve([(APP, Endpoint("127.0.0.1", port))], stop))
        await until_listening(port)
        ASKED.clear()
        question = asyncio.create_task(ask(port))
        await until_true(lambda: ASKED)
        stop.set()
        answer, _ = await question
        assert answer.endswith(b"done")
        await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())


@needs_openssl
def test_a_certificate_that_is_replaced_is_taken_over_and_one_that_is_broken_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_RELOAD_SECONDS", 0.05)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def main():
        certificate(tmp_path, "first")
        (port,) = free_ports(1)
        stop = asyncio.Event()
        place = Endpoint("127.0.0.1", port, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
        task = asyncio.create_task(serve([(APP, place)], stop))
        await until_listening(port)
        _, first = await ask(port, trusting)
        await asyncio.to_thread(certificate, tmp_path, "second")
        second = first
        while second == first:
            _, second = await asyncio.wait_for(ask(port, trusting), PATIENCE)
        (tmp_path / "tls.crt").write_text("broken")
        await asyncio.sleep(0.3)
        _, third = await ask(port, trusting)
        assert third == second
        stop.set()
        await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())


def test_a_port_that_is_taken_is_said_and_nothing_else_stays_open():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (free,) = free_ports(1)
        places = [(APP, Endpoint("127.0.0.1", free)), (APP, Endpoint("127.0.0.1", taken.getsockname()[1]))]
        with pytest.raises(ServeError, match="nothing can be served at http://127"):
            asyncio.run(serve(places, asyncio.Event()))
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", free))


def test_a_certificate_that_cannot_be_read_is_said(tmp_path):
    place = Endpoint("127.0.0.1", 0, str(tmp_path / "none.crt"), str(tmp_path / "none.key"))
    with pytest.raises(ServeError, match=r"none\.crt"):
        asyncio.run(serve([(APP, place)], asyncio.Event()))

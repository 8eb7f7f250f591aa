"""Limits of connections: how long a peer may take, how much it may send ahead, and who goes when there are many."""

import asyncio
import socket
import ssl

import pytest
import uvloop
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from tests.server.listening import certificate, needs_openssl, until_listening
from tests.server.strangers import LOOPBACK, STRANGER, asked, connected, head, serving
from tests.waiting import PATIENCE, until_true
from tonnage.lab.program import free_ports
from tonnage.server import connections
from tonnage.server import http as http_server
from tonnage.server.connections import Seats
from tonnage.server.endpoint import Endpoint


class Waiting:
    """An application with answers that are held back, and endless ones."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.asked = 0
        self.ended = 0
        self.app = Starlette(
            routes=[
                Route("/", self.at_once),
                Route("/late", self.late),
                Route("/body", self.body, methods=["POST"]),
                Route("/refused", self.at_once, methods=["POST"]),
                Route("/endless", self.endless),
            ]
        )

    async def at_once(self, request):
        return PlainTextResponse("ok")

    async def late(self, request):
        self.asked += 1
        await self.go_on.wait()
        return PlainTextResponse("late")

    async def body(self, request):
        return PlainTextResponse(str(len(await request.body())))

    async def endless(self, request):
        async def parts():
            try:
                while True:
                    yield b"x" * 65536
                    await asyncio.sleep(0)
            finally:
                self.ended += 1

        return StreamingResponse(parts())


def play(scene, **limits):
    """A scene on the event loop that the servers have, and on Python's own."""
    for run in (uvloop.run, asyncio.run):
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(connections, name, limit)
            run(scene())


# -- answers


def test_head_and_body_of_an_answer_leave_together():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port, LOOPBACK)
            for _ in range(20):
                peer.send(head("/"))
                async with asyncio.timeout(PATIENCE):
                    # One read takes what one write has sent, and more only if more was written meanwhile.
                    assert (await peer.reader.read(65536)).endswith(b"\r\n\r\nok")
            peer.close()

    play(scene)


def test_an_answer_without_a_body_is_sent():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port, LOOPBACK)
            peer.send(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await peer.rest()).startswith(b"HTTP/1.1 200")
            peer.close()

    play(scene)


def test_who_waits_to_be_told_to_go_on_is_told_at_once():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port, LOOPBACK)
            peer.send(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                assert (await peer.reader.read(65536)).startswith(b"HTTP/1.1 100")
            peer.send(b"abc")
            assert (await peer.answer()).endswith(b"3")
            peer.close()

    play(scene)


def test_an_answer_that_fails_after_its_head_ends_the_connection():
    async def failing(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        raise ValueError("no body")

    async def scene():
        async with serving(failing) as port:
            peer = await connected(port, LOOPBACK)
            peer.send(head("/"))
            assert (await peer.rest()).startswith(b"HTTP/1.1 200")
            peer.close()

    play(scene)


# -- time


@pytest.mark.parametrize("data", [b"", b"GET", head("/")[:-2], b"\r\n"])
def test_who_does_not_finish_the_head_of_a_request_is_cut_off(data):
    async def scene():
        async with serving(Waiting().app) as port:
            for address in (STRANGER, LOOPBACK):
                peer = await connected(port, address)
                peer.send(data)
                assert await peer.rest() == b""
                peer.close()

    play(scene, HEAD_SECONDS=0.2)


def test_dribbling_does_not_win_time():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port)

            async def dribble():
                for letter in head("/", X="y" * 10_000):
                    peer.send(bytes([letter]))
                    await asyncio.sleep(0.02)

            dribbling = asyncio.create_task(dribble())
            assert await peer.rest() == b""
            dribbling.cancel()
            peer.close()

    play(scene, HEAD_SECONDS=0.3)


def test_a_body_that_does_not_come_is_not_waited_for():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port)
            peer.send(head("/body", "POST", Content_Length=10) + b"12345")
            assert await peer.rest() == b""
            peer.close()

    play(scene, BODY_SECONDS=0.2)


def test_after_a_request_a_connection_is_kept():
    async def scene():
        async with serving(Waiting().app) as port:
            for address in (STRANGER, LOOPBACK):
                peer = await connected(port, address)
                for _ in range(2):
                    peer.send(head("/"))
                    assert (await peer.answer()).endswith(b"ok")
                    await asyncio.sleep(0.5)
                peer.close()

    play(scene, HEAD_SECONDS=0.2)


def test_a_request_that_is_answered_late_is_not_cut_off():
    async def scene():
        waiting = Waiting()
        async with serving(waiting.app) as port:
            peer = await connected(port)
            peer.send(head("/late"))
            await until_true(lambda: waiting.asked)
            await asyncio.sleep(0.5)
            waiting.go_on.set()
            assert (await peer.answer()).endswith(b"late")
            peer.close()

    play(scene, HEAD_SECONDS=0.1, BODY_SECONDS=0.1)


def test_a_body_that_nobody_wants_is_read_on_only_for_a_moment():
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port)
            peer.send(head("/nowhere", "POST", Content_Length=10**9) + b"x" * 1000)
            assert b"404" in await peer.answer()
            assert await peer.rest() == b""
            late = await connected(port)
            late.send(head("/nowhere", "POST", Content_Length=4))
            assert b"404" in await late.answer()
            late.send(b"body")
            late.send(head("/"))
            assert (await late.answer()).endswith(b"ok")
            late.close()
            peer.close()

    play(scene, LINGER_SECONDS=0.3)


def test_an_answer_that_nobody_reads_ends():
    async def scene():
        waiting = Waiting()
        async with serving(waiting.app) as port:
            peer = await connected(port)
            peer.writer.transport.pause_reading()
            peer.send(head("/endless"))
            await until_true(lambda: waiting.ended)
            peer.close()

    play(scene, STALLED_SECONDS=0.3)


@needs_openssl
def test_a_tls_handshake_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    certificate(tmp_path, "a")
    files = {"certificate": str(tmp_path / "tls.crt"), "key": str(tmp_path / "tls.key")}

    async def scene():
        async with serving(Waiting().app, **files) as port:
            peer = await connected(port)
            assert await peer.rest() == b""
            peer.close()

    play(scene)


@needs_openssl
def test_a_server_that_ends_answers_what_is_on_its_way_and_says_that_the_connection_ends(tmp_path):
    certificate(tmp_path, "127.0.0.1")
    files = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")
    trusting = ssl.create_default_context(cafile=files[0])

    async def scene():
        stop, (port,) = asyncio.Event(), free_ports(1)
        server = asyncio.create_task(http_server.serve([(Waiting().app, Endpoint("127.0.0.1", port, *files))], stop))
        await until_listening(port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        said_over = False
        while not said_over:
            writer.write(head("/"))
            answer = await reader.readuntil(b"\r\n\r\nok")
            said_over = b"connection: close" in answer.lower()
            assert stop.is_set() or not said_over
            stop.set()
        assert await reader.read() == b""
        writer.close()
        await server

    play(scene, LEAVING_SECONDS=60.0)


# -- size


@pytest.mark.parametrize(
    "data",
    [
        head("/", X="y" * 70_000),
        head("/" + "a" * 70_000),
        head("/", **{f"X{number}": "y" * 100 for number in range(1000)}),
        b"GET / HTTP/1.1\r\nX: " + b"y" * 300_000,
    ],
)
def test_a_head_that_is_too_large_is_refused(data):
    async def scene():
        async with serving(Waiting().app) as port:
            assert b" 431 " in await asked(port, data)
            assert (await asked(port, head("/", X="y" * 60_000))).endswith(b"ok")

    play(scene)


@pytest.mark.parametrize("piece", [b"X: " + b"y" * 300_000, b"X: yyyyyyyyyyyyyyy\r\n" * 10_000])
def test_what_follows_a_body_in_chunks_is_limited_as_a_head_is(piece):
    async def scene():
        async with serving(Waiting().app) as port:
            peer = await connected(port)
            peer.send(head("/body", "POST", Transfer_Encoding="chunked") + b"2\r\nab\r\n0\r\n" + piece)
            assert b" 431 " in await peer.answer()
            peer.close()

    play(scene)


def test_requests_that_are_sent_ahead_are_limited():
    async def scene():
        waiting = Waiting()
        waiting.go_on.set()
        async with serving(waiting.app) as port:
            few, many = await connected(port), await connected(port)
            few.send(head("/late") * 5)
            assert [(await few.answer())[-4:] for _ in range(5)] == [b"late"] * 5
            many.send(head("/late") * 10_000)
            assert (await many.rest()).count(b"late") < 20
            few.close()
            many.close()

    play(scene)


def test_what_is_no_http_is_answered_with_a_sentence_and_without_a_name_of_the_server():
    async def scene():
        async with serving(Waiting().app) as port:
            broken = await asked(port, b"\x16\x03\x01\r\n\r\n")
            assert broken.startswith(b"HTTP/1.1 400 ")
            assert b"not HTTP" in broken
            sound = await asked(port, head("/"))
            assert b"uvicorn" not in (broken + sound).lower()
            assert b"\r\nx-content-type-options: nosniff\r\n" in sound

    play(scene)


# -- number


def test_silent_strangers_keep_nobody_out():
    async def scene():
        waiting = Waiting()
        async with serving(waiting.app) as port:
            silent = [await connected(port) for _ in range(20)]
            for peer in silent[:10]:
                assert await peer.rest() == b""
            assert (await asked(port, head("/"))).endswith(b"ok")
            for peer in silent:
                peer.close()

    play(scene, STRANGERS=10)


def test_strangers_with_requests_are_not_cut_off_for_others_and_leave_loopback_peers_their_places():
    async def scene():
        waiting = Waiting()
        async with serving(waiting.app) as port:
            busy = [await connected(port) for _ in range(4)]
            for peer in busy:
                peer.send(head("/late"))
            await until_true(lambda: waiting.asked == 4)
            refused = await connected(port)
            assert await refused.rest() == b""
            assert (await asked(port, head("/"), LOOPBACK)).endswith(b"ok")
            waiting.go_on.set()
            for peer in busy:
                assert (await peer.answer()).endswith(b"late")
            # Now they wait for requests, and the one that has waited longest goes.
            assert (await asked(port, head("/"))).endswith(b"ok")
            for peer in (*busy, refused):
                peer.close()

    play(scene, STRANGERS=4)


def test_one_whose_body_came_after_the_answer_waits_as_others_do():
    async def scene():
        async with serving(Waiting().app) as port:
            late = await connected(port)
            late.send(head("/nowhere", "POST", Content_Length=4))
            assert b"404" in await late.answer()
            late.send(b"body")
            await asyncio.sleep(0.1)
            assert (await asked(port, head("/"))).endswith(b"ok")
            late.close()

    play(scene, STRANGERS=1)


def test_loopback_peers_have_a_limit_too_and_places_become_free():
    async def scene():
        async with serving(Waiting().app) as port:
            held = [await connected(port, LOOPBACK) for _ in range(3)]
            for peer in held:
                peer.send(head("/"))
                assert (await peer.answer()).endswith(b"ok")
            refused = await connected(port, LOOPBACK)
            assert await refused.rest() == b""
            held.pop().close()
            for _ in range(20):
                await until_answered(port)
            for peer in (*held, refused):
                peer.close()

    play(scene, TRUSTED=3)


async def until_answered(port):
    """A connection that was closed gives its place back in a moment."""

    async def is_answered():
        peer = await connected(port, LOOPBACK)
        peer.send(head("/", Connection="close"))
        said = await peer.rest()
        peer.close()
        return said.endswith(b"ok")

    while not await is_answered():
        await asyncio.sleep(0.01)


@needs_openssl
def test_silent_handshakes_keep_nobody_out(tmp_path):
    certificate(tmp_path, "a")
    files = {"certificate": str(tmp_path / "tls.crt"), "key": str(tmp_path / "tls.key")}

    async def scene():
        async with serving(Waiting().app, **files) as port:
            silent = [await connected(port) for _ in range(12)]
            for peer in silent[:8]:
                assert await peer.rest() == b""
            for peer in silent:
                peer.close()

    play(scene, STRANGERS=4)


def test_many_that_come_and_go_leave_nothing_behind(monkeypatch):
    made = []
    monkeypatch.setattr(http_server, "Seats", lambda: made.append(Seats()) or made[-1])

    async def scene():
        async with serving(Waiting().app) as port:
            seats = made[-1]
            for number in range(200):
                peer = await connected(port, STRANGER if number % 2 else LOOPBACK)
                if number % 3:
                    peer.send(head("/") if number % 3 == 1 else b"nonsense\r\n\r\n")
                if number % 5 == 0:
                    set_abrupt(peer)
                peer.close()
            await until_true(lambda: not seats.taken)
            assert (seats.trusted, seats.strangers, seats.waiting) == (0, 0, {})

    play(scene, STRANGERS=5)


def set_abrupt(peer):
    """Closing then resets the connection."""
    raw = peer.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

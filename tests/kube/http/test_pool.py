"""The HTTP client on sockets: what an answer may look like, how connections end, and what is sent again."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.server.listening import certificate, needs_openssl
from tests.waiting import PATIENCE
from tonnage.kube.http import answer as answers
from tonnage.kube.http import pool as pools
from tonnage.kube.http.answer import Answer, BodyTooLargeError
from tonnage.kube.http.dialer import Dialer
from tonnage.kube.http.pool import ConnectionPool
from tonnage.kube.http.request import encode_request, header_lines

MOST = 2**20
LINES = header_lines({"Host": "x"})
GET = encode_request("GET", "/", LINES, None)
POST = encode_request("POST", "/", LINES, b"{}")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """A server that answers each request on each connection with the next bytes of a plan; None hangs up."""

    def __init__(self, *connections: list[bytes | None]) -> None:
        self.plan = [list(answers) for answers in connections]
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self.open = 0
        self.address = ""
        self.released = asyncio.Event()
        """Answers wait for it where the plan says b"wait"."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self.open += 1
        plan = self.plan[number] if number < len(self.plan) else [OK] * 1000
        try:
            for answer in plan:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"POST"):
                    await reader.readexactly(2)
                self.asked.append((number, head.split(b" ")[0]))
                if answer is None:
                    break
                if answer == b"wait":
                    await self.released.wait()
                    answer = OK
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.open -= 1
            writer.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on either event loop: servers run on uvloop, leader election on asyncio's."""

    def main(work: Coroutine[Any, Any, None]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(PATIENCE):
                await work

        (asyncio.run if request.param == "asyncio" else uvloop.run)(limited())

    return main


Run = Callable[[Coroutine[Any, Any, None]], None]


@asynccontextmanager
async def pool_of(peer: Peer, **more: Any) -> AsyncIterator[ConnectionPool]:
    listener = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    pool = ConnectionPool(Dialer(peer.address), **more)
    pool.trust(None, b"")
    try:
        yield pool
    finally:
        await pool.close()
        listener.close()


def asking(peer: Peer, use: Callable[[ConnectionPool], Awaitable[None]], **more: Any) -> Coroutine[Any, Any, None]:
    async def main() -> None:
        async with pool_of(peer, **more) as pool:
            await use(pool)

    return main()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (OK, 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 1\r\n\r\nx", 409, b"x"),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b""),
    ],
)
def test_answers_and_the_next_request_on_the_same_connection(run: Run, said: bytes, status: int, body: bytes) -> None:
    peer = Peer([said, OK])

    async def ask(pool: ConnectionPool) -> None:
        answer, content = await pool.fetch(GET, True, MOST)
        assert (answer.status, content) == (status, body)
        assert (await pool.fetch(POST, False, MOST))[1] == b"ok"

    run(asking(peer, ask))
    assert peer.asked == [(0, b"GET"), (0, b"POST")]


def test_a_body_that_ends_with_its_connection(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        answer, content = await pool.fetch(GET, True, MOST)
        assert (answer.headers, content) == ({"x-one": "1"}, b"until the end")
        assert (await pool.fetch(GET, True, MOST))[1] == b"ok"

    run(asking(Peer([b"HTTP/1.0 200 OK\r\nX-One: 1\r\n\r\nuntil the end"]), ask))


def test_an_answer_in_single_bytes(run: Run) -> None:
    class Slow(Peer):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for byte in b"HTTP/1.1 201 Made so\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nok":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()

    async def ask(pool: ConnectionPool) -> None:
        answer, content = await pool.fetch(GET, True, MOST)
        assert (answer.status, answer.reason, answer.headers["retry-after"], content) == (201, "Made so", "7", b"ok")

    run(asking(Slow(), ask))


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
    ],
)
def test_an_answer_that_is_none_is_an_error_and_its_connection_is_not_used_again(run: Run, said: bytes | None) -> None:
    peer = Peer([said])

    async def ask(pool: ConnectionPool) -> None:
        with pytest.raises(ConnectionError):
            await pool.fetch(GET, True, MOST)
        assert (await pool.fetch(GET, True, MOST))[1] == b"ok"

    run(asking(peer, ask))
    assert peer.asked == [(0, b"GET"), (1, b"GET")], "a first request on a connection is not repeated either"


def test_a_head_without_end(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        with pytest.raises(ConnectionError, match="head of the answer does not end"):
            await pool.fetch(GET, True, MOST)

    run(asking(Peer([b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000]), ask))


def test_bytes_that_nobody_asked_for_end_the_connection(run: Run) -> None:
    peer = Peer([OK + OK])

    async def ask(pool: ConnectionPool) -> None:
        for _ in range(2):
            assert (await pool.fetch(POST, False, MOST))[1] == b"ok"

    run(asking(peer, ask))
    assert [number for number, _ in peer.asked] == [0, 1]


def test_a_read_on_an_idle_connection_that_the_server_closes_is_sent_again_and_a_write_is_not(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        await pool.fetch(GET, True, MOST)
        assert (await pool.fetch(GET, True, MOST))[1] == b"ok"

    peer = Peer([OK, None])
    run(asking(peer, ask))
    assert peer.asked == [(0, b"GET"), (0, b"GET"), (1, b"GET")]

    async def write(pool: ConnectionPool) -> None:
        await pool.fetch(POST, False, MOST)
        with pytest.raises(ConnectionError, match="without an answer"):
            await pool.fetch(POST, False, MOST)

    peer = Peer([OK, None])
    run(asking(peer, write))
    assert peer.asked == [(0, b"POST"), (0, b"POST")]


def test_a_read_whose_answer_has_begun_is_not_sent_again(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        await pool.fetch(GET, True, MOST)
        with pytest.raises(ConnectionError, match="in the middle of its answer"):
            await pool.fetch(GET, True, MOST)

    peer = Peer([OK, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"])
    run(asking(peer, ask))
    assert len(peer.asked) == 2


def test_a_body_that_is_too_large(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        with pytest.raises(BodyTooLargeError):
            await pool.fetch(GET, True, 1000)
        assert (await pool.fetch(GET, True, 2))[1] == b"ok"

    run(asking(Peer([b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001]), ask))


def test_a_request_that_is_given_up_gives_up_its_connection(run: Run) -> None:
    peer = Peer([b"wait"])

    async def ask(pool: ConnectionPool) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.fetch(POST, False, MOST)
        peer.released.set()
        assert (await pool.fetch(POST, False, MOST))[1] == b"ok"

    run(asking(peer, ask))
    assert peer.asked[-1] == (1, b"POST")


def test_many_requests_share_few_connections_in_their_order(run: Run) -> None:
    peer = Peer()

    async def ask(pool: ConnectionPool) -> None:
        done: list[int] = []

        async def one(number: int) -> None:
            await pool.fetch(POST, False, MOST)
            done.append(number)

        await asyncio.gather(*[one(number) for number in range(60)])
        assert sorted(done) == list(range(60))
        assert peer.connections <= 3

    run(asking(peer, ask, most=3))
    assert len(peer.asked) == 60


def test_one_that_waits_for_a_connection_can_be_given_up(run: Run) -> None:
    peer = Peer([b"wait", OK, OK])

    async def ask(pool: ConnectionPool) -> None:
        first = asyncio.create_task(pool.fetch(POST, False, MOST))
        await until(lambda: len(peer.asked) == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.fetch(POST, False, MOST)
        next_one = asyncio.create_task(pool.fetch(POST, False, MOST))
        peer.released.set()
        assert [(await one)[1] for one in (first, next_one)] == [b"ok", b"ok"]

    run(asking(peer, ask, most=1))
    assert peer.asked == [(0, b"POST"), (0, b"POST")]


def test_a_stream_is_not_read_faster_than_it_is_taken(run: Run) -> None:
    size, piece = 300, b"x" * 2**16

    class Fountain(Peer):
        sent = 0

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(size):
                writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
                await writer.drain()
                self.sent += 1
            writer.write(b"0\r\n\r\n")
            await reader.read()
            writer.close()

    peer = Fountain()

    async def ask(pool: ConnectionPool) -> None:
        async with pool.stream(GET, PATIENCE) as answer:
            await until(lambda: answer._buffered > answers.MOST_BUFFERED)
            # Sockets buffer some megabytes themselves.
            await asyncio.sleep(0.2)
            assert answer._buffered < 2 * answers.MOST_BUFFERED
            assert peer.sent < size
            assert sum([len(chunk) async for chunk in answer.chunks()]) == size * len(piece)

    run(asking(peer, ask))


def test_a_silent_stream_ends_with_an_error(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        with pytest.raises(OSError, match=r"nothing came for 0\.2 s"):
            async with pool.stream(GET, 0.2) as answer:
                assert [chunk async for chunk in answer.chunks()] == [b"event"]
        with pytest.raises(TimeoutError):
            async with pool.stream(GET, 0.2):
                pytest.fail("there is no head")

    peer = Peer([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n", b"wait"], [b"wait"])
    run(asking(peer, ask))


def test_a_stream_that_breaks_gives_what_came_before(run: Run) -> None:
    async def ask(pool: ConnectionPool) -> None:
        async with pool.stream(GET, PATIENCE) as answer:
            chunks = answer.chunks()
            assert await anext(chunks) == b"event"
            with pytest.raises(ConnectionError):
                await anext(chunks)

    run(asking(Peer([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n5\r\n"]), ask))


def test_a_stream_that_is_left_early_is_cut_and_one_that_ends_is_used_again(run: Run) -> None:
    ended = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    peer = Peer([ended, ended[:-5], OK])

    async def take_all(answer: Answer) -> bytes:
        return b"".join([chunk async for chunk in answer.chunks()])

    async def ask(pool: ConnectionPool) -> None:
        async with pool.stream(GET, PATIENCE) as answer:
            assert await take_all(answer) == b"a"
        async with pool.stream(GET, PATIENCE) as answer:
            pass
        await pool.fetch(GET, True, MOST)

    run(asking(peer, ask))
    assert [number for number, _ in peer.asked] == [0, 0, 1]


def test_connections_that_nobody_uses_are_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_IDLE_SECONDS", 0.05)
    peer = Peer()

    async def ask(pool: ConnectionPool) -> None:
        await pool.fetch(GET, True, MOST)
        await until(lambda: not peer.open)
        assert pool.is_empty
        assert (await pool.fetch(GET, True, MOST))[1] == b"ok"

    run(asking(peer, ask))


def test_other_certificates_take_new_connections_and_the_old_ones_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_LAST_REQUEST", 0.3)
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    peer = Peer([OK, endless, OK])

    async def ask(pool: ConnectionPool) -> None:
        await pool.fetch(GET, True, MOST)
        async with pool.stream(GET, PATIENCE) as answer:
            pool.trust(None, b"other")
            await pool.fetch(GET, True, MOST)
            chunks = answer.chunks()
            assert await anext(chunks) == b"a"
            with pytest.raises(ConnectionError, match="certificates are replaced"):
                await anext(chunks)

    run(asking(peer, ask))
    assert [number for number, _ in peer.asked] == [0, 0, 1]


def test_nobody_listens(run: Run) -> None:
    async def ask() -> None:
        pool = ConnectionPool(Dialer("http://127.0.0.1:9"))
        pool.trust(None, b"")
        done = await asyncio.gather(*[pool.fetch(GET, True, MOST) for _ in range(10)], return_exceptions=True)
        assert {str(one) for one in done} == {"Cannot connect to 127.0.0.1:9: Connection refused"}
        await pool.close()

    run(ask())


@needs_openssl
def test_tls_with_the_name_that_the_certificate_must_have(run: Run, tmp_path: Path) -> None:
    certificate(tmp_path, "server")
    file, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    async def ask() -> None:
        serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serves.load_cert_chain(file, key)
        listener = await asyncio.start_server(Peer().serve, "127.0.0.1", 0, ssl=serves)
        port = listener.sockets[0].getsockname()[1]
        trusted = ssl.create_default_context(cafile=file)
        for server_name, error in ((None, None), ("elsewhere", "certificate verify failed")):
            pool = ConnectionPool(Dialer(f"https://127.0.0.1:{port}", server_name))
            pool.trust(trusted, b"")
            try:
                if error is None:
                    done = await asyncio.gather(*[pool.fetch(POST, False, MOST) for _ in range(20)])
                    assert [content for _, content in done] == [b"ok"] * 20
                else:
                    with pytest.raises(ConnectionError, match=error):
                        await pool.fetch(POST, False, MOST)
            finally:
                await pool.close()
        listener.close()

    run(ask())

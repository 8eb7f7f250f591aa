"""HTTP that is broken: the server answers or hangs up, never fails, and serves the next one."""

import asyncio
import random

import pytest

from tests.extender.fuzzing import ENDPOINTS, Server, body
from tests.properties.worlds import examples
from tests.server.listening import until_listening
from tonnage.extender import app
from tonnage.lab.program import free_ports
from tonnage.server.endpoint import Endpoint
from tonnage.server.http import serve

HEAD = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CASES = {
    "nothing": b"",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a request line without end": b"POST /" + b"a" * 200_000,
    "a head without end": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000,
    "a body that is cut": HEAD + b'Content-Length: 100\r\n\r\n{"Pod":',
    "a length that is no number": HEAD + b"Content-Length: many\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\n{}",
    "a length that is too small": HEAD + b'Content-Length: 2\r\n\r\n{"Pod": {}}',
    "a length beyond all memory": HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    "chunks that are cut": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "chunks of no length": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "invalid UTF-8": HEAD + b'Content-Length: 10\r\n\r\n{"Pod\xff\xfe":}',
    "another method": b"BREW /filter HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method that is not served": b"GET /filter HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path that is not served": b"POST /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path of any bytes": b"POST /\xff\x00%zz HTTP/1.1\r\nHost: a\r\n\r\n",
}


async def exchange(port: int, data: bytes) -> bytes:
    """What is answered to these bytes, after which the client says no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)
    except (ConnectionError, TimeoutError):
        return b""
    finally:
        writer.close()


def served(*requests: bytes) -> list[bytes]:
    """The answers to broken requests; a sound one is answered after each."""
    server = Server()

    async def main() -> list[bytes]:
        (port,) = free_ports(1)
        stop = asyncio.Event()
        task = asyncio.create_task(serve([(server.app, Endpoint("127.0.0.1", port))], stop))
        await until_listening(port)
        answers: list[bytes] = []
        for request in requests:
            answers.append(await exchange(port, request))
            health = await exchange(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert health.endswith(b"ok"), request[:200]
        stop.set()
        await task
        return answers

    try:
        answers = asyncio.run(main())
        assert server.mistakes.texts == []
        return answers
    finally:
        server.close()


@pytest.mark.parametrize("case", CASES)
def test_broken_requests_are_answered_or_hung_up_on(case):
    (answer,) = served(CASES[case])
    assert b" 500 " not in answer.split(b"\r\n")[0]


def test_a_body_that_is_too_large_is_refused(monkeypatch):
    limits = {"LARGEST_BODY": 1500, "LARGEST_BIND": 1000, "LARGEST_REVIEW": 1200}
    for name, limit in limits.items():
        monkeypatch.setattr(app, name, limit)
    size = 2000
    expectations = (
        (b"/filter", b'"Error":"the request is larger than 1500 bytes"'),
        (b"/bind", b'"Error":"the request is larger than 1000 bytes"'),
        (b"/webhook", b"the request is larger than 1200 bytes"),
    )
    for path, expected in expectations:
        head = HEAD.replace(b"/filter", path) + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
        (answer,) = served(head + b"x" * size)
        assert expected in answer


def test_requests_that_are_cut_anywhere_or_broken_anywhere_hurt_nobody():
    rng = random.Random(0)
    requests = []
    for _ in range(examples(60)):
        content = body(rng.choice(ENDPOINTS), rng)
        length = rng.choice([len(content), len(content), len(content) // 2, len(content) + 10])
        path = rng.choice(ENDPOINTS).encode()
        whole = HEAD.replace(b"/filter", path) + b"Content-Length: %d\r\n\r\n" % length + content
        place = rng.randrange(len(whole))
        requests.append(rng.choice([whole[:place], whole[:place] + rng.randbytes(3) + whole[place:], whole]))
    for answer in served(*requests):
        assert b" 500 " not in answer.split(b"\r\n")[0]

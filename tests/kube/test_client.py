"""The client of the API server: when it asks again, how fast it may ask, and that a path is sent as it was built."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.kube.fake_server import FakeServer
from tests.waiting import PATIENCE
from tonnage.binder.binding import pod_path
from tonnage.kube.client import Client, connect
from tonnage.kube.errors import ConnectionLostError, StatusError, UnsentError
from tonnage.kube.ratelimit import RateLimit, request_limit

BUSY = (429, "Retry-After: 1\r\n")
OK = (200, "")


class Busy:
    """An API server that answers as planned, then with success, and remembers when it was asked for what."""

    def __init__(self, *plan: tuple[int, str]) -> None:
        self.plan = list(plan)
        self.asked: list[tuple[str, float]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line for line in head.lower().splitlines() if line.startswith("content-length")), ": 0")
                await reader.readexactly(int(length.partition(":")[2]))
                self.asked.append((" ".join(head.split()[:2]), asyncio.get_running_loop().time()))
                code, headers = self.plan.pop(0) if self.plan else OK
                body = json.dumps({"kind": "Status", "code": code, "message": "as planned"})
                writer.write(f"HTTP/1.1 {code} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        except (asyncio.IncompleteReadError, OSError):
            writer.transport.abort()

    @property
    def pauses(self) -> list[float]:
        times = [at for _, at in self.asked]
        return [later - earlier for earlier, later in pairwise(times)]


@asynccontextmanager
async def client_of(busy: Busy, folder: Path, limit: RateLimit | None = None) -> AsyncIterator[Client]:
    listener = await asyncio.start_server(busy.serve, "127.0.0.1", 0)
    fake = FakeServer(address=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    client = await connect(fake.kubeconfig(folder), limit=limit)
    try:
        yield client
    finally:
        await client.close()
        listener.close()


def run(busy: Busy, folder: Path, use: Callable[[Client], Awaitable[None]], limit: RateLimit | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * PATIENCE), client_of(busy, folder, limit) as client:
            await use(client)

    asyncio.run(main())


def test_a_busy_server_is_asked_again_when_it_says_so(tmp_path: Path) -> None:
    busy = Busy(BUSY, BUSY)

    async def write(client: Client) -> None:
        await client.request("POST", "/api/v1/namespaces/default/events", body={})

    run(busy, tmp_path, write)
    assert len(busy.asked) == 3
    assert all(pause >= 1.0 for pause in busy.pauses)


def test_a_read_is_repeated_when_the_server_is_unavailable(tmp_path: Path) -> None:
    busy = Busy((503, "Retry-After: 1\r\n"))

    async def ask(client: Client) -> None:
        await client.get("/api/v1/pods")

    run(busy, tmp_path, ask)
    assert len(busy.asked) == 2


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_write_that_may_have_happened_is_left_to_its_caller(tmp_path: Path, method: str) -> None:
    busy = Busy((503, "Retry-After: 1\r\n"))

    async def ask(client: Client) -> None:
        with pytest.raises(StatusError) as caught:
            await client.request(method, "/api/v1/pods", body={})
        assert (caught.value.status, caught.value.retry_after) == (503, 1.0)

    run(busy, tmp_path, ask)
    assert len(busy.asked) == 1


@pytest.mark.parametrize("said", ["", "Retry-After: soon\r\n", f"Retry-After: {'9' * 5000}\r\n", "Retry-After: -1\r\n"])
def test_without_a_number_of_seconds_nothing_is_repeated(tmp_path: Path, said: str) -> None:
    busy = Busy((429, said))

    async def ask(client: Client) -> None:
        with pytest.raises(StatusError, match="429"):
            await client.get("/api/v1/pods")

    run(busy, tmp_path, ask)
    assert len(busy.asked) == 1


def test_nobody_waits_longer_than_a_request_may_take(tmp_path: Path) -> None:
    busy = Busy((429, "Retry-After: 3600\r\n"))

    async def ask(client: Client) -> None:
        with pytest.raises(StatusError) as caught:
            await client.request("POST", "/api/v1/pods", body={}, timeout=5)
        assert caught.value.retry_after == 10.0, "an hour is not waited for"

    run(busy, tmp_path, ask)
    assert len(busy.asked) == 1


def test_requests_beyond_the_limit_wait_and_one_that_would_wait_too_long_is_not_sent(tmp_path: Path) -> None:
    busy = Busy()

    async def ask(client: Client) -> None:
        for _ in range(4):
            await client.get("/api/v1/pods")
        with pytest.raises(UnsentError, match="--kube-qps"):
            await client.request("POST", "/api/v1/pods", body={}, timeout=0.01)

    run(busy, tmp_path, ask, RateLimit(per_second=4, burst=2))
    assert len(busy.asked) == 4
    assert sum(busy.pauses) >= 0.45


def test_leader_election_does_not_wait_for_the_limit(tmp_path: Path) -> None:
    busy = Busy()

    async def ask(client: Client) -> None:
        await client.get("/api/v1/pods")
        for _ in range(5):
            await client.unlimited.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/x", timeout=1)

    run(busy, tmp_path, ask, RateLimit(per_second=0.01, burst=1))
    assert len(busy.asked) == 6


def test_a_watch_counts_once(tmp_path: Path) -> None:
    busy = Busy()

    async def ask(client: Client) -> None:
        async with client.stream("/api/v1/pods", {"watch": 1}, silence=5) as chunks:
            assert [chunk async for chunk in chunks]
        with pytest.raises(UnsentError):
            await client.get("/api/v1/pods", timeout=1)

    run(busy, tmp_path, ask, RateLimit(per_second=0.01, burst=1))


def test_a_name_that_is_none_does_not_leave_its_segment_on_the_wire(tmp_path: Path) -> None:
    busy = Busy()

    async def ask(client: Client) -> None:
        for name in ("../../../pods?x=", "..", "a b"):
            await client.request("POST", pod_path("default", name, "binding"), body={})

    run(busy, tmp_path, ask)
    start = "POST /api/v1/namespaces/default/pods/"
    names = ("..%2F..%2F..%2Fpods%3Fx%3D", "%2E%2E", "a%20b")
    assert [what for what, _ in busy.asked] == [f"{start}{name}/binding" for name in names]


def test_a_lost_connection_is_still_an_unknown_outcome(tmp_path: Path) -> None:
    class Rude(Busy):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()

    async def ask(client: Client) -> None:
        with pytest.raises(ConnectionLostError):
            await client.request("POST", "/api/v1/pods", body={})

    run(Rude(), tmp_path, ask)


@pytest.mark.parametrize(("qps", "burst", "is_limited"), [(None, None, False), (0, 10, False), (5, None, True)])
def test_there_is_no_limit_unless_it_is_asked_for(qps: float | None, burst: int | None, is_limited: bool) -> None:
    assert (request_limit(qps, burst) is not None) == is_limited

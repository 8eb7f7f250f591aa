"""A client whose writes end with the time for which they are allowed."""

import asyncio

import pytest

from tonnage.kube.errors import ConnectionLostError
from tonnage.kube.leaderelection.fence import FencedClient, FencedError


class Api:
    def __init__(self):
        self.asked = []

    async def request(self, method, path, *, timeout, body=None):
        self.asked.append((method, path, timeout, body))
        return b"{}"


@pytest.mark.parametrize(("left", "timeout"), [(3.0, 3.0), (60.0, 10.0)])
def test_a_write_gets_no_more_time_than_there_is(left, timeout):
    api = Api()
    asyncio.run(FencedClient(api, lambda: (left, 1.0)).request("PATCH", "/x", body={"a": 1}, timeout=10))
    assert api.asked == [("PATCH", "/x", timeout, {"a": 1})]


def test_a_write_is_not_begun_when_there_is_too_little_left_but_reading_goes_on():
    api = Api()
    fenced = FencedClient(api, lambda: (0.9, 1.0))
    with pytest.raises(FencedError):
        asyncio.run(fenced.request("POST", "/x"))
    assert fenced.unanswered == 0
    asyncio.run(fenced.request("GET", "/x", timeout=10))
    assert api.asked == [("GET", "/x", 10, None)]


def test_writes_without_an_answer_are_counted():
    class Slow(Api):
        async def request(self, method, path, **more):
            counts.append(fenced.unanswered)
            raise ConnectionLostError

    counts = []
    fenced = FencedClient(Slow(), lambda: (60.0, 1.0))
    with pytest.raises(ConnectionLostError):
        asyncio.run(fenced.request("POST", "/x"))
    assert counts == [1]
    assert fenced.unanswered == 0

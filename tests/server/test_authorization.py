"""Metrics behind the API server's authentication and authorization, with an API server that the test plays."""

import asyncio
import json
import logging
from functools import partial

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server.strangers import LOOPBACK, STRANGER, asked, head, serving
from tests.waiting import until_true
from tonnage.kube.errors import ConnectionLostError
from tonnage.server import authorization
from tonnage.server.authorization import ACCESS_REVIEWS, TOKEN_REVIEWS, Authorizer, authorized

PROMETHEUS, SOMEBODY = "prometheus-token", "somebodys-token"
USERS = {PROMETHEUS: "system:serviceaccount:monitoring:prometheus", SOMEBODY: "somebody"}


class Api:
    """Knows two users, of whom one may get /metrics."""

    def __init__(self):
        self.asked = []
        self.is_down = False
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def request(self, method, path, *, body, timeout):
        assert method == "POST"
        self.asked.append((path, body["spec"]))
        await self.go_on.wait()
        if self.is_down:
            raise ConnectionLostError("POST: connection refused")
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            user = USERS.get(spec["token"])
            known = {"username": user, "uid": "7", "groups": ["g"], "extra": {"scopes": ["x"]}}
            return json.dumps({"status": {"authenticated": True, "user": known} if user else {}}).encode()
        assert path == ACCESS_REVIEWS
        about = {"path": "/metrics", "verb": "get"}
        allowed = spec["user"] == USERS[PROMETHEUS] and spec["nonResourceAttributes"] == about
        assert (spec["groups"], spec["uid"], spec["extra"]) == (["g"], "7", {"scopes": ["x"]})
        return json.dumps({"status": {"allowed": allowed}}).encode()


class World:
    def __init__(self):
        self.api, self.now = Api(), 0.0
        self.authorizer = Authorizer(self.api, lambda: self.now)

    async def status(self, token, path="/metrics"):
        return await self.authorizer.status(f"Bearer {token}", path)


def play(scene):
    async def main():
        await scene(World())

    asyncio.run(main())


def test_who_may_get_the_path_is_answered_and_others_are_told_why():
    async def scene(world):
        async def shown(request):
            return PlainTextResponse("figures")

        guard = partial(authorized, world.authorizer)
        async with serving(Starlette(routes=[Route("/metrics", guard(shown))])) as port:

            async def get(path, address=STRANGER, **headers):
                return await asked(port, head(path, **headers), address)

            assert (await get("/metrics", Authorization=f"Bearer {PROMETHEUS}")).endswith(b"figures")
            forbidden = await get("/metrics", Authorization=f"Bearer {SOMEBODY}")
            assert b" 403 " in forbidden
            assert b"nonResourceURLs" in forbidden
            for header in ({}, {"Authorization": "Bearer invented"}, {"Authorization": "Basic eDp5"}):
                refused = await get("/metrics", **header)
                assert b" 401 " in refused
                assert b"\r\nwww-authenticate: Bearer\r\n" in refused
            assert (await get("/metrics", LOOPBACK)).endswith(b"figures")

    play(scene)


def test_answers_are_kept_for_a_few_seconds_each_for_its_path():
    async def scene(world):
        for token, status in ((PROMETHEUS, 200), (SOMEBODY, 403), ("invented", 401)):
            world.api.asked.clear()
            assert [await world.status(token) for _ in range(3)] == [status] * 3
            assert len(world.api.asked) == (1 if token == "invented" else 2)
            world.now += authorization.KEPT_SECONDS
            assert await world.status(token) == status
            assert len(world.api.asked) == (2 if token == "invented" else 4)
        assert await world.status(PROMETHEUS, "/debug/snapshot") == 403

    play(scene)


def test_invented_tokens_do_not_displace_good_ones_and_are_forgotten(monkeypatch):
    monkeypatch.setattr(authorization, "MOST_KEPT", 10)

    async def scene(world):
        assert await world.status(PROMETHEUS) == 200
        for number in range(100):
            assert await world.status(f"invented-{number}") == 401
        world.api.asked.clear()
        assert await world.status(PROMETHEUS) == 200
        assert world.api.asked == []
        assert len(world.authorizer._refused._kept) == 10

    play(scene)


def test_one_token_is_asked_about_once_at_a_time_and_not_too_many_are(monkeypatch):
    monkeypatch.setattr(authorization, "MOST_ASKED", 4)

    async def scene(world):
        world.api.go_on.clear()
        same = [asyncio.create_task(world.status(PROMETHEUS)) for _ in range(20)]
        others = [asyncio.create_task(world.status(f"invented-{number}")) for number in range(20)]
        await until_true(lambda: sum(task.done() for task in others) == 17)
        assert len(world.api.asked) == 4
        world.api.go_on.set()
        assert {await task for task in same} == {200}
        assert sorted([await task for task in others]) == [401] * 3 + [429] * 17

    play(scene)


def test_while_the_api_server_is_down_nobody_is_let_in_and_that_is_not_kept():
    async def scene(world):
        world.api.is_down = True
        assert await world.status(PROMETHEUS) == 503
        world.api.is_down = False
        assert await world.status(PROMETHEUS) == 200

    play(scene)


@pytest.mark.parametrize("token", ["", " ", "x" * 20_000])
def test_what_is_no_token_is_not_asked_about(token):
    async def scene(world):
        assert await world.status(token) == 401
        assert world.api.asked == []

    play(scene)


def test_tokens_are_not_kept_and_not_logged(caplog):
    caplog.set_level(logging.DEBUG)

    async def scene(world):
        for is_down in (True, False):
            world.api.is_down = is_down
            for token in (PROMETHEUS, SOMEBODY):
                await world.status(token)
        kept = f"{world.authorizer._allowed._kept}{world.authorizer._refused._kept}"
        for token in (PROMETHEUS, SOMEBODY):
            assert token not in kept
            assert token not in caplog.text

    play(scene)

"""Bodies and requests in flight: each limited, and many together, so that who sends much keeps nobody out."""

import asyncio

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, request_response

from tests.server.strangers import asked, connected, head, serving
from tests.waiting import until_true
from tonnage.server.bodies import BodyError, BodyReader
from tonnage.server.inflight import InFlight


class Reading:
    def __init__(self, largest: int, together: int | None = None) -> None:
        self.reader = BodyReader(largest, together)
        self.app = Starlette(routes=[Route("/", self.read, methods=["POST"])])

    async def read(self, request):
        try:
            return PlainTextResponse(str(len(await self.reader.read(request.scope, request.receive))))
        except BodyError as error:
            return PlainTextResponse(str(error), error.status)

    @property
    def held(self) -> int:
        return sum(body.size for body in self.reader._open)


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes_and_others_when_they_are():
    async def main():
        async with serving(Reading(1000).app) as port:
            assert (await asked(port, head("/", "POST", Content_Length=1000) + b"x" * 1000)).endswith(b"1000")
            assert b" 413 " in await asked(port, head("/", "POST", Content_Length=1001))
            chunks = head("/", "POST", Transfer_Encoding="chunked") + b"1f4\r\n" + b"x" * 500 + b"\r\n"
            assert b" 413 " in await asked(port, chunks + b"1f5\r\n" + b"x" * 501 + b"\r\n0\r\n\r\n")

    asyncio.run(main())


def test_many_slow_senders_of_much_do_not_keep_out_one_who_sends_little():
    async def main():
        reading = Reading(100_000, together=200_000)
        async with serving(reading.app) as port:
            hoarders = [await connected(port) for _ in range(10)]
            for number, peer in enumerate(hoarders):
                peer.send(head("/", "POST", Content_Length=90_000) + b"x" * 50_000)
                wanted = min(number + 1, 3) * 50_000
                await until_true(lambda wanted=wanted: reading.held >= wanted)
            assert reading.held <= 200_000
            assert (await asked(port, head("/", "POST", Content_Length=3) + b"abc")).endswith(b"3")
            for peer in hoarders:
                peer.send(b"x" * 40_000)
            answers = [await peer.answer() for peer in hoarders]
            assert any(answer.endswith(b"90000") for answer in answers)
            assert any(b" 503 " in answer for answer in answers)
            for peer in hoarders:
                peer.close()
            assert reading.held == 0

    asyncio.run(main())


def test_what_is_answered_one_at_a_time_is_refused_to_a_second_and_free_again_afterwards():
    async def main():
        go_on, begun = asyncio.Event(), asyncio.Event()

        async def late(request):
            begun.set()
            await go_on.wait()
            return PlainTextResponse("done")

        app = Starlette(routes=[Route("/", InFlight(request_response(late), 1), methods=["GET"])])
        async with serving(app) as port:
            first = asyncio.create_task(asked(port, head("/")))
            await begun.wait()
            second = await asked(port, head("/"))
            assert second.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nretry-after: 1\r\n" in second
            go_on.set()
            assert (await first).endswith(b"done")
            assert (await asked(port, head("/"))).endswith(b"done")

    asyncio.run(main())

"""Routes by their exact paths: what is there is answered, and nothing else."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server.strangers import asked, head, serving
from tonnage.server.routing import ExactRoutes


async def shown(request):
    return PlainTextResponse(request.url.path)


APP = ExactRoutes([Route("/one", shown, methods=["POST"]), Route("/two", shown)])


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/one", "POST", 200),
        ("/one?x=/two", "POST", 200),
        ("/one", "GET", 405),
        ("/two", "GET", 200),
        ("/two/", "GET", 404),
        ("/t%77o", "GET", 200),
        ("//two", "GET", 404),
        ("/", "GET", 404),
    ],
)
def test_a_route_answers_its_path_and_methods_alone(path, method, status):
    async def main():
        async with serving(APP) as port:
            assert (await asked(port, head(path, method))).startswith(b"HTTP/1.1 %d " % status)

    asyncio.run(main())

"""Verbs of the extender protocol as endpoints: who may call, the body, and the answer, which another replica may give.

kube-scheduler waits for each answer, so an endpoint speaks ASGI itself: it makes no objects for the request and the
response, and the answer is whole when it is sent.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tonnage.extender.forwarding import PEER_NAME
from tonnage.extender.protocol import Arguments, read
from tonnage.extender.replicas import NobodyLeadsError, Replicas
from tonnage.model.wire import WireError, encode
from tonnage.server.bodies import BodyError, BodyReader
from tonnage.server.callers import Refusal, certificate_names

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Arguments)


class Verb(NamedTuple, Generic[T]):
    """What a verb takes, and what it answers."""

    name: str
    takes: type[T]
    answer: Callable[[T], Awaitable[object]]
    failed: Callable[[str], object]
    """The answer if the request cannot be answered, given the reason."""
    bodies: BodyReader


class VerbEndpoint(Generic[T]):
    """Answers the requests of one verb."""

    def __init__(self, verb: Verb[T], refusal: Refusal, replicas: Replicas | None) -> None:
        self._verb = verb
        self._path = f"/{verb.name}"
        self._refusal = refusal
        self._replicas = replicas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = self._refusal(scope)
        if why:
            await PlainTextResponse(why, 403)(scope, receive, send)
            return
        answer = await self._answer(scope, receive)
        length = str(len(answer)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        verb = self._verb
        try:
            body = await verb.bodies.read(scope, receive)
            if self._replicas is not None:
                answered = await self._replicas.answer_elsewhere(self._path, body, is_peer(scope))
                if answered is not None:
                    return answered
            return encode(await verb.answer(read(body, verb.takes)))
        except (BodyError, NobodyLeadsError) as error:
            return encode(verb.failed(str(error)))
        except WireError as error:
            where = f" at {error.path}" if error.path else ""
            return encode(verb.failed(f"the request cannot be read{where}: {error.message}"))
        except Exception:
            log.exception("%s failed", self._path)
            return encode(verb.failed("the extender failed to answer; its log says why"))


def is_peer(scope: Scope) -> bool:
    """Whether another replica calls."""
    return PEER_NAME in (certificate_names(scope) or ())

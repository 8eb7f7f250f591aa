"""Authorizer: asks the API server who a bearer token belongs to and whether its user may get a path.

It asks as kube-scheduler does for its own metrics, by TokenReview and SubjectAccessReview, and keeps the answers for a
few seconds. Tokens are kept and looked up by their digest only, and never logged.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.paths import api_path
from tonnage.model.wire import WireError, decode
from tonnage.server.callers import Handler, from_loopback

log = logging.getLogger(__name__)

TOKEN_REVIEWS = api_path("authentication.k8s.io/v1", "tokenreviews")
ACCESS_REVIEWS = api_path("authorization.k8s.io/v1", "subjectaccessreviews")
KEPT_SECONDS = 10.0
"""kube-scheduler keeps these answers as long."""
MOST_KEPT = 1024
MOST_ASKED = 16
"""Questions to the API server at once."""
LONGEST_TOKEN = 16 * 2**10
_SECONDS = 10.0
_BEARER = "bearer "

ALLOWED = 200
FORBIDDEN = 403
_UNAUTHENTICATED, _TOO_MANY, _UNAVAILABLE = 401, 429, 503


Attributes = dict[str, dict[str, str]]
"""What a SubjectAccessReview asks about."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class _Answers:
    """HTTP statuses by token and path, each for a few seconds; the oldest go when there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[tuple[bytes, str], tuple[float, int]] = {}

    def get(self, key: tuple[bytes, str]) -> int | None:
        until, status = self._kept.get(key, (0.0, 0))
        return status if self._clock() < until else None

    def put(self, key: tuple[bytes, str], status: int) -> None:
        self._kept.pop(key, None)
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = self._clock() + KEPT_SECONDS, status


class Authorizer:
    """Decides by the API server's authentication and authorization who may get a path."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._allowed = _Answers(clock)
        self._refused = _Answers(clock)
        """Apart, so that invented tokens do not displace those that are good."""
        self._asked: dict[tuple[bytes, str], asyncio.Task[int]] = {}

    async def status(self, authorization: str, path: str) -> int:
        """The HTTP status for the Authorization header of a request: 200 if the caller may get the path."""
        return await self._status(authorization, path, {"nonResourceAttributes": {"path": path, "verb": "get"}})

    async def list_status(self, authorization: str, resource: str, namespace: str = "") -> int:
        """The same for listing a core resource, in a namespace or, if none is given, in all of them."""
        asked = {"verb": "list", "version": "v1", "resource": resource, "namespace": namespace}
        what = f"list {resource} in {namespace or 'all namespaces'}"
        return await self._status(authorization, what, {"resourceAttributes": asked})

    async def _status(self, authorization: str, path: str, attributes: Attributes) -> int:
        token = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else ""
        if not token or len(token) > LONGEST_TOKEN:
            return _UNAUTHENTICATED
        key = hashlib.sha256(token.encode()).digest(), path
        known = self._allowed.get(key) or self._refused.get(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= MOST_ASKED:
                return _TOO_MANY
            asked = self._asked[key] = asyncio.create_task(self._ask(token, path, attributes))
            asked.add_done_callback(lambda _: self._asked.pop(key))
        status = await asyncio.shield(asked)
        if status != _UNAVAILABLE:
            (self._allowed if status == ALLOWED else self._refused).put(key, status)
        return status

    async def _ask(self, token: str, path: str, attributes: Attributes) -> int:
        try:
            user = await self._user(token)
            if user is None:
                return _UNAUTHENTICATED
            return ALLOWED if await self._may(user, attributes) else FORBIDDEN
        except (KubeError, WireError) as error:
            log.warning("who asks for %s cannot be reviewed: %s", path, error)
            return _UNAVAILABLE

    async def _user(self, token: str) -> _User | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client.request("POST", TOKEN_REVIEWS, body=body, timeout=_SECONDS)
        status = decode(answer, _TokenReview).status
        return status.user if status.authenticated and status.user.username else None

    async def _may(self, user: _User, attributes: Attributes) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            **attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._client.request("POST", ACCESS_REVIEWS, body=body, timeout=_SECONDS)
        status = decode(answer, _AccessReview).status
        return status.allowed and not status.denied


_WORDS = {
    _UNAUTHENTICATED: "show a bearer token that the API server knows",
    FORBIDDEN: "the API server does not let this user get {path}; allow it in a ClusterRole, under nonResourceURLs",
    _TOO_MANY: "too many tokens are being reviewed; try again",
    _UNAVAILABLE: "the API server cannot be asked who this is; try again",
}


def authorized(authorizer: Authorizer, handler: Handler) -> Handler:
    """A handler for loopback peers, and for users whom the API server lets get its path."""

    async def guarded(request: Request) -> Response:
        if not from_loopback(request.scope):
            path = request.url.path
            status = await authorizer.status(request.headers.get("Authorization", ""), path)
            if status != ALLOWED:
                return refusal(status, path)
        return await handler(request)

    return guarded


def refusal(status: int, path: str) -> Response:
    """The answer to a caller who may not get a path, and what would help."""
    more = {"WWW-Authenticate": "Bearer"} if status == _UNAUTHENTICATED else {"Retry-After": "1"}
    return PlainTextResponse(_WORDS[status].format(path=path), status, more if status != FORBIDDEN else None)

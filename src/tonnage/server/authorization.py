"""Authorizer: asks the API server who a bearer token belongs to, and which path its user may get or which kind list.

It asks as kube-scheduler does for its own metrics, by TokenReview and SubjectAccessReview, and keeps the answers for a
few seconds. Tokens are kept and looked up by their digest only, and never logged.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.paths import api_path
from tonnage.model.kinds import ObjectKind
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
Answer = TypeVar("Answer")


class NotReviewedError(Exception):
    """The API server did not say whether a user may list something, with the status that tells the caller why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"not reviewed: {status}")
        self.status = status


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


class KeptAnswers(Generic[Answer]):
    """Answers by token and question, each for a few seconds; the oldest go when there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[tuple[bytes, str], tuple[float, Answer]] = {}

    def get(self, key: tuple[bytes, str]) -> Answer | None:
        until, answer = self._kept.get(key, (0.0, None))
        return answer if self._clock() < until else None

    def put(self, key: tuple[bytes, str], answer: Answer) -> None:
        self._kept.pop(key, None)
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = self._clock() + KEPT_SECONDS, answer


def digest(authorization: str) -> bytes:
    """What an Authorization header is known by."""
    return hashlib.sha256(_token(authorization).encode()).digest()


def _token(authorization: str) -> str:
    """The bearer token of an Authorization header; empty if there is none that could be one."""
    token = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else ""
    return token if len(token) <= LONGEST_TOKEN else ""


class Authorizer:
    """Decides by the API server's authentication and authorization who may get a path or list a kind of objects."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._users: KeptAnswers[_User] = KeptAnswers(clock)
        self._allowed: KeptAnswers[int] = KeptAnswers(clock)
        self._refused: KeptAnswers[int] = KeptAnswers(clock)
        """Apart, so that invented tokens do not displace those that are good."""
        self._asked: dict[tuple[bytes, str], asyncio.Task[int]] = {}

    async def status(self, authorization: str, path: str) -> int:
        """The HTTP status for the Authorization header of a request: 200 if the caller may get the path."""
        return await self._status(
            authorization, f"get {path}", {"nonResourceAttributes": {"path": path, "verb": "get"}}
        )

    async def may_list(self, authorization: str, kind: ObjectKind, namespace: str = "") -> bool:
        """Whether the caller may list a kind, in a namespace or, if none is given, everywhere; NotReviewedError."""
        group, _, version = kind.api_version.rpartition("/")
        asked = {"verb": "list", "group": group, "version": version, "resource": kind.plural, "namespace": namespace}
        what = f"list {kind.plural}.{group} in {namespace or 'all namespaces'}"
        status = await self._status(authorization, what, {"resourceAttributes": asked})
        if status not in (ALLOWED, FORBIDDEN):
            raise NotReviewedError(status)
        return status == ALLOWED

    async def _status(self, authorization: str, what: str, attributes: Attributes) -> int:
        token = _token(authorization)
        if not token:
            return _UNAUTHENTICATED
        key = digest(authorization), what
        known = self._allowed.get(key) or self._refused.get(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= MOST_ASKED:
                return _TOO_MANY
            asked = self._asked[key] = asyncio.create_task(self._ask(token, key, attributes))
            asked.add_done_callback(lambda _: self._asked.pop(key))
        status = await asyncio.shield(asked)
        if status != _UNAVAILABLE:
            (self._allowed if status == ALLOWED else self._refused).put(key, status)
        return status

    async def _ask(self, token: str, key: tuple[bytes, str], attributes: Attributes) -> int:
        try:
            user = self._users.get((key[0], ""))
            if user is None:
                user = await self._user(token)
                if user is None:
                    return _UNAUTHENTICATED
                self._users.put((key[0], ""), user)
            return ALLOWED if await self._may(user, attributes) else FORBIDDEN
        except (KubeError, WireError) as error:
            log.warning("whether somebody may %s cannot be reviewed: %s", key[1], error)
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

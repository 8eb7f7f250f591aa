"""CallerAccess: operators see all that a server knows, tenants what the API server lets them list.

The same rule holds for the dashboard, /explain and /debug.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tonnage.cluster.cluster import Cluster
from tonnage.model.kinds import BY_STRUCT, KINDS, KindRole, ObjectKind
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.server.authorization import (
    ALLOWED,
    FORBIDDEN,
    Authorizer,
    KeptAnswers,
    NotReviewedError,
    digest,
    refusal,
)
from tonnage.server.callers import LOOPBACK_NAMES, from_loopback, host_of
from tonnage.server.viewer import EVERYTHING, Viewer

ViewerOf = Callable[[Request], Awaitable[Viewer | Response]]
"""The rights of a caller, or the answer that refuses it."""
MOST_NAMESPACES = 1000
"""Namespaces that are asked about for one caller."""
_AT_ONCE = 8
"""Questions about tenants that the API server is asked at once; those about paths go beside them."""
_LOOPBACK_ONLY = (
    "only loopback peers may look at this; use kubectl port-forward, or start with --authorize-metrics and show a "
    "bearer token"
)
_OTHER_NAME = (
    f"loopback peers are answered under {', '.join(sorted(LOOPBACK_NAMES))} only: a page of somebody else's whose name "
    "points here must not read this one through a browser"
)
_NOTHING = (
    "the API server lets this user neither get {path} nor list pods in any namespace that has some; allow the one in "
    "a ClusterRole, under nonResourceURLs, or the other in a Role"
)
_NODES, _PODS = BY_STRUCT[Node], BY_STRUCT[Pod]


class CallerAccess:
    """Who may see what of one cluster.

    Loopback peers, and users who may get the path, see everything. About all others the API server is asked, by
    SubjectAccessReview: whether they may list nodes, queues and the pods of each namespace that has any.
    """

    def __init__(
        self,
        authorizer: Authorizer | None,
        cluster: Callable[[], Cluster],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authorizer = authorizer
        self._cluster = cluster
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._tenants: KeptAnswers[Viewer] = KeptAnswers(clock)

    def viewer_of(self, path: str = "") -> ViewerOf:
        """The rights of callers; those who may get the path, by default the one of their request, see everything."""

        async def viewer_of(request: Request) -> Viewer | Response:
            asked = path or request.url.path
            if from_loopback(request.scope):
                is_own = host_of(request.scope) in LOOPBACK_NAMES
                return EVERYTHING if is_own else PlainTextResponse(_OTHER_NAME, 421)
            if self._authorizer is None:
                return PlainTextResponse(_LOOPBACK_ONLY, FORBIDDEN)
            status = await self._authorizer.status(_authorization(request), asked)
            if status == ALLOWED:
                return EVERYTHING
            if status != FORBIDDEN:
                return refusal(status, asked)
            try:
                viewer = await self._tenant(_authorization(request))
            except NotReviewedError as error:
                return refusal(error.status, asked)
            if viewer.namespaces is not None and not viewer.namespaces:
                return PlainTextResponse(_NOTHING.format(path=asked), FORBIDDEN)
            return viewer

        return viewer_of

    async def _tenant(self, authorization: str) -> Viewer:
        """The rights of somebody who may not get the path, as far as a few seconds ago."""
        key = digest(authorization), ""
        known = self._tenants.get(key)
        if known is None:
            cluster = self._cluster()
            nodes = await self._may_list(authorization, _NODES)
            queues = all([await self._may_list(authorization, kind) for kind in _queue_kinds(cluster)])
            namespaces = {one.partition("/")[0] for one in cluster.pods()}
            known = Viewer(await self._namespaces(authorization, _PODS, namespaces), nodes, queues)
            self._tenants.put(key, known)
        return known

    async def _namespaces(self, authorization: str, kind: ObjectKind, among: Collection[str]) -> frozenset[str] | None:
        """The namespaces in which a user may list a kind; None for all of them."""
        if await self._may_list(authorization, kind):
            return None
        wanted = sorted(among)[:MOST_NAMESPACES]
        allowed = await asyncio.gather(*[self._may_list(authorization, kind, namespace) for namespace in wanted])
        return frozenset(namespace for namespace, is_own in zip(wanted, allowed, strict=True) if is_own)

    async def _may_list(self, authorization: str, kind: ObjectKind, namespace: str = "") -> bool:
        assert self._authorizer is not None
        async with self._asking:
            return await self._authorizer.may_list(authorization, kind, namespace)

    async def visible(self, request: Request, viewer: Viewer, things: Iterable[Any]) -> list[Any] | Response:
        """Those of some objects that a caller may list, kind by kind; an answer if that cannot be reviewed.

        Tenants are asked about in the namespaces whose pods they may see.
        """
        if viewer.sees_all:
            return list(things)
        by_kind: dict[ObjectKind, list[Any]] = {}
        for thing in things:
            by_kind.setdefault(BY_STRUCT[type(thing)], []).append(thing)
        found: list[Any] = []
        try:
            for kind, objects in by_kind.items():
                found += await self._visible(_authorization(request), viewer, kind, objects)
        except NotReviewedError as error:
            return refusal(error.status, request.url.path)
        return found

    async def _visible(self, authorization: str, viewer: Viewer, kind: ObjectKind, objects: list[Any]) -> list[Any]:
        if not kind.is_namespaced:
            return objects if await self._may_list(authorization, kind) else []
        own = {one.metadata.namespace or "" for one in objects if viewer.sees(one.metadata.key)}
        namespaces = await self._namespaces(authorization, kind, own)
        return [one for one in objects if namespaces is None or one.metadata.namespace in namespaces]


def _authorization(request: Request) -> str:
    return request.headers.get("Authorization", "")


def _queue_kinds(cluster: Cluster) -> list[ObjectKind]:
    """The kinds of queues of which the cluster has any."""
    return [kind for kind in KINDS if kind.role is KindRole.QUEUE and cluster.groups.given(kind.struct)]

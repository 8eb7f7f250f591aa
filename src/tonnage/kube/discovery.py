"""The discovery of kinds that the API server serves, every few seconds while a reflector waits for one.

One small request serves all waiting reflectors. Its answer only says when to try a list again; the list itself shows
whether a kind is installed, because a server that has just started may not know all of its kinds yet.
"""

import asyncio
import logging

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError
from tonnage.kube.resource import Resource
from tonnage.model.wire import WireError, decode

log = logging.getLogger(__name__)

_PATH = "/apis"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT = f"{_AGGREGATED},{_AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json"
"""Servers that do not know the first two answer with the last, which has groups and versions only."""


class _Named(msgspec.Struct, gc=False, frozen=True):
    name: str = ""
    resource: str = ""
    """The plural name of a resource."""


class _Version(msgspec.Struct, gc=False, frozen=True):
    version: str = ""
    resources: list[_Named] | None = None


class _Group(msgspec.Struct, gc=False, frozen=True):
    name: str = ""
    metadata: _Named = _Named()
    versions: list[_Version] = []


class _Served(msgspec.Struct, frozen=True):
    items: list[_Group] | None = None
    groups: list[_Group] | None = None
    """In place of `items`, from servers that answer with groups and versions only."""


class Discovery:
    """The kinds that are served, as of a moment ago."""

    def __init__(self, client: Client, every: float) -> None:
        self._client = client
        self._every = every
        self._lock = asyncio.Lock()
        self._asked_at = float("-inf")
        self._served: frozenset[str] | None = None
        """Paths of resources, or of versions of groups; None if the server does not answer."""

    async def until_served(self, resource: Resource) -> None:
        """Wait until the server may serve a resource, at least until its next answer."""
        while True:
            await asyncio.sleep(self._every)
            served = await self._latest()
            if is_served(resource, served):
                return

    async def _latest(self) -> frozenset[str] | None:
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if clock() - self._asked_at >= self._every / 2:
                self._served = await ask_served(self._client)
                self._asked_at = clock()
        return self._served


async def ask_served(client: Client) -> frozenset[str] | None:
    """Paths of the resources that the server serves, or of versions of groups; None if it does not say."""
    try:
        return served_paths(await client.get(_PATH, accept=_ACCEPT))
    except (KubeError, WireError) as error:
        log.info("what is installed cannot be found out (%s); it is tried by listing", error)
        return None


def is_served(resource: Resource, served: frozenset[str] | None) -> bool:
    """Whether a resource is served, or may be."""
    return served is None or resource.path in served or resource.path.rpartition("/")[0] in served


def served_paths(answer: bytes) -> frozenset[str]:
    """Paths of the resources in an answer, or of the versions of groups that come without resources."""
    served = decode(answer, _Served)
    paths = set[str]()
    for group in (*(served.items or ()), *(served.groups or ())):
        for version in group.versions:
            path = f"{_PATH}/{group.name or group.metadata.name}/{version.version}"
            paths.update(f"{path}/{one.resource}" for one in version.resources or ())
            if version.resources is None:
                paths.add(path)
    return frozenset(paths)

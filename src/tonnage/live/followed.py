"""A cluster that is followed: the informer keeps it current, and it says since when it is not.

Everything that reads it runs on the event loop that `following` was entered on, between two awaits.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from tonnage.cluster.cluster import Cluster
from tonnage.devices.base import Vendor
from tonnage.kube.client import Client
from tonnage.kube.discovery import ask_served, is_served
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import NODES, PODS, WatchedKind
from tonnage.kube.supervision import keep_running
from tonnage.kube.watch import FORBIDDEN, SILENCE, Backoff, Reflector
from tonnage.live.kinds import LIVE_KINDS, forbidden, kinds_in
from tonnage.model.problem import Problem

_LOOK = 0.02
"""Seconds between looks at whether the first lists failed."""
_FREQUENT = Backoff(draw=random.random, most=2.0)
"""Somebody looks, so an API server that is back is found soon."""


class FollowedCluster:
    """A cluster that changes as the API server says, while it is followed."""

    def __init__(self, informer: ClusterInformer, kinds: Sequence[WatchedKind]) -> None:
        self._informer = informer
        self._kinds = tuple(kinds)
        self._served: frozenset[str] | None = None
        self.is_whole = True
        """Whether it has the nodes and pods of all namespaces; else it has only what one namespace shows."""

    @property
    def cluster(self) -> Cluster:
        return self._informer.cluster

    @property
    def changes(self) -> int:
        """How many changes were taken over so far: the cluster is the same as long as this is."""
        return self._informer.applied

    @property
    def stale_since(self) -> float | None:
        """Since when a part of the cluster may be out of date, in seconds since 1970; None if it is current."""
        times = [one.stale_since for one in self._reflectors() if one.stale_since is not None and not one.refused]
        return time.time() - (time.monotonic() - min(times)) if times else None

    @property
    def trouble(self) -> str:
        """Why it may be out of date: the error of the first such kind; empty if it is current."""
        return next((one.trouble for one in self._reflectors() if one.trouble and not one.refused), "")

    def problems(self) -> list[Problem]:
        """What may not or could not be read, then what is wrong with objects."""
        return [*self._forbidden(), *self._informer.problems.values(), *self.cluster.problems()]

    def _reflectors(self) -> Iterator[Reflector]:
        return iter(self._informer.reflectors.values())

    def _forbidden(self) -> Iterator[Problem]:
        for kind in self._kinds:
            reflector = self._informer.reflectors[kind.resource.name]
            # Who may not list a kind is told so, whether it is installed or not.
            if reflector.refused and (is_served(kind.resource, self._served) or not kind.resource.is_custom):
                yield forbidden(kind, reflector.trouble)

    async def synced(self, client: Client) -> None:
        """Wait for the first lists; KubeError if a vital kind cannot be listed."""
        vital = [self._informer.reflectors[kind.resource.name] for kind in self._kinds if kind.is_vital]
        while not self._informer.synced.is_set():
            for reflector in vital:
                if reflector.trouble and not reflector.lists:
                    raise KubeError(reflector.trouble)
            await asyncio.sleep(_LOOK)
        if any(one.refused for one in self._reflectors()):
            self._served = await ask_served(client)
        self.cluster.settle()
        # From now on a pod that gets a node is placed by a scheduler that we have seen at work.
        self.cluster.claims.is_settled = True


@asynccontextmanager
async def following(
    client: Client,
    vendors: Sequence[Vendor],
    kinds: Sequence[WatchedKind] = LIVE_KINDS,
    backoff: Backoff = _FREQUENT,
    silence: float = SILENCE,
    namespace: str | None = None,
) -> AsyncIterator[FollowedCluster]:
    """A cluster that is followed meanwhile; KubeError if a vital kind cannot be listed at the start.

    Where nodes or all pods may not be listed, only the namespace is followed, if one is given.
    """
    is_whole = namespace is None or await _may_list_all(client)
    if namespace is not None and not is_whole:
        kinds = kinds_in(namespace)
    informer = ClusterInformer(client, Cluster(vendors), backoff, kinds, silence)
    followed = FollowedCluster(informer, kinds)
    followed.is_whole = is_whole
    running = asyncio.create_task(keep_running("informer", informer.run))
    try:
        await followed.synced(client)
        yield followed
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _may_list_all(client: Client) -> bool:
    """Whether the API server lets one list nodes, and pods in all namespaces."""
    for kind in (NODES, PODS):
        try:
            await client.get(kind.resource.path, {"limit": "1"})
        except StatusError as error:
            if error.status == FORBIDDEN:
                return False
            raise
    return True

"""A cluster that is listed once: all kinds at the same time, each object that cannot be read told as a problem.

Objects are taken over kind by kind after all lists are there, so that the same objects always give the same cluster
state, whichever list came first.
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.devices.base import Vendor
from tonnage.kube.client import Client
from tonnage.kube.discovery import ask_served, is_served
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import PODS, WatchedKind
from tonnage.kube.resource import Change
from tonnage.kube.watch import FORBIDDEN, NOT_FOUND, Backoff, ForbiddenError, listing
from tonnage.live.kinds import LIVE_KINDS, forbidden
from tonnage.model.problem import Problem


class ListedCluster(msgspec.Struct, frozen=True, eq=False):
    """A cluster as it was at one time."""

    cluster: Cluster
    read_problems: tuple[Problem, ...] = ()
    """Objects and kinds that could not be read."""
    stale_since: float | None = None
    """It is of one time and never gets old."""
    changes: int = 0
    """It never changes."""

    def problems(self) -> list[Problem]:
        """What could not be read, then what is wrong with objects."""
        return [*self.read_problems, *self.cluster.problems()]


async def list_cluster(
    client: Client, vendors: Sequence[Vendor], kinds: Sequence[WatchedKind] = LIVE_KINDS
) -> ListedCluster:
    """List every kind; KubeError if a vital one cannot be listed, ForbiddenError if it may not be."""
    informer = ClusterInformer(client, Cluster(vendors), Backoff(draw=lambda: 0.0), kinds)
    lists = await asyncio.gather(*(_listed(client, kind) for kind in kinds))
    is_any_forbidden = any(isinstance(found, ForbiddenError) for found in lists)
    served = await ask_served(client) if is_any_forbidden else None
    problems: list[Problem] = []
    # Pods come last: what they hold depends on nodes and groups.
    for kind, found in sorted(zip(kinds, lists, strict=True), key=lambda listed: listed[0].resource is PODS.resource):
        if isinstance(found, KubeError):
            if kind.is_vital:
                raise found
            # Who may not list a kind is told so, whether it is installed or not.
            if is_served(kind.resource, served) or not kind.resource.is_custom:
                problems.append(forbidden(kind, str(found)))
            continue
        for change in found:
            informer.take(kind, change)
    cluster = informer.cluster
    cluster.settle()
    cluster.now = time.time()
    return ListedCluster(cluster, (*problems, *informer.problems.values()))


async def _listed(client: Client, kind: WatchedKind) -> list[Change] | KubeError:
    """All objects of a kind, none if it is not installed; or why there is no list."""
    changes: list[Change] = []
    try:
        async for batch, _ in listing(client, kind.resource):
            changes.extend(batch.changes)
    except StatusError as error:
        if error.status == NOT_FOUND and kind.resource.is_custom:
            return []
        return ForbiddenError(kind.resource, "list", error) if error.status == FORBIDDEN else error
    except KubeError as error:
        return error
    return changes

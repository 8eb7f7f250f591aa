"""ClusterView: a cluster to look at, and the plugins and actions that decide there."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.problem import Problem


class ObservedCluster(Protocol):
    """A cluster of one time, or one that is followed."""

    @property
    def cluster(self) -> Cluster:
        """Its state; nobody who looks changes it for good."""
        ...

    @property
    def stale_since(self) -> float | None:
        """Since when it may be out of date, in seconds since 1970; None if it is not."""
        ...

    @property
    def changes(self) -> int:
        """A number that grows with every change."""
        ...

    def problems(self) -> list[Problem]:
        """What may not or could not be read, and what is wrong with objects."""
        ...


class ClusterView(msgspec.Struct, frozen=True, eq=False):
    """A cluster and what decides there."""

    live: ObservedCluster
    place: str
    """The address of the API server, or the names of files."""
    plugins: Sequence[Plugin]
    actions: Sequence[str]
    decided_by: str
    """Where plugins and actions come from, in a few words."""
    note: str = ""
    """What a user should know about that; empty if they are the ones that were asked for."""
    now: Callable[[], float] = time.time
    """The time that rules about time go by, in seconds since 1970."""

    @property
    def cluster(self) -> Cluster:
        return self.live.cluster

    def session(self, *, brief: bool = False) -> Session:
        """A session of these plugins over the cluster as it is now; SessionError if a plugin cannot be opened.

        What is placed in it is to be undone before the cluster changes, by leaving statements without committing.
        """
        self.cluster.now = self.now()
        return Session(self.cluster, self.plugins, brief=brief)

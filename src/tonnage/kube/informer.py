"""The live picture: the one `Cluster`, kept current from the API server.

One task per kind of object follows it; everything that reads or writes the cluster runs on the same event loop and
does not wait in between, so that there is one writer and no lock. Long batches are taken in slices, so that decisions
are not kept waiting behind them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from math import inf
from typing import Any

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.kube.client import Client
from tonnage.kube.discovery import Discovery
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.kinds import EXTENDER_KINDS, WatchedKind
from tonnage.kube.resource import Change, Resource
from tonnage.kube.watch import NOT_FOUND, SILENCE, Backoff, ChangeBatch, Reflector
from tonnage.model.problem import Problem

log = logging.getLogger(__name__)

SLICE = 64
"""Changes taken over in one go: some milliseconds."""
_PAUSE = 0.5
"""Seconds until a question that was not answered is asked again."""


Listener = Callable[[WatchedKind, Sequence[Change]], None]
"""Told of changes after the cluster has taken them; must be quick and not raise."""


class ChangeHook(msgspec.Struct, frozen=True):
    """Called around each change that the cluster takes, for callers that compare the state before and after it."""

    before: Callable[[Cluster, Change], Any]
    after: Callable[[Cluster, Change, Any], None]
    """Given what `before` returned."""


Observer = Callable[[str, float], None]
"""Told the kind, and how many seconds after they were read changes from a watch are in the picture."""


class ClusterInformer:
    """Keeps a cluster current for as long as `run` runs."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        backoff: Backoff,
        kinds: Sequence[WatchedKind] = EXTENDER_KINDS,
        silence: float = SILENCE,
    ) -> None:
        self.cluster = cluster
        self.problems: dict[str, Problem] = {}
        """Objects that cannot be read, by kind and name."""
        self.synced = asyncio.Event()
        """Set once every kind was listed, is not installed, or is one that need not be known and may not be listed."""
        self.began = inf
        """From when on everything was asked for, by the clock that never goes back."""
        self.applied = 0
        """How many changes were taken over."""
        self.observer: Observer | None = None
        self._client = client
        self._kinds = tuple(kinds)
        self._discovery = Discovery(client, backoff.missing)
        self.reflectors = {kind.resource.name: self._reflector(kind.resource, backoff, silence) for kind in kinds}
        """What follows each kind; kinds that need not be installed have their API group in their name."""
        self._unlisted = set(self.reflectors)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._listeners: dict[str, list[Listener]] = {kind: [] for kind in self.reflectors}
        self._hooks: dict[str, list[ChangeHook]] = {kind: [] for kind in self.reflectors}

    def add_listener(self, kinds: Iterable[WatchedKind], listener: Listener) -> None:
        """Tell a listener of all changes of these kinds, after the listeners that were added before it."""
        for kind in kinds:
            self._listeners[kind.resource.name].append(listener)

    def add_hook(self, kind: WatchedKind, hook: ChangeHook) -> None:
        """Call a hook around each change of a kind, after the hooks that were added before it."""
        self._hooks[kind.resource.name].append(hook)

    def _reflector(self, resource: Resource, backoff: Backoff, silence: float) -> Reflector:
        until_served = self._discovery.until_served if resource.is_custom else None
        return Reflector(self._client, resource, backoff, silence, until_served=until_served)

    @property
    def trouble(self) -> dict[str, str]:
        """What keeps a kind of object from being current, by kind."""
        return {kind: reflector.trouble for kind, reflector in self.reflectors.items() if reflector.trouble}

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self.began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                tasks.create_task(self._keep_following(kind))

    async def refresh(self) -> None:
        """List everything anew; returns when that is taken over."""
        self._unlisted = set(self.reflectors)
        self.synced.clear()
        for following in self._following.values():
            following.cancel()
        await self.synced.wait()

    async def _keep_following(self, kind: WatchedKind) -> None:
        """Follow a kind, and begin anew when that is ended from outside."""
        while True:
            following = asyncio.create_task(self._follow(kind))
            self._following[kind.resource.name] = following
            try:
                await asyncio.wait((following,))
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            if not following.cancelled():
                following.result()

    async def _follow(self, kind: WatchedKind) -> None:
        async with aclosing(self.reflectors[kind.resource.name].batches()) as batches:
            async for batch in batches:
                await self._take(kind, batch)

    async def _take(self, kind: WatchedKind, batch: ChangeBatch) -> None:
        for start in range(0, len(batch.changes), SLICE):
            part = batch.changes[start : start + SLICE]
            for change in part:
                self.take(kind, change)
            self.tell(kind, part)
            if self.observer is not None and batch.arrived is not None:
                self.observer(kind.resource.kind, time.monotonic() - batch.arrived)
            await asyncio.sleep(0)
        if batch.listed is not None:
            await self._drop_unlisted(kind, batch.listed)
        if batch.listed is not None or (batch.is_refused and not kind.is_vital):
            self._unlisted.discard(kind.resource.name)
            if not self._unlisted:
                self.synced.set()

    def take(self, kind: WatchedKind, change: Change) -> None:
        """Let the cluster take one change, between what the kind's hooks do before and after it."""
        self.applied += 1
        name = f"{kind.resource.name}/{change.key}"
        if change.problem is not None:
            self.problems[name] = change.problem
            log.warning("%s", change.problem)
        else:
            self.problems.pop(name, None)
        if change.is_gone and change.key:
            self.problems.pop(name, None)
        elif change.object is None:
            return
        try:
            self._apply(kind, change)
        except Exception:
            # A mistake of ours about one object must not end the picture of all others.
            self.problems[name] = Problem(name, "", "", "", "could not be taken over; the log says why")
            log.exception("%s could not be taken over", name)

    def _apply(self, kind: WatchedKind, change: Change) -> None:
        hooks = self._hooks[kind.resource.name]
        states = [hook.before(self.cluster, change) for hook in hooks]
        if change.is_gone:
            kind.handler.drop(self.cluster, change.key, change.object)
        else:
            kind.handler.put(self.cluster, change.object)
        for hook, state in zip(hooks, states, strict=True):
            hook.after(self.cluster, change, state)

    async def _drop_unlisted(self, kind: WatchedKind, listed: frozenset[str]) -> None:
        """Forget what a complete list does not show."""
        missing = set(kind.handler.known(self.cluster)) - listed
        doubtful = missing & set(kind.in_doubt(self.cluster))
        gone = [Change(key, is_gone=True) for key in sorted(missing - doubtful)]
        for change in gone:
            self.take(kind, change)
        prefix = f"{kind.resource.name}/"
        for name in [name for name in self.problems if name.startswith(prefix)]:
            if name.removeprefix(prefix) not in listed:
                del self.problems[name]
        self.tell(kind, gone)
        for key in sorted(doubtful):
            await self._look_up(kind, key)

    async def _look_up(self, kind: WatchedKind, key: str) -> None:
        """Forget an object that a list did not show if it is not there either; if it is, the watch will tell."""
        while key in kind.in_doubt(self.cluster):
            try:
                await self._client.get(kind.resource.path_of(key))
                return
            except KubeError as error:
                if isinstance(error, StatusError) and error.status == NOT_FOUND:
                    break
                # Nobody else would find out that it is gone.
                log.warning("%s: %s", key, error)
                await asyncio.sleep(_PAUSE)
        if key in kind.in_doubt(self.cluster):
            gone = Change(key, is_gone=True)
            self.take(kind, gone)
            self.tell(kind, (gone,))

    def tell(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Tell the kind's listeners of changes that the cluster has taken."""
        if changes:
            for listener in self._listeners[kind.resource.name]:
                listener(kind, changes)

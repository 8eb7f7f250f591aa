"""The informer, which keeps the one `Cluster` current from the API server.

One task per kind lists and watches its objects. Everything that reads or writes the cluster runs on the same event loop
and does not await in between, so there is one writer and no lock. The informer takes long batches in slices, so that
decisions do not wait for a whole batch.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from math import inf
from typing import Any

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.kube.client import Client
from tonnage.kube.discovery import Discovery
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.firstlists import FirstLists
from tonnage.kube.kinds import EXTENDER_KINDS, WatchedKind
from tonnage.kube.outages import Outages
from tonnage.kube.resource import Change, Resource
from tonnage.kube.watch import NOT_FOUND, SILENCE, Backoff, ChangeBatch, Reflector
from tonnage.model.problem import Problem

log = logging.getLogger(__name__)

SLICE = 64
"""Changes that the cluster takes without a pause: some milliseconds."""
_LONGEST_ERROR = 200
_PAUSE = 0.5
"""Seconds until an object is looked up again after a failed request."""


Listener = Callable[[WatchedKind, Sequence[Change]], None]
"""Told of changes after the cluster has taken them; must be quick. One that raises is told of the same changes again,
one by one, so that it misses only the change that it cannot cope with."""
TAKE, HOOK, LISTENER = "take", "hook", "listener"
STAGES = (TAKE, HOOK, LISTENER)
"""Where a change may fail: in the cluster, in a hook around that, in a listener."""


class ChangeHook(msgspec.Struct, frozen=True):
    """Called around each change that the cluster takes, for callers that compare the state before and after it."""

    before: Callable[[Cluster, Change], Any]
    after: Callable[[Cluster, Change, Any], None]
    """Given what `before` returned."""


Observer = Callable[[str, float], None]
"""Given the kind of some changes, and the seconds from reading them off a watch until the cluster has them."""


class ClusterInformer:
    """Keeps a cluster current while `run` runs."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        backoff: Backoff,
        kinds: Sequence[WatchedKind] = EXTENDER_KINDS,
        silence: float = SILENCE,
        first_lists: FirstLists | None = None,
    ) -> None:
        self.cluster = cluster
        self.problems: dict[str, Problem] = {}
        """Objects that cannot be read, by kind and name."""
        self.synced = asyncio.Event()
        """Set once every kind was listed, is not installed, or is not vital and may not be listed."""
        self._began = inf
        self.applied = 0
        """How many changes the informer has handled."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """Changes at which something raised, by kind and stage."""
        self.observer: Observer | None = None
        self._client = client
        self._first_lists = first_lists
        self._kinds = tuple(kinds)
        self._discovery = Discovery(client, backoff.missing)
        self._outages = Outages()
        self.reflectors = {kind.resource.name: self._reflector(kind.resource, backoff, silence) for kind in kinds}
        """By kind; the name of a kind that need not be installed includes its API group."""
        self._unlisted = set(self.reflectors)
        self._watches: dict[str, asyncio.Task[None]] = {}
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
        return Reflector(
            self._client,
            resource,
            backoff,
            silence,
            until_served=until_served,
            outages=self._outages,
            first_lists=self._first_lists,
        )

    def has_listed(self, struct: type[Any]) -> bool:
        """Whether the objects of a type are known, which are not if their kind is not installed."""
        reflector = next(one for one in self.reflectors.values() if one.resource.type is struct)
        return reflector.lists > 0 and not reflector.is_missing

    @property
    def trouble(self) -> dict[str, str]:
        """Why objects of a kind may be out of date, by kind."""
        return {kind: reflector.trouble for kind, reflector in self.reflectors.items() if reflector.trouble}

    @property
    def began(self) -> float:
        """When the first list was asked for, by the monotonic clock."""
        return self._began if self._first_lists is None else self._first_lists.began

    async def run(self) -> None:
        """List and watch every kind until cancelled."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                tasks.create_task(self._keep_watching(kind))

    async def refresh(self) -> None:
        """List every kind anew; returns when the cluster has taken all lists."""
        self._unlisted = set(self.reflectors)
        self.synced.clear()
        for watch in self._watches.values():
            watch.cancel()
        await self.synced.wait()

    async def _keep_watching(self, kind: WatchedKind) -> None:
        """Watch a kind, and begin anew when `refresh` cancels that."""
        while True:
            watch = asyncio.create_task(self._watch(kind))
            self._watches[kind.resource.name] = watch
            try:
                await asyncio.wait((watch,))
            finally:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
            if not watch.cancelled():
                watch.result()

    async def _watch(self, kind: WatchedKind) -> None:
        async with aclosing(self.reflectors[kind.resource.name].batches()) as batches:
            async for batch in batches:
                await self._take_batch(kind, batch)

    async def _take_batch(self, kind: WatchedKind, batch: ChangeBatch) -> None:
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
        after: list[Callable[[], None]] = []
        for hook in self._hooks[kind.resource.name]:
            try:
                state = hook.before(self.cluster, change)
                after.append(partial(hook.after, self.cluster, change, state))
            except Exception as error:
                self._report(kind, change, HOOK, error)
        try:
            if change.is_gone:
                kind.handler.drop(self.cluster, change.key, change.object)
            else:
                kind.handler.put(self.cluster, change.object)
        except Exception as error:
            self._report(kind, change, TAKE, error)
        for call in after:
            try:
                call()
            except Exception as error:
                self._report(kind, change, HOOK, error)

    def _report(self, kind: WatchedKind, change: Change, stage: str, error: Exception) -> None:
        """Report a bug that shows with one object, which must not stop the informer for all others."""
        name = f"{kind.resource.name}/{change.key}"
        said = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        self.failures[kind.resource.name, stage] += 1
        self.problems[name] = Problem(name, "", "", "", f"could not be taken over whole ({said}); the log says why")
        log.error("%s could not be taken over whole (%s)", name, stage, exc_info=error)

    async def _drop_unlisted(self, kind: WatchedKind, listed: frozenset[str]) -> None:
        """Drop known objects that are missing from a complete list."""
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
        """Drop an object in doubt if the server does not have it either; if it has, the watch will show it."""
        while key in kind.in_doubt(self.cluster):
            try:
                await self._client.get(kind.resource.path_of(key))
                return
            except KubeError as error:
                if isinstance(error, StatusError) and error.status == NOT_FOUND:
                    break
                # No list or watch would show that the object is gone, so it is asked for until there is an answer.
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
                self._tell_one(listener, kind, changes)

    def _tell_one(self, listener: Listener, kind: WatchedKind, changes: Sequence[Change]) -> None:
        try:
            listener(kind, changes)
        except Exception:
            for change in changes:
                try:
                    listener(kind, (change,))
                except Exception as error:
                    self._report(kind, change, LISTENER, error)

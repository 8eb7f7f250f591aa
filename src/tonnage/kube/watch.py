"""Following the objects of one kind: a list, then a watch from there, and again when that can no longer go on.

A watch that breaks is continued from the last version heard of, so nothing between is missed. Where the server no
longer knows that version, or a line cannot be read, everything is listed anew; the list ends with the names of all
that exist, so that what was deleted meanwhile is noticed too.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import ConnectionLostError, KubeError, OutdatedError, StatusError
from tonnage.kube.resource import GONE, Change, Page, Resource, read_lines, read_page
from tonnage.model.wire import WireError

log = logging.getLogger(__name__)

PAGE = 500
NOT_FOUND, FORBIDDEN = 404, 403
SILENCE = 120.0
"""Seconds without a word, not even a bookmark, after which a connection is given up; servers send one each minute."""
LONGEST_LINE = 64 * 2**20
"""The API server refuses objects of more than a few megabytes."""
_MOST_CONTINUED = 5
"""Breaks in a row after which a list is tried instead: the server may have been restored to an older state."""
_SHORTEST_WATCH, _SPREAD_OF_WATCH = 300, 300
"""Seconds for which a watch is asked, so that no connection lives for ever and not all end together."""


class Backoff(msgspec.Struct):
    """How long to wait before trying again: not at all the first time, then twice as long each time, with jitter."""

    draw: Callable[[], float]
    """A random number from 0 up to 1."""
    first: float = 0.1
    most: float = 10.0
    steady: float = 10.0
    """Seconds a watch must last for its end to count as the first one."""
    missing: float = 2.0
    """Seconds between looks for a kind that is not installed."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        if failures <= 1:
            return 0.0
        longest: float = min(self.most, self.first * 2.0 ** min(failures - 2, 60))
        return longest * (0.5 + 0.5 * self.draw())


class ChangeBatch(msgspec.Struct, frozen=True):
    """Changes that became known together, in their order."""

    changes: Sequence[Change]
    listed: frozenset[str] | None = None
    """With the end of a list: the names of all objects that exist."""
    is_refused: bool = False
    """Whether the server does not let us list; `listed` is unknown then."""
    arrived: float | None = None
    """From a watch: when it was read, by the monotonic clock."""


class Reflector:
    """Follows one kind of objects without end."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        backoff: Backoff,
        silence: float = SILENCE,
        page: int = PAGE,
        until_served: Callable[[Resource], Awaitable[None]] | None = None,
    ) -> None:
        self.resource = resource
        self.is_missing = False
        """Whether the server has no such kind; only of one that need not be installed."""
        self.lists = 0
        """How often everything was listed."""
        self.breaks = 0
        """How often a connection broke or the server refused."""
        self.trouble = ""
        """What went wrong last, empty while all is well."""
        self.heard = time.monotonic()
        """When the server last said something, be it a bookmark."""
        self._client = client
        self._backoff = backoff
        self._silence = silence
        self._page = page
        self._until_served = until_served
        """Waits until a kind that need not be installed may be there; none if it must be."""

    async def batches(self) -> AsyncGenerator[ChangeBatch, None]:
        """Everything that becomes known, for ever; what goes wrong is told in `trouble` and tried again."""
        clock = asyncio.get_running_loop().time
        version, failures, page = "", 0, self._page
        while True:
            begun = clock()
            problem: KubeError | None
            try:
                if not version:
                    async for batch, listed_at in listing(self._client, self.resource, page):  # noqa: B007
                        self._is_there()
                        yield batch
                    version, page, begun = listed_at, self._page, clock()
                    self.heard = time.monotonic()
                    self.lists += 1
                    self.trouble = ""
                async with aclosing(self._watch(version)) as watch:
                    async for changes, reached in watch:
                        version = reached or version
                        self.trouble = ""
                        if changes:
                            yield ChangeBatch(changes, arrived=self.heard)
                problem = None
            except OutdatedError as error:
                # A list that went out of date between its pages is taken in one piece.
                version, page, problem = "", self._page if version else 0, error
            except StatusError as error:
                if error.status == NOT_FOUND and self._until_served is not None:
                    version, failures = "", 0
                    async for nothing in self._missing(self._until_served):
                        yield nothing
                    continue
                problem = error
                if error.status == FORBIDDEN:
                    problem = KubeError(_refused(self.resource, "watch" if version else "list", error))
                    if not version:
                        yield ChangeBatch((), is_refused=True)
            except KubeError as error:
                problem = error
            except Exception as error:
                # A mistake of ours; begin anew, as a restart of the process would.
                log.exception("%s: following failed", self.resource.name)
                version, problem = "", KubeError(f"{type(error).__name__}: {error}")
            if problem is not None:
                self.breaks += 1
                self.trouble = str(problem)
                log.warning("%s: %s", self.resource.name, problem)
            failures = 1 if clock() - begun >= self._backoff.steady else failures + 1
            if failures > _MOST_CONTINUED:
                version = ""
            await asyncio.sleep(self._backoff.delay(failures))

    def _is_there(self) -> None:
        if self.is_missing:
            self.is_missing = False
            log.info("%s: is installed now", self.resource.name)

    async def _missing(self, until_served: Callable[[Resource], Awaitable[None]]) -> AsyncIterator[ChangeBatch]:
        """The server has no such kind, so there are no such objects; returns when it may have it."""
        if not self.is_missing:
            log.info("%s: is not installed", self.resource.name)
        self.is_missing, self.trouble = True, ""
        yield ChangeBatch((), frozenset())
        await until_served(self.resource)

    async def _watch(self, version: str) -> AsyncGenerator[tuple[list[Change], str], None]:
        """Changes as they come, with the version to continue from, until the server ends the watch."""
        seconds = _SHORTEST_WATCH + int(_SPREAD_OF_WATCH * self._backoff.draw())
        query: dict[str, str | int] = {
            "watch": 1,
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": seconds,
            **self.resource.selection,
        }
        splitter = Lines()
        with _outdated_if_gone():
            async with self._client.stream(self.resource.path, query, self._silence) as chunks:
                yield [], ""
                async for chunk in chunks:
                    self.heard = time.monotonic()
                    lines = splitter.feed(chunk)
                    if not lines:
                        continue
                    events = read_lines(self.resource, lines)
                    yield events.changes, events.version
                    if events.failure is not None:
                        raise events.failure


async def listing(client: Client, resource: Resource, size: int = PAGE) -> AsyncIterator[tuple[ChangeBatch, str]]:
    """Everything there is, page by page, each with the version that all pages show; all names come last.

    KubeError where it cannot be listed.
    """
    names: set[str] = set()
    following, version = "", ""
    while following or not version:
        page = await _read_page(client, resource, following, size)
        names.update(change.key for change in page.changes)
        following, version = page.following, version or page.version
        yield ChangeBatch(page.changes), version
    yield ChangeBatch((), frozenset(names)), version


async def _read_page(client: Client, resource: Resource, following: str, size: int) -> Page:
    query = {"limit": size, **resource.selection} if size else resource.selection
    if following:
        query["continue"] = following
    with _outdated_if_gone():
        body = await client.get(resource.path, query)
    try:
        page = read_page(resource, body)
    except WireError as error:
        raise ConnectionLostError(f"the list cannot be read: {error.message}") from error
    if not page.version:
        raise ConnectionLostError("the list has no version; is this an API server?")
    return page


class Lines:
    """Puts lines together from pieces that end anywhere; the last, unfinished one is never handed out."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes; OutdatedError for one that grows without end."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        whole = b"".join((*self._pieces, chunk[:end])) if self._pieces else chunk[:end]
        self._pieces, self._size = [], 0
        if end + 1 < len(chunk):
            self._keep(chunk[end + 1 :])
        return [line for line in whole.split(b"\n") if line.strip()]

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._longest:
            raise OutdatedError(f"a line of the watch is longer than {self._longest} bytes")


def _refused(resource: Resource, verb: str, error: StatusError) -> str:
    """What is not allowed, and who can change that."""
    group = f' of API group "{resource.group}"' if resource.group else ""
    return f"may not {verb} {resource.plural}{group}; let this account list and watch them in a ClusterRole ({error})"


@contextmanager
def _outdated_if_gone() -> Iterator[None]:
    """410 Gone, whichever way it comes, means that only a new list helps."""
    try:
        yield
    except StatusError as error:
        if error.status == GONE:
            raise OutdatedError(str(error)) from error
        raise

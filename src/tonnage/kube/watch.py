"""The reflector, which lists and watches the objects of one kind, and its backoff.

After a broken watch the reflector continues from the last resourceVersion it has seen, so it misses no event. If the
server no longer knows that version, or a line cannot be decoded, it lists everything anew; the list ends with the keys
of all objects, so that the informer also drops those deleted meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager

import msgspec

from tonnage.kube.client import Client
from tonnage.kube.errors import ConnectionLostError, KubeError, OutdatedError, StatusError, TooLargeError
from tonnage.kube.firstlists import PAGE, FirstLists
from tonnage.kube.outages import Outages
from tonnage.kube.resource import GONE, Change, Page, Resource, read_lines, read_page
from tonnage.model.wire import WireError

log = logging.getLogger(__name__)

_SMALLER = 8
"""By how much pages get smaller if one is too large."""
NOT_FOUND, FORBIDDEN = 404, 403
SILENCE = 120.0
"""Seconds without an event or bookmark after which a watch is given up; servers send a bookmark each minute."""
LONGEST_LINE = 64 * 2**20
"""In bytes; the API server refuses objects of more than a few megabytes."""
_MOST_CONTINUED = 5
"""Broken watches in a row after which the reflector lists: the server may be restored from an older backup."""
_SHORTEST_WATCH, _SPREAD_OF_WATCH = 300, 300
"""Range of timeoutSeconds of a watch, so that no connection lives for ever and not all end together."""


class ForbiddenError(KubeError):
    """The API server forbids listing or watching a kind; says which ClusterRole rule would allow it."""

    def __init__(self, resource: Resource, verb: str, error: StatusError) -> None:
        group = f' of API group "{resource.group}"' if resource.group else ""
        super().__init__(
            f"may not {verb} {resource.plural}{group}; let this account list and watch them in a ClusterRole ({error})"
        )


class Backoff(msgspec.Struct):
    """An exponential backoff with jitter; the first retry comes at once."""

    draw: Callable[[], float]
    """A random number from 0 up to 1."""
    first: float = 0.1
    most: float = 10.0
    steady: float = 10.0
    """Seconds that a watch must last for its end to count as the first failure."""
    missing: float = 2.0
    """Seconds between checks for a kind that is not installed."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        if failures <= 1:
            return 0.0
        longest: float = min(self.most, self.first * 2.0 ** min(failures - 2, 60))
        return longest * (0.5 + 0.5 * self.draw())


class ChangeBatch(msgspec.Struct, frozen=True):
    """Changes from one page of a list or one read of a watch, in order."""

    changes: Sequence[Change]
    listed: frozenset[str] | None = None
    """At the end of a list: the keys of all objects that exist."""
    is_refused: bool = False
    """Whether the server forbids listing the kind; `listed` is None then."""
    arrived: float | None = None
    """When the batch was read off a watch, by the monotonic clock; None for a list."""


class Reflector:
    """Lists and watches the objects of one kind without end."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        backoff: Backoff,
        silence: float = SILENCE,
        page: int = PAGE,
        until_served: Callable[[Resource], Awaitable[None]] | None = None,
        outages: Outages | None = None,
        first_lists: FirstLists | None = None,
    ) -> None:
        self.resource = resource
        self.is_missing = False
        """Whether a kind that need not be installed is not."""
        self.lists = 0
        """How often the kind was listed completely."""
        self.breaks = 0
        """How often a connection broke or the server refused a request."""
        self.trouble = ""
        """The last error; empty while the watch works."""
        self.stale_since: float | None = None
        """Since when the objects may be out of date, by the monotonic clock; None while the watch works."""
        self.refused = ""
        """What the server forbids: `list` or `watch`; empty if neither."""
        self.heard = time.monotonic()
        """When the server last sent an event or a bookmark."""
        self._client = client
        self._backoff = backoff
        self._silence = silence
        self._page = page
        self._until_served = until_served
        """Waits until a kind may be installed; None if the kind is built in."""
        self._outages = outages or Outages()
        self._first_lists = first_lists

    async def batches(self) -> AsyncGenerator[ChangeBatch, None]:
        """Batches of changes without end; errors go to `trouble` and are retried."""
        clock = asyncio.get_running_loop().time
        version, failures, page = "", 0, self._page
        while True:
            begun = clock()
            problem: KubeError | None
            try:
                if not version:
                    async for batch, listed_at in listing(self._first_lists or self._client, self.resource, page):  # noqa: B007
                        self._is_there()
                        yield batch
                    version, page, begun = listed_at, self._page, clock()
                    self.heard = time.monotonic()
                    self.lists += 1
                    self._works()
                    if self._first_lists is not None:
                        await self._first_lists.until_watches()
                async with aclosing(self._watch(version)) as watch:
                    async for changes, reached in watch:
                        version = reached or version
                        self._works()
                        if changes:
                            yield ChangeBatch(changes, arrived=self.heard)
                problem = None
            except OutdatedError as error:
                # After a list that expired between two pages, the next one is asked for without pages.
                version, page, problem = "", self._page if version else 0, error
            except StatusError as error:
                if error.status == NOT_FOUND and self._until_served is not None:
                    version, failures = "", 0
                    async for nothing in self._missing(self._until_served):
                        yield nothing
                    continue
                problem = error
                if error.status == FORBIDDEN:
                    self.refused = "watch" if version else "list"
                    problem = ForbiddenError(self.resource, self.refused, error)
                    if not version:
                        yield ChangeBatch((), is_refused=True)
            except KubeError as error:
                problem = error
            except Exception as error:
                # A bug: begin anew, as a restart of the process would.
                log.exception("%s: following failed", self.resource.name)
                version, problem = "", KubeError(f"{type(error).__name__}: {error}")
            if problem is not None:
                self.breaks += 1
                self._fails(problem)
            failures = 1 if clock() - begun >= self._backoff.steady else failures + 1
            if failures > _MOST_CONTINUED:
                version = ""
            pause = problem.retry_after if isinstance(problem, StatusError) else 0.0
            await asyncio.sleep(max(self._backoff.delay(failures), pause))

    def _works(self) -> None:
        self.trouble, self.refused, self.stale_since = "", "", None

    def _fails(self, problem: KubeError) -> None:
        self.trouble = str(problem)
        if self.stale_since is None:
            now = time.monotonic()
            # A connection that was silent to the end says nothing about the time since it was heard.
            self.stale_since = self.heard if now - self.heard >= self._silence else now
        self._outages.add(self.resource.name, problem)

    def _is_there(self) -> None:
        if self.is_missing:
            self.is_missing = False
            log.info("%s: is installed now", self.resource.name)

    async def _missing(self, until_served: Callable[[Resource], Awaitable[None]]) -> AsyncIterator[ChangeBatch]:
        """An empty list, since the kind is not installed; ends when it may be."""
        if not self.is_missing:
            log.info("%s: is not installed", self.resource.name)
        self.is_missing = True
        self._works()
        yield ChangeBatch((), frozenset())
        await until_served(self.resource)

    async def _watch(self, version: str) -> AsyncGenerator[tuple[list[Change], str], None]:
        """Changes with the resourceVersion to continue from, until the server ends the watch."""
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


async def listing(
    client: Client | FirstLists, resource: Resource, size: int = PAGE
) -> AsyncIterator[tuple[ChangeBatch, str]]:
    """A complete list, page by page, each with the list's resourceVersion; the last batch has the keys of all objects.

    KubeError if the server does not answer with a list.
    """
    keys: set[str] = set()
    token, version = "", ""
    while token or not version:
        try:
            page = await _read_page(client, resource, token, size)
        except TooLargeError:
            if size == 1:
                raise
            # Somebody has many very large objects.
            size = max((size or PAGE) // _SMALLER, 1)
            continue
        keys.update(change.key for change in page.changes)
        token, version = page.continue_token, version or page.version
        yield ChangeBatch(page.changes), version
    yield ChangeBatch((), frozenset(keys)), version


async def _read_page(client: Client | FirstLists, resource: Resource, token: str, size: int) -> Page:
    query = {"limit": size, **resource.selection} if size else resource.selection
    if token:
        query["continue"] = token
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
    """The lines of a stream, joined from chunks that may end anywhere; an unfinished last line is never returned."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes; OutdatedError for a line that is too long."""
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


@contextmanager
def _outdated_if_gone() -> Iterator[None]:
    """OutdatedError for 410 Gone, after which only a new list helps."""
    try:
        yield
    except StatusError as error:
        if error.status == GONE:
            raise OutdatedError(str(error)) from error
        raise

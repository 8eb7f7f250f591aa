"""Kubernetes Events, with HAMi's or Kubernetes' reasons: they show in `kubectl describe pod`.

They are core/v1 Events, as HAMi writes them: those have a count, so that what is told again changes one object instead
of making another. Nothing waits for an Event. They are written one after another, why pods wait first, at a rate that
leaves the API server to those who place pods, from a queue of limited length; what finds it full is dropped and
counted.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import ConnectionLostError, KubeError, StatusError
from tonnage.kube.ratelimit import RateLimit
from tonnage.model.timestamp import rfc3339

log = logging.getLogger(__name__)

FILTERING_SUCCEED, FILTERING_FAILED = "FilteringSucceed", "FilteringFailed"
BINDING_SUCCEED, BINDING_FAILED = "BindingSucceed", "BindingFailed"
DEVICE_OVERLAP = "DeviceOverlap"
SCHEDULED, FAILED_SCHEDULING = "Scheduled", "FailedScheduling"
PREEMPTED = "Preempted"
"""Kubernetes' own reasons, for doors that take kube-scheduler's place."""
CONFIGURATION_REFUSED = "ConfigurationRefused"
EVICTED = "Evicted"
WARNINGS = frozenset((FILTERING_FAILED, BINDING_FAILED, DEVICE_OVERLAP, FAILED_SCHEDULING, CONFIGURATION_REFUSED))
WRITTEN, REPEATED, DROPPED, REFUSED = "written", "repeated", "dropped", "refused"

LONGEST_MESSAGE = 1024
"""In bytes; the API server refuses more."""
LONGEST_NAME = 253
MOST_QUEUED = 1000
MOST_REMEMBERED = 4096
PER_SECOND, BURST = 10.0, 25
_TRIES = 3
_PAUSE = 1.0
_NOT_FOUND, _CONFLICT, _OVERLOADED = 404, 409, 429
_END_OF_LABEL = re.compile(r"[-.]+$")


class ObjectRef(NamedTuple):
    """What an Event is about: a pod, or another object of the core's kinds in a namespace."""

    namespace: str
    name: str
    uid: str
    kind: str = "Pod"


class RecordedEvent:
    """Something that happened to an object, perhaps several times."""

    __slots__ = ("about", "first", "last", "message", "name", "reason", "times", "written")

    def __init__(self, about: ObjectRef, reason: str, name: str, now: float) -> None:
        self.about = about
        self.reason = reason
        self.name = name
        self.message = ""
        self.first = self.last = now
        self.times = 0
        self.written = 0
        """How many of the times the API server knows of."""


Key = tuple[ObjectRef, str, str]


class EventRecorder:
    """Writes Events while `run` runs."""

    def __init__(
        self,
        client: Client,
        now: Callable[[], float],
        component: str = "tonnage",
        count: Callable[[str], None] = lambda outcome: None,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        most: int = MOST_QUEUED,
    ) -> None:
        self._client = client
        self._now = now
        """Seconds since 1970."""
        self._component = component
        self._count = count
        """Told what became of each Event."""
        self._allowance = RateLimit(per_second, burst)
        self._most = most
        self._known: OrderedDict[Key, RecordedEvent] = OrderedDict()
        """What was told lately, the latest last."""
        self._of: dict[str, set[Key]] = {}
        """The same by the namespace and name of what it is about."""
        self._queue: OrderedDict[Key, RecordedEvent] = OrderedDict()
        self._filled = asyncio.Event()

    @property
    def queued(self) -> int:
        """How many Events wait to be written."""
        return len(self._queue)

    def tell(self, about: ObjectRef, reason: str, message: str, alike: str | None = None) -> None:
        """Queue an Event.

        What is told again about an object counts up its Event, which shows the latest message; `alike` says what makes
        two the same, if that is not the message.
        """
        key = (about, reason, message if alike is None else alike)
        # What went well may use half of the queue: why a pod waits is more important.
        room = self._most if reason in WARNINGS else self._most // 2
        if key not in self._queue and len(self._queue) >= room:
            self._count(DROPPED)
            return
        now = self._now()
        told = self._known.get(key)
        if told is None:
            told = RecordedEvent(about, reason, event_name(key, now), now)
            self._remember(key, told)
        self._known.move_to_end(key)
        told.message, told.last = message, now
        told.times += 1
        self._queue[key] = told
        self._filled.set()

    def forget(self, name: str) -> None:
        """What is called so is gone; what is still to be written about it is written."""
        for key in self._of.pop(name, ()):
            self._known.pop(key, None)

    async def run(self) -> None:
        """Write what is told, until cancelled."""
        while True:
            await self._filled.wait()
            await self._allowance.take()
            key = next((key for key, told in self._queue.items() if told.reason in WARNINGS), next(iter(self._queue)))
            told = self._queue.pop(key)
            if not self._queue:
                self._filled.clear()
            try:
                await self._write(key, told)
            except Exception:
                # One Event that we do wrong must not end all others.
                log.exception("an event about %s/%s could not be written", told.about.namespace, told.about.name)
                self._count(DROPPED)

    async def _write(self, key: Key, told: RecordedEvent) -> None:
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE * attempt)
            times = told.times
            try:
                await (self._repeat(told) if told.written else self._create(told))
            except StatusError as error:
                if error.status == _NOT_FOUND and told.written:
                    # The API server forgets Events after an hour.
                    told.name, told.written = event_name(key, self._now()), 0
                    continue
                if error.status != _CONFLICT or told.written:
                    if not error.is_definite or error.status == _OVERLOADED:
                        continue
                    log.info("an event about %s/%s is refused: %s", told.about.namespace, told.about.name, error)
                    self._drop(key)
                    self._count(REFUSED)
                    return
                # An earlier try, whose answer was lost, has made it.
            except ConnectionLostError:
                continue
            except KubeError as error:
                log.info("no event can be written: %s", error)
                break
            self._count(REPEATED if told.written else WRITTEN)
            told.written = times
            return
        self._count(DROPPED)

    async def _create(self, told: RecordedEvent) -> None:
        about, namespace = told.about, told.about.namespace
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": told.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": about.kind,
                "namespace": namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": told.reason,
            "message": shortened(told.message),
            "type": "Warning" if told.reason in WARNINGS else "Normal",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": rfc3339(told.first),
            "lastTimestamp": rfc3339(told.last),
            "count": told.times,
        }
        await self._client.request("POST", f"/api/v1/namespaces/{namespace}/events", body=body, timeout=10)

    async def _repeat(self, told: RecordedEvent) -> None:
        body = {"count": told.times, "lastTimestamp": rfc3339(told.last), "message": shortened(told.message)}
        path = f"/api/v1/namespaces/{told.about.namespace}/events/{told.name}"
        await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=10)

    def _remember(self, key: Key, told: RecordedEvent) -> None:
        self._known[key] = told
        self._of.setdefault(_name(key), set()).add(key)
        while len(self._known) > MOST_REMEMBERED:
            self._drop(next(iter(self._known)))

    def _drop(self, key: Key) -> None:
        if self._known.pop(key, None) is not None:
            keys = self._of[_name(key)]
            keys.discard(key)
            if not keys:
                del self._of[_name(key)]


def _name(key: Key) -> str:
    return f"{key[0].namespace}/{key[0].name}"


def event_name(key: Key, now: float) -> str:
    """A name that no other Event has: the object's, as far as there is room, and a number in hexadecimal."""
    number = blake2b(repr((key, now)).encode(), digest_size=8).hexdigest()
    room = LONGEST_NAME - len(number) - 1
    # A cut must not leave a part of the name that ends with a dash.
    return f"{_END_OF_LABEL.sub('', key[0].name[:room])}.{number}"


def shortened(message: str) -> str:
    """The message, with its end left out if it is too long for the API server."""
    text = message.encode()
    if len(text) <= LONGEST_MESSAGE:
        return message
    mark = "…"
    return text[: LONGEST_MESSAGE - len(mark.encode())].decode(errors="ignore") + mark

"""EventRecorder: Kubernetes Events with HAMi's or Kubernetes' reasons, as `kubectl describe pod` shows them.

They are core/v1 Events, as HAMi writes them: these have a count, so a repeated Event updates one object instead of
creating another. Nothing waits for an Event. The recorder writes one at a time, warnings first, at a rate that leaves
the API server to binds, from a queue of limited length; an Event that finds the queue full is dropped and counted.
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
from tonnage.kube.paths import api_path
from tonnage.kube.ratelimit import RateLimit
from tonnage.kube.supervision import failed
from tonnage.model.timestamp import rfc3339
from tonnage.observability.messages import shortened

log = logging.getLogger(__name__)

FILTERING_SUCCEED, FILTERING_FAILED = "FilteringSucceed", "FilteringFailed"
BINDING_SUCCEED, BINDING_FAILED = "BindingSucceed", "BindingFailed"
DEVICE_OVERLAP = "DeviceOverlap"
SCHEDULED, FAILED_SCHEDULING = "Scheduled", "FailedScheduling"
PREEMPTED = "Preempted"
"""Kubernetes' own reasons, for `tonnage scheduler`, which takes kube-scheduler's place."""
CONFIGURATION_REFUSED = "ConfigurationRefused"
EVICTED = "Evicted"
GROUP_CAME_LATE = "GroupCameLate"
WAITING_FOR_VOLUME = "WaitingForVolume"
EVICT, UNSCHEDULABLE = "Evict", "Unschedulable"
"""Volcano's and KAI's reasons, on stopped pods and on PodGroups."""
WARNINGS = frozenset(
    (
        FILTERING_FAILED,
        BINDING_FAILED,
        DEVICE_OVERLAP,
        FAILED_SCHEDULING,
        CONFIGURATION_REFUSED,
        GROUP_CAME_LATE,
        EVICT,
        UNSCHEDULABLE,
    )
)
WRITTEN, REPEATED, DROPPED, REFUSED = "written", "repeated", "dropped", "refused"

LONGEST_NAME = 253
MOST_QUEUED = 1000
MOST_REMEMBERED = 4096
PER_SECOND, BURST = 10.0, 25
_TRIES = 3
_PAUSE = 1.0
_NOT_FOUND, _CONFLICT, _OVERLOADED = 404, 409, 429
_END_OF_LABEL = re.compile(r"[-.]+$")


class ObjectRef(NamedTuple):
    """The object of an Event: a pod, or another object in a namespace."""

    namespace: str
    name: str
    uid: str
    kind: str = "Pod"
    api_version: str = "v1"


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
        """How many of `times` the API server knows of; 0 before the Event is created."""


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
        """Called with the outcome of each Event."""
        self._allowance = RateLimit(per_second, burst)
        self._most = most
        self._known: OrderedDict[Key, RecordedEvent] = OrderedDict()
        """Events recorded lately, the latest last."""
        self._by_object: dict[str, set[Key]] = {}
        """The keys of `_known` by the namespace and name of their object."""
        self._warnings: OrderedDict[Key, RecordedEvent] = OrderedDict()
        """Warnings to be written, which come before all others."""
        self._others: OrderedDict[Key, RecordedEvent] = OrderedDict()
        self._filled = asyncio.Event()

    @property
    def queued(self) -> int:
        """How many Events wait to be written."""
        return len(self._warnings) + len(self._others)

    def record(self, about: ObjectRef, reason: str, message: str | Callable[[], str], alike: str | None = None) -> None:
        """Queue an Event; what makes its message is not called if the Event finds no room anyway.

        A repeated Event of an object counts up and shows the latest message; two are the same if their `alike` is, or
        without it their message.
        """
        if self.queued >= self._room(reason) and f"{about.namespace}/{about.name}" not in self._by_object:
            self._count(DROPPED)
            return
        message = shortened(message if isinstance(message, str) else message())
        key = (about, reason, message if alike is None else alike)
        queue = self._warnings if reason in WARNINGS else self._others
        if key not in queue and self.queued >= self._room(reason):
            self._count(DROPPED)
            return
        now = self._now()
        event = self._known.get(key)
        if event is None:
            event = RecordedEvent(about, reason, event_name(key, now), now)
            self._remember(key, event)
        self._known.move_to_end(key)
        event.message, event.last = message, now
        event.times += 1
        queue[key] = event
        self._filled.set()

    def _room(self, reason: str) -> int:
        """Normal Events may use half of the queue: why a pod is pending is more important."""
        return self._most if reason in WARNINGS else self._most // 2

    def forget(self, name: str) -> None:
        """The object of that namespace and name is gone; its queued Events are still written."""
        for key in self._by_object.pop(name, ()):
            self._known.pop(key, None)

    async def run(self) -> None:
        """Write queued Events until cancelled."""
        while True:
            await self._filled.wait()
            await self._allowance.take()
            key, event = (self._warnings or self._others).popitem(last=False)
            if not self.queued:
                self._filled.clear()
            try:
                await self._write(key, event)
            except Exception as error:
                # A bug in one Event must not stop all others.
                failed("events", error)
                self._count(DROPPED)

    async def _write(self, key: Key, event: RecordedEvent) -> None:
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE * attempt)
            times = event.times
            try:
                await (self._repeat(event) if event.written else self._create(event))
            except StatusError as error:
                if error.status == _NOT_FOUND and event.written:
                    # The API server deletes Events after an hour.
                    event.name, event.written = event_name(key, self._now()), 0
                    continue
                if error.status != _CONFLICT or event.written:
                    if not error.is_definite or error.status == _OVERLOADED:
                        continue
                    log.info("an event about %s/%s is refused: %s", event.about.namespace, event.about.name, error)
                    self._drop(key)
                    self._count(REFUSED)
                    return
                # An earlier attempt, whose answer was lost, has created it.
            except ConnectionLostError:
                continue
            except KubeError as error:
                log.info("no event can be written: %s", error)
                break
            self._count(REPEATED if event.written else WRITTEN)
            event.written = times
            return
        self._count(DROPPED)

    async def _create(self, event: RecordedEvent) -> None:
        about, namespace = event.about, event.about.namespace
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": event.reason,
            "message": event.message,
            "type": "Warning" if event.reason in WARNINGS else "Normal",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": rfc3339(event.first),
            "lastTimestamp": rfc3339(event.last),
            "count": event.times,
        }
        await self._client.request("POST", api_path("v1", "namespaces", namespace, "events"), body=body, timeout=10)

    async def _repeat(self, event: RecordedEvent) -> None:
        body = {"count": event.times, "lastTimestamp": rfc3339(event.last), "message": event.message}
        path = api_path("v1", "namespaces", event.about.namespace, "events", event.name)
        await self._client.request("PATCH", path, body=body, type_=MERGE_PATCH, timeout=10)

    def _remember(self, key: Key, event: RecordedEvent) -> None:
        self._known[key] = event
        self._by_object.setdefault(_name(key), set()).add(key)
        while len(self._known) > MOST_REMEMBERED:
            self._drop(next(iter(self._known)))

    def _drop(self, key: Key) -> None:
        if self._known.pop(key, None) is not None:
            keys = self._by_object[_name(key)]
            keys.discard(key)
            if not keys:
                del self._by_object[_name(key)]


def _name(key: Key) -> str:
    return f"{key[0].namespace}/{key[0].name}"


def event_name(key: Key, now: float) -> str:
    """A unique name: the object's, as far as there is room, and a hexadecimal number."""
    number = blake2b(repr((key, now)).encode(), digest_size=8).hexdigest()
    room = LONGEST_NAME - len(number) - 1
    # A name that was cut must not end with a dash or a dot.
    return f"{_END_OF_LABEL.sub('', key[0].name[:room])}.{number}"

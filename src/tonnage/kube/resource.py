"""Kinds of objects on the wire: pages of a list and lines of a watch become changes of typed objects.

Nothing here does I/O. An object that cannot be read becomes a problem with its name; what is wrong with the stream
itself is handed back beside the changes before it, so that those are not lost.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tonnage.cluster.jobs.validation import Fault
from tonnage.kube.errors import KubeError, OutdatedError, refusal
from tonnage.model.meta import ObjectMeta
from tonnage.model.problem import Problem
from tonnage.model.wire import WireError, decode, decode_object

T = TypeVar("T")

GONE = 410
_EXPIRED = frozenset({"Expired", "Gone"})
_STAYS = "what was known of the object before stays"
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Resource(msgspec.Struct, frozen=True):
    """Objects of one kind in the whole cluster."""

    kind: str
    path: str
    type: type[Any]
    is_namespaced: bool = True
    is_custom: bool = False
    """Whether it comes with a CustomResourceDefinition, which need not be installed."""
    faults: Callable[[Any], Sequence[Fault]] | None = None
    """What is wrong with an object that has the right form."""
    only: str = ""
    """The name of the one object that is meant; empty for all."""

    @property
    def group(self) -> str:
        """The API group, empty for the core's."""
        parts = self.path.split("/")
        return parts[2] if parts[1] == "apis" else ""

    @property
    def plural(self) -> str:
        """What the path and access rules call it."""
        return self.path.rpartition("/")[2]

    @property
    def selection(self) -> dict[str, str | int]:
        """What lists and watches are asked for besides."""
        return {"fieldSelector": f"metadata.name={self.only}"} if self.only else {}

    @property
    def name(self) -> str:
        """The kind, told from those of other API groups where several schedulers have one of that name."""
        return f"{self.kind}.{self.group}" if self.is_custom else self.kind

    def key(self, meta: ObjectMeta) -> str:
        """What tells an object from all others of its kind."""
        return meta.key if self.is_namespaced else meta.name

    def path_of(self, key: str) -> str:
        """Where one object is."""
        if not self.is_namespaced:
            return f"{self.path}/{key}"
        namespace, _, name = key.partition("/")
        group, _, plural = self.path.rpartition("/")
        return f"{group}/namespaces/{namespace}/{plural}/{name}"


class Change(msgspec.Struct, frozen=True):
    """What became known about one object."""

    key: str
    object: Any = None
    """As it is now, or as it was last if it is gone; None if it cannot be read."""
    is_gone: bool = False
    problem: Problem | None = None
    """Why it cannot be read."""


class Page(msgspec.Struct, frozen=True):
    """Part of a list."""

    changes: list[Change]
    version: str
    following: str
    """The token of the next page, empty after the last."""


class WatchEvents(msgspec.Struct, frozen=True):
    """What some lines of a watch say."""

    changes: list[Change]
    version: str
    """Where to continue, empty if no line says it."""
    failure: KubeError | None = None
    """Why the stream cannot be read on."""


# -- the wire


class _ListMeta(msgspec.Struct, gc=False, frozen=True):
    resourceVersion: str = ""  # noqa: N815
    following: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct, Generic[T], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T], gc=False, frozen=True):
    type: str
    object: T


class _Version(msgspec.Struct, gc=False, frozen=True):
    resourceVersion: str | None = None  # noqa: N815


class _Versioned(msgspec.Struct, gc=False, frozen=True):
    metadata: _Version = _Version()


class _Name(msgspec.Struct, gc=False, frozen=True):
    name: str
    namespace: str | None = None


class _Named(msgspec.Struct, gc=False, frozen=True):
    metadata: _Name


def read_page(resource: Resource, body: bytes) -> Page:
    """The objects on a page of a list; WireError if it is no list."""
    try:
        whole = decode(body, _List[resource.type])  # type: ignore[name-defined]
        changes = [_change(resource, thing, is_gone=False) for thing in whole.items or ()]
    except WireError:
        whole = decode(body, _List[msgspec.Raw])
        changes = [_carefully(resource, text, is_gone=False) for text in whole.items or ()]
    return Page(changes, whole.metadata.resourceVersion, whole.metadata.following or "")


def read_lines(resource: Resource, lines: Sequence[bytes]) -> WatchEvents:
    """The changes that lines of a watch tell, as far as they can be read."""
    expected = _Event[resource.type]  # type: ignore[name-defined]
    changes: list[Change] = []
    failure: KubeError | None = None
    read = 0
    for line in lines:
        try:
            event = decode(line, expected)
            if event.type in _CHANGES:
                changes.append(_change(resource, event.object, event.type == "DELETED"))
            elif event.type == "ERROR":
                failure = _error(decode(line, _Event[msgspec.Raw]).object)
        except WireError:
            failure = _read_carefully(resource, line, changes)
        if failure is not None:
            break
        read += 1
    return WatchEvents(changes, _last_version(lines[:read]), failure)


def _read_carefully(resource: Resource, line: bytes, changes: list[Change]) -> KubeError | None:
    """Take over one line whose object is not what it should be."""
    try:
        event = decode(line, _Event[msgspec.Raw])
    except WireError as error:
        # Which object it was about is lost with it.
        return OutdatedError(f"a line of the watch cannot be read ({error.message}): {bytes(line[:80])!r}")
    if event.type == "ERROR":
        return _error(event.object)
    if event.type in _CHANGES:
        changes.append(_carefully(resource, event.object, event.type == "DELETED"))
    return None


def _change(resource: Resource, thing: Any, is_gone: bool) -> Change:
    if not thing.metadata.name:
        problem = Problem(resource.kind, "metadata.name", "", "a name", "an object without a name; left out")
        return Change("", problem=problem)
    key = resource.key(thing.metadata)
    if resource.faults is not None and not is_gone:
        for fault in resource.faults(thing):
            message = f"{fault.message}; {_STAYS}"
            problem = Problem(f"{resource.kind}/{key}", fault.path, "", fault.expected, message)
            return Change(key, problem=problem)
    return Change(key, thing, is_gone)


def _carefully(resource: Resource, text: msgspec.Raw, is_gone: bool) -> Change:
    try:
        return _change(resource, decode_object(text, resource.type), is_gone)
    except WireError as error:
        wrong = error
    try:
        name = decode(text, _Named).metadata
        key = resource.key(ObjectMeta(name=name.name, namespace=name.namespace))
    except WireError:
        key = ""
    message = f"{wrong.message}; {_STAYS}"
    problem = Problem(f"{resource.kind}/{key}" if key else resource.kind, wrong.path, "", "", message)
    return Change(key, is_gone=is_gone, problem=problem)


def _error(text: msgspec.Raw) -> KubeError:
    """What an ERROR event says."""
    error = refusal(text)
    return OutdatedError(str(error)) if error.status == GONE or error.reason in _EXPIRED else error


def _last_version(lines: Sequence[bytes]) -> str:
    """The version that the last line with a version has: the ones before it need not be asked."""
    for line in reversed(lines):
        try:
            version = decode(line, _Event[_Versioned]).object.metadata.resourceVersion
        except WireError:
            continue
        if version:
            return version
    return ""

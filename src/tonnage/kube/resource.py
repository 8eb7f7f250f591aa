"""Resources of the API server, and the decoding of their lists and watches into changes. Nothing here does I/O.

An object that cannot be decoded becomes a `Problem` with its name; what can be read of a pod on a node counts. An
error in the stream itself is returned beside the changes before it, so that those are not lost.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tonnage.cluster.jobs.validation import Fault
from tonnage.kube.errors import KubeError, OutdatedError, refusal
from tonnage.kube.paths import below
from tonnage.model.annotations import LAST_APPLIED
from tonnage.model.meta import ObjectMeta
from tonnage.model.problem import Problem
from tonnage.model.wire import WireError, decode, decode_object

T = TypeVar("T")

GONE = 410
_EXPIRED = frozenset({"Expired", "Gone"})
_STAYS = "what was known of the object before stays"
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Resource(msgspec.Struct, frozen=True):
    """Objects of one kind under a path of the API server."""

    kind: str
    path: str
    type: type[Any]
    is_namespaced: bool = True
    is_custom: bool = False
    """Whether it comes with a CustomResourceDefinition, which need not be installed."""
    faults: Callable[[Any], Sequence[Fault]] | None = None
    """Faults that the types of an object do not rule out."""
    partial: Callable[[object], Any] | None = None
    """Makes an object of what can be read of plain data that does not fit its type, or nothing."""
    fields: str = ""
    """A field selector for what to list and watch, such as `metadata.name=NAME`; empty for all."""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        parts = self.path.split("/")
        return parts[2] if parts[1] == "apis" else ""

    @property
    def api_version(self) -> str:
        """The group and version, or the version alone in the core group."""
        parts = self.path.split("/")
        return "/".join(parts[2:4]) if parts[1] == "apis" else parts[2]

    @property
    def plural(self) -> str:
        """The plural name in paths and RBAC rules."""
        return self.path.rpartition("/")[2]

    @property
    def selection(self) -> dict[str, str | int]:
        """The query that narrows lists and watches to `fields`."""
        return {"fieldSelector": self.fields} if self.fields else {}

    @property
    def name(self) -> str:
        """The kind; with its API group if it is custom, since several schedulers have a kind of that name."""
        return f"{self.kind}.{self.group}" if self.is_custom else self.kind

    def key(self, meta: ObjectMeta) -> str:
        """The name of an object, with its namespace if it has one."""
        return meta.key if self.is_namespaced else meta.name

    def path_of(self, key: str) -> str:
        """The path of one object."""
        if not self.is_namespaced:
            return below(self.path, key)
        namespace, _, name = key.partition("/")
        group, _, plural = self.path.rpartition("/")
        return below(group, "namespaces", namespace, plural, name)


class Change(msgspec.Struct, frozen=True):
    """A change of one object: added, modified, deleted, or not decodable."""

    key: str
    object: Any = None
    """The object as it is now, or as it was last if it is gone; None if it cannot be decoded, even in parts."""
    is_gone: bool = False
    problem: Problem | None = None
    """Why the object cannot be used, or only in parts."""


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    changes: list[Change]
    version: str
    continue_token: str
    """The token of the next page; empty after the last."""


class WatchEvents(msgspec.Struct, frozen=True):
    """The changes in some lines of a watch."""

    changes: list[Change]
    version: str
    """The resourceVersion to continue from; empty if no line has one."""
    failure: KubeError | None = None
    """Why the watch cannot be read on."""


# -- the wire


class _ListMeta(msgspec.Struct, gc=False, frozen=True):
    resourceVersion: str = ""  # noqa: N815
    continue_token: str | None = msgspec.field(default=None, name="continue")


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
    """A page of a list; WireError if the body is no list."""
    try:
        whole = decode(body, _List[resource.type])  # type: ignore[name-defined]
        changes = [_change(resource, thing, is_gone=False) for thing in whole.items or ()]
    except WireError:
        whole = decode(body, _List[msgspec.Raw])
        changes = [_carefully(resource, text, is_gone=False) for text in whole.items or ()]
    return Page(changes, whole.metadata.resourceVersion, whole.metadata.continue_token or "")


def read_lines(resource: Resource, lines: Sequence[bytes]) -> WatchEvents:
    """The changes in lines of a watch, up to the first that cannot be decoded."""
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
    """Decode a line whose object does not fit its type, and add its change; an error if the line is none of a watch."""
    try:
        event = decode(line, _Event[msgspec.Raw])
    except WireError as error:
        # The line does not tell which object it is about, so only a new list helps.
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
    if thing.metadata.annotations:
        # It may be large, nobody reads it, and it has the environment variables of pods.
        thing.metadata.annotations.pop(LAST_APPLIED, None)
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
    part = _part(resource, text) if key and not is_gone else None
    message = f"{wrong.message}; {_STAYS if part is None else 'what can be read of the object counts'}"
    problem = Problem(f"{resource.kind}/{key}" if key else resource.kind, wrong.path, "", "", message)
    return Change(key, part, is_gone=is_gone, problem=problem)


def _part(resource: Resource, text: msgspec.Raw) -> Any:
    try:
        return None if resource.partial is None else resource.partial(decode(text, object))
    except WireError:
        return None


def _error(text: msgspec.Raw) -> KubeError:
    """The error in an ERROR event."""
    error = refusal(text)
    return OutdatedError(str(error)) if error.status == GONE or error.reason in _EXPIRED else error


def _last_version(lines: Sequence[bytes]) -> str:
    """The resourceVersion of the last line that has one."""
    for line in reversed(lines):
        try:
            version = decode(line, _Event[_Versioned]).object.metadata.resourceVersion
        except WireError:
            continue
        if version:
            return version
    return ""

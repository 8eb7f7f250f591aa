"""Sources of the configuration: a file or a ConfigMap, each followed while `contents` is iterated.

A file is polled every second, because a ConfigMap that is mounted as a volume changes by swapping a symbolic link. A
ConfigMap of the API server is watched.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple, Protocol

import msgspec

from tonnage.config.document import SCHEDULER
from tonnage.config.notes import ConfigError, Note
from tonnage.config.source import text_of_file
from tonnage.kube.client import Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path, below
from tonnage.kube.resource import Resource
from tonnage.kube.watch import NOT_FOUND, Backoff, Reflector
from tonnage.model.meta import ObjectMeta
from tonnage.model.wire import WireError, decode_object
from tonnage.observability.events import ObjectRef

LOOK_SECONDS = 1.0
PREFIX = "configmap:"

Content = str | ConfigError
"""The text of a configuration, or why there is none."""


class ConfigMap(msgspec.Struct, gc=False, frozen=True):
    """The text data of a ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


def _one_config_map(namespace: str, name: str) -> Resource:
    """The resource of one ConfigMap, which need not exist."""
    return Resource(
        "ConfigMap", api_path("v1", "namespaces", namespace, "configmaps"), ConfigMap, fields=f"metadata.name={name}"
    )


class ConfigSource(Protocol):
    """A file or object that holds a configuration."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def about(self) -> ObjectRef | None:
        """The object for Events about it; None if it is no object."""
        ...

    def contents(self) -> AsyncGenerator[Content, None]:
        """Its content now and after each possible change, without end."""
        ...


class FileSource:
    """A file."""

    about = None

    def __init__(self, path: str, seconds: float = LOOK_SECONDS) -> None:
        self.name = path
        self._seconds = seconds

    def read(self) -> str:
        """The text; ConfigError if it cannot be read."""
        return text_of_file(self.name)

    async def contents(self) -> AsyncGenerator[Content, None]:
        read = last = self._stamp()
        yield self._content()
        while True:
            await asyncio.sleep(self._seconds)
            now = self._stamp()
            # A file that is being written is left alone until it has not changed for a second.
            if now == last and now != read:
                read = now
                yield self._content()
            last = now

    def _content(self) -> Content:
        try:
            return self.read()
        except ConfigError as error:
            return error

    def _stamp(self) -> tuple[int, ...] | None:
        """What differs after a change, known without reading the file."""
        try:
            found = os.stat(self.name)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class MapName(NamedTuple):
    """A ConfigMap as `--config` names it; without a key the configuration is under one of the usual keys."""

    namespace: str
    map: str
    key: str = ""

    def __str__(self) -> str:
        return PREFIX + "/".join(part for part in self if part)


def map_name(text: str) -> MapName | None:
    """The ConfigMap that `configmap:NAMESPACE/NAME[/KEY]` names; None if it names a file; ValueError."""
    if not text.startswith(PREFIX):
        return None
    parts = text.removeprefix(PREFIX).split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{text!r} names no ConfigMap; expected {PREFIX}NAMESPACE/NAME or {PREFIX}NAMESPACE/NAME/KEY")
    return MapName(*parts)


class ConfigMapSource:
    """A ConfigMap of the API server."""

    def __init__(self, client: Client, name: MapName, backoff: Backoff) -> None:
        self.name = str(name)
        self._client = client
        self._named = name
        self._resource = _one_config_map(name.namespace, name.map)
        self._backoff = backoff
        self._uid = ""

    @property
    def about(self) -> ObjectRef:
        return ObjectRef(self._named.namespace, self._named.map, self._uid, "ConfigMap")

    async def read(self) -> str:
        """The text; ConfigError if there is none, KubeError if the API server cannot tell."""
        try:
            body = await self._client.get(below(self._resource.path, self._named.map))
            return self._text(decode_object(body, ConfigMap))
        except StatusError as error:
            if error.status != NOT_FOUND:
                raise KubeError(f"{self.name} cannot be read: {error}") from error
            raise self._wrong(self._missing) from error
        except WireError as error:
            raise self._wrong(f"{error.path}: {error.message}") from error

    async def contents(self) -> AsyncGenerator[Content, None]:
        async with aclosing(Reflector(self._client, self._resource, self._backoff).batches()) as batches:
            async for batch in batches:
                for change in batch.changes:
                    if change.is_gone:
                        yield self._wrong(self._missing)
                    elif change.object is not None:
                        yield self._content(change.object)
                    elif change.problem is not None:
                        yield self._wrong(f"{change.problem.field}: {change.problem.message}")
                if batch.listed is not None and not batch.listed:
                    yield self._wrong(self._missing)

    def _content(self, found: ConfigMap) -> Content:
        try:
            return self._text(found)
        except ConfigError as error:
            return error

    def _text(self, found: ConfigMap) -> str:
        self._uid = found.metadata.uid or ""
        data = found.data or {}
        keys = [key for key in ((self._named.key,) if self._named.key else SCHEDULER.keys) if key in data]
        if len(keys) == 1:
            return data[keys[0]]
        if self._named.key:
            held = f"; it holds {', '.join(sorted(data))}" if data else ""
            raise self._wrong(f"the ConfigMap has no key {self._named.key}{held}")
        which = "only one of" if keys else "one of"
        raise self._wrong(f"the ConfigMap must hold {which} {' and '.join(SCHEDULER.keys)}, or its key be named")

    @property
    def _missing(self) -> str:
        return f"there is no ConfigMap {self._named.map} in namespace {self._named.namespace}"

    def _wrong(self, message: str) -> ConfigError:
        return ConfigError(self.name, [Note(None, message)], [])

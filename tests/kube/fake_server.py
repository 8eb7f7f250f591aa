"""An API server that lists and watches as it should, or misbehaves as a test tells it to.

It speaks HTTP over a real socket. For each watch that is opened the next of `plans` is followed; without one the watch
is an honest one: everything since the version asked for, then everything new.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tonnage.lab.api import node_manifest, pod_manifest
from tonnage.model.node import Node
from tonnage.model.pod import Pod

PODS, NODES, QUOTAS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/resourcequotas"
_MOMENT = 0.01


class Hangup(Exception):  # noqa: N818
    """The plan wants the connection to end without a word."""


@dataclass
class Stream:
    """One watch, from the server's side."""

    server: "FakeServer"
    path: str
    version: int
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def lines(self) -> list[bytes]:
        """The lines that are due, once there are any; the stream moves on behind them."""
        while not (due := self.server.since(self.path, self.version)) or self.version < self.server.oldest:
            if self.version < self.server.oldest:
                await self.send(error_line(410, "Expired"))
                self.hang_up()
            if self.path not in self.server.served:
                self.hang_up()
            await asyncio.sleep(_MOMENT)
        self.version = due[-1][0]
        return [line for _, line in due]

    async def honest(self) -> None:
        while True:
            for line in await self.lines():
                await self.send(line)

    def hang_up(self) -> None:
        raise Hangup


Plan = Callable[[Stream], Awaitable[None]]


@dataclass
class FakeServer:
    """Objects, their history, and what was asked."""

    version: int = 100
    oldest: int = 0
    """The earliest version from which a watch may continue."""
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, bytes]] = field(default_factory=list)
    plans: deque[Plan] = field(default_factory=deque)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    served: set[str] = field(default_factory=lambda: {PODS, NODES, QUOTAS})
    """Where lists and watches are."""
    forbidden: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Single objects, by their paths."""
    discovery: Callable[[set[str]], tuple[int, dict[str, Any]]] = lambda served: (200, aggregated(served))
    """What is answered to the question what is served."""
    token: str = "secret"
    address: str = ""
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    # -- the world

    def put(self, thing: Node | Pod, **metadata: Any) -> None:
        is_pod = isinstance(thing, Pod)
        self.put_plain(PODS if is_pod else NODES, pod_manifest(thing) if is_pod else node_manifest(thing), **metadata)

    def put_plain(self, path: str, plain: dict[str, Any], **metadata: Any) -> None:
        """Create or change an object, which need not make sense."""
        name = plain["metadata"]["name"]
        known = (path, name) in self.objects
        self.version += 1
        plain["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(self.version), **metadata}
        self.objects[path, name] = plain
        self._record(path, "MODIFIED" if known else "ADDED", plain)

    def delete(self, path: str, name: str) -> None:
        self.version += 1
        plain = self.objects.pop((path, name))
        plain["metadata"]["resourceVersion"] = str(self.version)
        self._record(path, "DELETED", plain)

    def uninstall(self, path: str) -> None:
        """Objects of a kind are gone, and so is the kind."""
        for where, name in list(self.objects):
            if where == path:
                self.delete(path, name)
        self.served.discard(path)

    def forget_history(self) -> None:
        """Nobody may continue from an earlier version."""
        self.history.clear()
        self.oldest = self.version

    def _record(self, path: str, kind: str, plain: dict[str, Any]) -> None:
        self.history.append((self.version, path, json.dumps({"type": kind, "object": plain}).encode() + b"\n"))

    def since(self, path: str, version: int) -> list[tuple[int, bytes]]:
        return [(at, line) for at, where, line in self.history if where == path and at > version]

    def watches(self, path: str) -> list[int]:
        """The versions from which watches were asked for."""
        return [int(query["resourceVersion"]) for where, query in self.asked if where == path and "watch" in query]

    def lists(self, path: str) -> list[dict[str, str]]:
        return [query for where, query in self.asked if where == path and "watch" not in query]

    # -- the wire

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            with suppress(Hangup, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer_one(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = urlsplit(head.split()[1])
        query = dict(parse_qsl(target.query))
        self.asked.append((target.path, query))
        if f"authorization: bearer {self.token}" not in head.lower():
            self._write(writer, 401, status(401, "Unauthorized"))
        elif target.path in self.forbidden:
            self._write(writer, 403, status(403, "Forbidden"))
        elif "watch" in query and target.path not in self.served:
            self._write(writer, 404, status(404, "NotFound"))
        elif "watch" in query and int(query["resourceVersion"]) < self.oldest and not self.plans:
            self._write(writer, 410, status(410, "Expired"))
        elif "watch" in query:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            stream = Stream(self, target.path, int(query["resourceVersion"]), writer)
            plan = self.plans.popleft() if self.plans and target.path == PODS else Stream.honest
            await plan(stream)
            writer.write(b"0\r\n\r\n")
        else:
            self._write(writer, *self._answer(target.path, query))
        await writer.drain()
        return True

    def _answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if path == "/apis":
            return self.discovery(self.served)
        if path in self.answers:
            return 200, self.answers[path]
        if path not in self.served:
            name = path.rpartition("/")[2]
            known = self.objects.get((PODS, name))
            return (200, known) if known else (404, status(404, "NotFound"))
        items = [thing for (where, _), thing in sorted(self.objects.items()) if where == path]
        start = int(query.get("continue", 0))
        end = start + int(query.get("limit", len(items)))
        metadata = {"resourceVersion": str(self.version)} | ({"continue": str(end)} if end < len(items) else {})
        return 200, {"kind": "List", "metadata": metadata, "items": items[start:end]}

    @staticmethod
    def _write(writer: asyncio.StreamWriter, code: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {code} Whatever\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    def kubeconfig(self, folder: Path) -> str:
        named = {
            "clusters": {"cluster": {"server": self.address}},
            "users": {"user": {"token": self.token}},
            "contexts": {"context": {"cluster": "fake", "user": "fake"}},
        }
        content = {name: [{"name": "fake", **inner}] for name, inner in named.items()}
        path = folder / "kubeconfig"
        path.write_text(json.dumps({"current-context": "fake", **content}))
        return str(path)

    def stop_connections(self) -> None:
        for task in list(self._connections):
            task.cancel()


@asynccontextmanager
async def fake_server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    listener = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=2**26)
    fake.address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        listener.close()
        fake.stop_connections()


def status(code: int, reason: str) -> dict[str, Any]:
    """How the API server says no."""
    return {"kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": reason}


def error_line(code: int, reason: str) -> bytes:
    return json.dumps({"type": "ERROR", "object": status(code, reason)}).encode() + b"\n"


def aggregated(served: set[str]) -> dict[str, Any]:
    """How the API server says what it serves."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, version, plural in sorted(path.split("/")[2:] for path in served if path.startswith("/apis/")):
        groups.setdefault(group, []).append({"version": version, "resources": [{"resource": plural}]})
    items = [{"metadata": {"name": group}, "versions": versions} for group, versions in groups.items()]
    return {"kind": "APIGroupDiscoveryList", "items": items}


def groups_only(served: set[str]) -> dict[str, Any]:
    """How an older API server says it."""
    groups = [
        {"name": item["metadata"]["name"], "versions": [{"version": one["version"]} for one in item["versions"]]}
        for item in aggregated(served)["items"]
    ]
    return {"kind": "APIGroupList", "groups": groups}

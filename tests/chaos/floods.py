"""The floods: what anybody who reaches a port, or who may create pods, can pour over a server.

While one lasts, `/healthz` answers within a second and the process keeps within its memory; both are told with it.
"""

import json
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

from tests.chaos.faults import enlisting
from tests.chaos.vigil import Vigil
from tests.e2e.batching import wanted
from tonnage.lab.api import pod_manifest, pods_path

NODES = 100
"""How many nodes the cluster has on which floods are measured."""
PODS = 1000
MEMORY = 300.0
"""MB of resident memory."""
HEALTH = 1.0
"""Seconds within which /healthz answers."""
LASTS = 3.0
NAMESPACE = "flooding"
_MB = 2**20

Flood = Callable[[Any, str, int], str]
"""Is given a stage and the host and port of its server."""
SILENT: dict[str, Flood] = {}
EXTENDER: dict[str, Flood] = {}
SCHEDULER: dict[str, Flood] = {}
flood, of_extender, of_scheduler = enlisting(SILENT), enlisting(EXTENDER), enlisting(SCHEDULER)


def measured(kind: Flood) -> Callable[[Any], str]:
    """A kind of fault that pours and measures."""

    def pour(ground: Any) -> str:
        arena = ground.arena
        with Vigil(arena.command) as vigil:
            what = kind(arena, "127.0.0.1", arena.command.port)
        figures = f"/healthz within {vigil.slowest:.2f} s, {vigil.memory:.0f} MB"
        arena.complaints += [*vigil.failures[:3], *excess(vigil.slowest, vigil.memory)]
        arena.measured.append((vigil.slowest, vigil.memory))
        return f"{what}; {figures}"

    return pour


def excess(seconds: float, memory: float) -> list[str]:
    """What a server takes beyond what it may."""
    wrong = []
    if seconds >= HEALTH:
        wrong.append(f"/healthz took {seconds:.2f} s, and {HEALTH:g} s are allowed")
    if memory >= MEMORY:
        wrong.append(f"the process took {memory:.0f} MB, and {MEMORY:.0f} MB are allowed")
    return wrong


def _connections(host: str, port: int, count: int) -> list[socket.socket]:
    made = []
    for _ in range(count):
        with suppress(OSError):
            made.append(socket.create_connection((host, port), timeout=5))
    return made


def _ended(connections: Sequence[socket.socket]) -> int:
    """How many of them the other side has closed."""
    count = 0
    for one in connections:
        one.setblocking(False)
        try:
            while data := one.recv(4096):
                del data
            count += 1
        except BlockingIOError:
            pass
        except OSError:
            count += 1
        one.close()
    return count


@flood("500 connections that say nothing")
def silent_connections(arena: Any, host: str, port: int) -> str:
    made = _connections(host, port, 500)
    time.sleep(LASTS)
    return f"{len(made)} taken, {_ended(made)} of them closed after {LASTS:g} s"


@flood("200 requests sent byte by byte")
def slow_senders(arena: Any, host: str, port: int) -> str:
    made, deadline, sent = _connections(host, port, 200), time.monotonic() + LASTS, 0
    text = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b" " * 1000
    for place in range(len(text)):
        for one in made:
            with suppress(OSError):
                sent += one.send(text[place : place + 1])
        if time.monotonic() > deadline:
            break
    return f"{sent} bytes on {len(made)} connections, {_ended(made)} of them closed"


@flood("38 MB of headers on each of four connections")
def long_headers(arena: Any, host: str, port: int) -> str:
    line = b"X-Long: " + b"x" * (_MB - 10) + b"\r\n"
    return _poured(host, port, [b"GET /healthz HTTP/1.1\r\n"] * 4, line, 38)


@flood("200 MB as the body of each verb")
def long_bodies(arena: Any, host: str, port: int) -> str:
    verbs = ("filter", "prioritize", "preempt", "bind", "webhook", "healthz")
    heads = [f"POST /{verb} HTTP/1.1\r\nHost: a\r\nContent-Length: {200 * _MB}\r\n\r\n".encode() for verb in verbs]
    return _poured(host, port, heads, b'{"Pod":[' + b"[" * (_MB - 8), 200)


@flood("200 MB in chunks as the body of each verb")
def chunked_bodies(arena: Any, host: str, port: int) -> str:
    verbs = ("filter", "prioritize", "preempt", "bind", "webhook", "healthz")
    heads = [f"POST /{verb} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode() for verb in verbs]
    return _poured(host, port, heads, b"%x\r\n" % _MB + b" " * _MB + b"\r\n", 200)


def _poured(host: str, port: int, heads: Sequence[bytes], piece: bytes, times: int) -> str:
    """Send each head on a connection of its own and then the piece again and again, until it is refused."""

    def pour(head: bytes) -> int:
        sent = 0
        with suppress(OSError), socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(head)
            for _ in range(times):
                connection.sendall(piece)
                sent += len(piece)
        return sent

    with ThreadPoolExecutor(len(heads)) as pool:
        sent = list(pool.map(pour, heads))
    return f"{max(sent) / 1e6:.0f} MB at most were taken from one of {len(heads)} senders"


@of_extender("300 filter requests at once")
def many_filters(arena: Any, host: str, port: int) -> str:
    pod = pod_manifest(wanted("impossible", 1000, namespace="default"))
    pod["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    body = json.dumps({"Pod": pod, "NodeNames": [f"n{number:02}" for number in range(arena.nodes)]})
    return _asked(host, port, "POST", "/filter", body)


@of_scheduler("300 requests for metrics and problems at once")
def many_questions(arena: Any, host: str, port: int) -> str:
    return f"{_asked(host, port, 'GET', '/metrics')}; {_asked(host, port, 'GET', '/debug/problems')}"


@of_scheduler("snapshots in parallel")
def snapshots(arena: Any, host: str, port: int) -> str:
    return _asked(host, port, "GET", "/debug/snapshot", count=40)


def _asked(host: str, port: int, method: str, path: str, body: str | None = None, count: int = 300) -> str:
    """The same request on many connections at once."""

    def ask(_: int) -> int:
        connection = HTTPConnection(host, port, timeout=60)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            while answer.read(65536):
                pass
            return answer.status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    deadline, statuses = time.monotonic() + LASTS, list[int]()
    with ThreadPoolExecutor(count) as pool:
        while time.monotonic() < deadline:
            statuses += pool.map(ask, range(count))
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    said = ", ".join(f"{number} times {status or 'nothing'}" for status, number in counts.items())
    return f"{path} answered {said}"


@flood("1000 pods of a tenant created at once")
def pods_of_a_tenant(arena: Any, host: str, port: int) -> str:
    with suppress(Exception):
        arena.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    path, large = pods_path(NAMESPACE), {"hostile.example/large": "x" * 10_000}

    def create(number: int) -> None:
        made = pod_manifest(wanted(f"f{number:04}", 1000, namespace=NAMESPACE, annotations=large))
        made["spec"]["schedulerName"] = arena.scheduler_name
        arena.api.create(path, made)

    started = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(create, range(PODS)))
    took = time.monotonic() - started
    time.sleep(LASTS)
    arena.api.delete(path)
    while arena.api.get(path, limit=1)["items"]:
        time.sleep(0.1)
    return f"{PODS} pods in {took:.1f} s"


OF_EXTENDER = {title: measured(kind) for title, kind in {**SILENT, **EXTENDER}.items()}
OF_SCHEDULER = {title: measured(kind) for title, kind in {**SILENT, **SCHEDULER}.items()}

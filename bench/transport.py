"""The transport alone: Bindings that are decided and encoded beforehand, written by the scheduler's HTTP client.

This is the most that any scheduler with this client could bind on the machine; the rest is its start and its decisions.
"""

import asyncio
import ssl
import time
from collections.abc import Iterable, Iterator

import msgspec
import uvloop

from tonnage.binder.binding import pod_path
from tonnage.kube.http.dialer import Dialer
from tonnage.kube.http.pool import ConnectionPool
from tonnage.kube.http.request import encode_request, header_lines
from tonnage.lab.control_plane import ControlPlane
from tonnage.scheduler.binds import AT_ONCE

_LARGEST_ANSWER = 2**20
_CREATED = 201


def binding(pod: str, node: str) -> bytes:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target})


def bind_all(plane: ControlPlane, places: Iterable[tuple[str, str]]) -> float:
    """Bind pods to nodes, as many at once as the scheduler does; how many seconds that takes."""
    dialer = Dialer(plane.server)
    lines = header_lines(
        {"Host": dialer.host, "Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}
    )
    requests = [
        encode_request("POST", pod_path("default", pod, "binding"), lines, binding(pod, node)) for pod, node in places
    ]
    return uvloop.run(_write(dialer, ssl.create_default_context(cafile=str(plane.authority)), iter(requests)))


async def _write(dialer: Dialer, tls: ssl.SSLContext, requests: Iterator[bytes]) -> float:
    pool = ConnectionPool(dialer)
    pool.trust(tls, b"")

    async def work() -> None:
        for request in requests:
            answer, said = await pool.fetch(request, False, _LARGEST_ANSWER)
            assert answer.status == _CREATED, said

    begun = time.monotonic()
    try:
        await asyncio.gather(*[work() for _ in range(AT_ONCE)])
        return time.monotonic() - begun
    finally:
        await pool.close()

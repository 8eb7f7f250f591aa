"""The lab's client of the API server: blocking calls for tests and for filling a lab, several at a time.

The programs use another client, `tonnage.kube`. This one shares no code with it, so that tests do not check the API
server's objects through the code under test.
"""

import http.client
import json
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any
from urllib.parse import urlencode, urlsplit

from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.wire import encode, manifest

AT_ONCE = 8
_TIMEOUT = 30.0
_IMAGE = "practice"
_MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
"""A patch that merges lists such as conditions by the keys of their entries."""
_IDLE = 45.0
"""Seconds for which an idle connection is used again; API servers hang up after 90."""
_OVERLOADED = 429
_RETRY_SECONDS = 0.1
"""Seconds before a call is repeated that the server refused with 429 Too Many Requests."""


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """One user's access to an API server."""

    def __init__(self, server: str, token: str, authority: str) -> None:
        place = urlsplit(server)
        assert place.hostname, server
        self._host, self._port = place.hostname, place.port
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._authority = authority
        self._idle: list[tuple[http.client.HTTPSConnection, float]] = []
        """Connections, and since when they have been idle."""

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type_: str = "application/json",
        query: Mapping[str, str | int] | None = None,
    ) -> Any:
        """The decoded answer; ApiError for an error status."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else encode(body)
        headers = self._headers if data is None else {**self._headers, "Content-Type": type_}
        status, text = self._exchange(method, target, data, headers)
        while status == _OVERLOADED:
            time.sleep(_RETRY_SECONDS)
            status, text = self._exchange(method, target, data, headers)
        try:
            answer = json.loads(text) if text else None
        except ValueError:
            answer = text.decode(errors="replace")
        if status >= 400:
            said: dict[str, Any] = answer if isinstance(answer, dict) else {"message": answer}
            raise ApiError(status, said.get("reason", ""), said.get("message", ""))
        return answer

    def _exchange(self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            answer = response.status, response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append((connection, time.monotonic()))
        return answer

    def _connection(self) -> http.client.HTTPSConnection:
        """An idle connection that the server has not hung up on, or a new one."""
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT, context=self._tls)
            if time.monotonic() - since < _IDLE:
                return connection
            connection.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._authority)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def get(self, path: str, **query: str | int) -> Any:
        return self.request("GET", path, query=query)

    def create(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, type_: str = _MERGE) -> Any:
        return self.request("PATCH", path, body, type_=type_)

    def delete(self, path: str, grace: int = 0) -> Any:
        """Delete an object; without a grace period a pod is gone at once, since no kubelet has to confirm its end."""
        return self.request("DELETE", path, query={"gracePeriodSeconds": grace})

    # -- objects of the model

    def create_nodes(self, nodes: Iterable[Node], conditions: Sequence[dict[str, str]] = ()) -> None:
        """Create nodes, with their status and these conditions."""

        def create(node: Node) -> None:
            made = node_manifest(node)
            made["status"]["conditions"] = [*conditions]
            self.create("/api/v1/nodes", made)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(create, nodes))

    def create_pods(self, pods: Iterable[Pod]) -> None:
        """Create pods, with their node and phase."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._create_pod, pods))

    def _create_pod(self, pod: Pod) -> None:
        made = self.create(pods_path(pod.metadata.namespace), pod_manifest(pod))
        if (pod.status.phase or "Pending") != "Pending":
            path = f"{pods_path(pod.metadata.namespace)}/{made['metadata']['name']}/status"
            self.patch(path, {"status": {"phase": pod.status.phase}})


def pods_path(namespace: str | None = None) -> str:
    """The path of the pods of a namespace."""
    return f"/api/v1/namespaces/{namespace or 'default'}/pods"


def node_manifest(node: Node) -> dict[str, Any]:
    """A node that the API server accepts."""
    return _new(node)


def pod_manifest(pod: Pod) -> dict[str, Any]:
    """A pod that the API server accepts: each container has an image, and no priority is set without a class."""
    plain = _new(pod)
    spec = plain["spec"]
    spec.pop("priority", None)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container["image"] = _IMAGE
    return plain


def _new(thing: Node | Pod) -> dict[str, Any]:
    """An object without the metadata that the API server sets."""
    plain = manifest(thing)
    for name in ("uid", "creationTimestamp", "deletionTimestamp"):
        plain["metadata"].pop(name, None)
    return plain

"""What makes a real kube-scheduler ask its extender again about a pod that the extender turned down.

The extender here only plays one, so that nothing but the write of a test can be the cause.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.extending import wanted
from tests.scenario import node
from tests.waiting import PATIENCE, until
from tonnage.lab.api import Api, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.schedulers import extender_configuration

log = logging.getLogger(__name__)

QUIET = 2.5
"""Seconds without a question after which kube-scheduler has put the pods aside: their back-off is over by then."""
SOON = 5.0


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes and pods, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


class Refuser:
    """Turns every pod down everywhere, and remembers when it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        refuser = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                refuser.asked.append((time.monotonic(), body["Pod"]["metadata"]["name"]))
                answer = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], "Full")}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def until_quiet(self) -> None:
        def is_quiet() -> bool:
            return bool(self.asked) and time.monotonic() - self.asked[-1][0] > QUIET

        until(is_quiet, "kube-scheduler does not put the pods aside")


@contextmanager
def refusing(plane: ControlPlane) -> Iterator[Refuser]:
    refuser = Refuser()
    scheduler = plane.run_scheduler(extender_configuration(refuser.port))
    try:
        yield refuser
    finally:
        scheduler.stop()
        refuser.stop()


def annotate(api: Api) -> None:
    api.patch(f"{pods_path()}/p", {"metadata": {"annotations": {"tonnage.io/requeued": "now"}}})


def label(api: Api) -> None:
    api.patch(f"{pods_path()}/p", {"metadata": {"labels": {"woken": "now"}}})


def condition(api: Api) -> None:
    told = {"type": "Woken", "status": "True", "reason": "Room", "message": "there is room"}
    conditions = api.get(f"{pods_path()}/p")["status"]["conditions"]
    api.patch(f"{pods_path()}/p/status", {"status": {"conditions": [*conditions, told]}})


def nominate(api: Api) -> None:
    api.patch(f"{pods_path()}/p/status", {"status": {"nominatedNodeName": "a"}})


def annotate_running(api: Api) -> None:
    api.patch(f"{pods_path()}/running", {"metadata": {"annotations": {"woken": "now"}}})


def annotate_node(api: Api) -> None:
    api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"woken": "now"}}})


def delete_running(api: Api) -> None:
    api.delete(f"{pods_path()}/running")


def raise_quota(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}
    api.create("/api/v1/namespaces/default/resourcequotas", body)
    api.delete("/api/v1/namespaces/default/resourcequotas/q")


@pytest.mark.parametrize(
    ("write", "woken"),
    [
        (annotate, {"p"}),
        (label, {"p"}),
        (condition, {"p"}),
        (nominate, {"p"}),
        (annotate_node, {"p", "q"}),
        (annotate_running, {"p", "q"}),
        (delete_running, {"p", "q"}),
        (raise_quota, set()),
    ],
)
def test_which_writes_make_kube_scheduler_ask_again(
    plane: ControlPlane, write: Callable[[Api], None], woken: set[str]
) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    plane.api.create_pods([wanted("running", None, cpu="1", on="a")])
    with refusing(plane) as refuser:
        plane.api.create_pods([wanted("p"), wanted("q")])
        refuser.until_quiet()
        begun = time.monotonic()
        write(plane.api)
        deadline = begun + (PATIENCE if woken else SOON)
        while time.monotonic() < deadline and {name for at, name in refuser.asked if at > begun} != (woken or {"-"}):
            time.sleep(0.02)
        again = {name: at - begun for at, name in reversed(refuser.asked) if at > begun}
        told = ", ".join(f"{name} after {seconds:.2f} s" for name, seconds in again.items()) or "nobody"
        log.info("%s: %s", write.__name__, told)
        assert set(again) == woken

"""Real parts with fronts between them, and words for what can be done to them.

    API server ◄─ front ── extender ◄─ side ── kube-scheduler
         └───────────── webhook ───────────┘

The player of kubelets and kube-scheduler talk to the API server directly.
"""

import base64
import json
import os
import re
import signal
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.front import Front
from tests.cluster.extending import SCHEDULER, Extender, configuration
from tests.cluster.player import Player, playing
from tests.scenario import node
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import Program, free_ports
from tonnage.model.node import Node

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CARD_MEMORY = 8000
SLOTS = 6
FAILURES = (ApiError, OSError, HTTPException)
"""What a call to an API server that comes and goes ends with."""
_METRIC = re.compile(r'^(tonnage_\w+)(?:\{\w+="(\w+)"\})? ([\d.e+]+)$', re.MULTILINE)


class Arena:
    """One cluster that is put through faults."""

    def __init__(
        self, plane: ControlPlane, front: Front, side: Front, extender: Extender, player: Player, size: tuple[int, int]
    ) -> None:
        self.plane, self.front, self.side, self.extender, self.player = plane, front, side, extender, player
        self.api: Api = plane.api
        self.nodes, self.cards = size
        self.scheduler: Program = plane.run_scheduler(self._settings())

    def _settings(self) -> dict[str, Any]:
        settings = configuration(self.side.port)
        return {**settings, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}

    def node(self, number: int) -> Node:
        """A node as its device plugin registers it; every other plugin takes part in the handshake."""
        notes = {"hami.io/node-handshake": "Reported 2026-01-01 00:00:00"} if number % 2 else {}
        offered = {"nvidia.com/gpu": self.cards * SLOTS}
        name = f"n{number:02}"
        return node(name, gpus=self.cards, gpu_memory=CARD_MEMORY, slots=SLOTS, annotations=notes, **offered)

    # -- the extender

    def kill_extender(self) -> None:
        self.extender.stop(signal.SIGKILL)

    def start_extender(self) -> None:
        self.extender.start()

    def pause_extender(self, seconds: float) -> None:
        os.kill(self.extender.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.extender.process.pid, signal.SIGCONT)

    def shift_clock(self, seconds: float) -> None:
        (self.plane.folder / "clock").write_text(str(seconds))

    def metrics(self) -> dict[tuple[str, str], float]:
        """The extender's figures about itself, by name and label."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {(name, label): float(value) for name, label, value in _METRIC.findall(text)}

    @property
    def metrics_port(self) -> int:
        return int((self.plane.folder / "metrics-port").read_text())

    # -- the others

    def restart_scheduler(self) -> None:
        self.scheduler.stop()
        self.plane.running.remove(self.scheduler)
        self.scheduler = self.plane.run_scheduler(self._settings())

    def restart_api_server(self, pause: float) -> None:
        self.plane.api_server.stop()
        self.plane.running.remove(self.plane.api_server)
        time.sleep(pause)
        self.plane.start_server()

    # -- objects

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.api.get(pods_path())["items"]}

    def delete_pod(self, name: str) -> None:
        """Delete a pod, if it is still there."""
        with suppress(ApiError):
            self.api.delete(f"{pods_path()}/{name}")

    def annotate(self, path: str, annotations: dict[str, str | None]) -> None:
        self.api.patch(path, {"metadata": {"annotations": annotations}})


@contextmanager
def arena(nodes: int = 20, cards: int = 4) -> Iterator[Arena]:
    """Everything started and settled; everything ends with it."""
    with ControlPlane() as plane:
        front, side = _fronts(plane)
        try:
            extender = _extender(plane, front)
            side.target = f"http://127.0.0.1:{extender.port}"
            try:
                with playing(plane) as player:
                    made = Arena(plane, front, side, extender, player, (nodes, cards))
                    plane.api.create_nodes(made.node(number) for number in range(nodes))
                    _hook(plane, side)
                    yield made
            finally:
                with suppress(ProcessLookupError):
                    os.kill(extender.process.pid, signal.SIGCONT)
                extender.stop(signal.SIGKILL)
        finally:
            front.stop()
            side.stop()


def _fronts(plane: ControlPlane) -> tuple[Front, Front]:
    """Both serve with the API server's own certificate, which everybody here trusts already."""
    serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serves.load_cert_chain(plane.authority, plane.authority.with_suffix(".key"))
    trusts = ssl.create_default_context(cafile=str(plane.authority))
    return Front(plane.server, serves=serves, trusts=trusts), Front("", also_serves=serves)


def _extender(plane: ControlPlane, front: Front) -> Extender:
    (metrics,) = free_ports(1)
    (plane.folder / "metrics-port").write_text(str(metrics))
    content = json.loads(plane.kubeconfig().read_text())
    assert urlsplit(plane.server).hostname == "127.0.0.1"
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{front.port}"
    kubeconfig = plane.folder / "through-the-front.kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(content))
    flags = ("--metrics-bind-address", f"127.0.0.1:{metrics}", "--scheduler-name", SCHEDULER)
    module = ("tests.chaos.shifted", str(plane.folder / "clock"))
    return Extender(kubeconfig, plane.folder / "extender.log", *flags, module=module)


def _hook(plane: ControlPlane, side: Front) -> None:
    bundle = base64.b64encode(plane.authority.read_bytes()).decode()
    hook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{side.secure_port}/webhook", "caBundle": bundle},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    plane.api.create(HOOKS, {"metadata": {"name": "tonnage-webhook"}, "webhooks": [hook]})

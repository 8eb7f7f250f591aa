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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.front import Front
from tests.e2e.extending import SCHEDULER, Command, Extender
from tests.scenario import node
from tests.waiting import PATIENCE
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import PHASE, Player, playing
from tonnage.lab.program import Program, free_ports
from tonnage.lab.schedulers import extender_configuration
from tonnage.model.node import Node

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CARD_MEMORY = 8000
SLOTS = 6
CONFLICT = 409
FAILURES = (ApiError, OSError, HTTPException)
"""What a call to an API server that comes and goes ends with."""
HASTE = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}
"""How soon kube-scheduler asks about a pod again."""
Figures = dict[tuple[str, str], float]
_METRIC = re.compile(r'^(tonnage_\w+)(?:\{\w+="(\w+)"\})? ([\d.e+]+)$', re.MULTILINE)


class Stage:
    """A cluster of sharing nodes with a player of kubelets, whoever schedules there."""

    def __init__(self, plane: ControlPlane, player: Player, size: tuple[int, int]) -> None:
        self.plane, self.player = plane, player
        self.api: Api = plane.api
        self.nodes, self.cards = size
        self.complaints: list[str] = []
        """What was wrong while a fault lasted."""
        self.measured: list[tuple[float, float]] = []
        """The slowest answer of /healthz and the most memory, in MB, during each flood."""

    def node(self, number: int) -> Node:
        """A node as its device plugin registers it; every other plugin takes part in the handshake."""
        notes = {"hami.io/node-handshake": "Reported 2026-01-01 00:00:00"} if number % 2 else {}
        offered = {"nvidia.com/gpu": self.cards * SLOTS}
        name = f"n{number:02}"
        return node(name, gpus=self.cards, gpu_memory=CARD_MEMORY, slots=SLOTS, annotations=notes, **offered)

    def create_nodes(self) -> None:
        self.api.create_nodes(self.node(number) for number in range(self.nodes))

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.api.get(pods_path())["items"]}

    def delete_pod(self, name: str) -> None:
        """Delete a pod, if it is still there."""
        with suppress(ApiError):
            self.api.delete(f"{pods_path()}/{name}")

    def restart_api_server(self, pause: float) -> None:
        self.plane.api_server.stop()
        self.plane.running.remove(self.plane.api_server)
        time.sleep(pause)
        self.plane.start_server()

    def annotate(self, path: str, annotations: dict[str, str | None]) -> None:
        self.api.patch(path, {"metadata": {"annotations": annotations}})

    def tend(self) -> list[str]:
        """Start what has ended again, as kubelets do; what is not as it should be."""
        return []

    @property
    def command(self) -> Command:
        """The server that decides."""
        raise NotImplementedError

    @property
    def scheduler_name(self) -> str:
        """What pods name that are its."""
        raise NotImplementedError

    def take_complaints(self) -> list[str]:
        """What was wrong since somebody asked."""
        wrong, self.complaints = self.complaints, []
        return wrong

    def figures(self) -> list[Figures]:
        """What each extender tells about itself, by name and label."""
        raise NotImplementedError

    @property
    def evicted(self) -> int:
        """How many pods were evicted."""
        return 0

    def logs(self) -> str:
        """The ends of the logs of those who schedule."""
        raise NotImplementedError


class Arena(Stage):
    """One cluster that is put through faults."""

    def __init__(
        self, plane: ControlPlane, front: Front, side: Front, extender: Extender, player: Player, size: tuple[int, int]
    ) -> None:
        super().__init__(plane, player, size)
        self.front, self.side, self.extender = front, side, extender
        self.scheduler: Program = plane.run_scheduler(self._settings())

    def _settings(self) -> dict[str, Any]:
        return {**extender_configuration(self.side.port), **HASTE}

    # -- the extender

    @property
    def command(self) -> Command:
        return self.extender

    @property
    def scheduler_name(self) -> str:
        return SCHEDULER

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

    def figures(self) -> list[Figures]:
        return [figures_at(int((self.plane.folder / "metrics-port").read_text()))]

    def logs(self) -> str:
        return self.extender.log.read_text()[-20000:]

    # -- the others

    def restart_scheduler(self) -> None:
        self.scheduler.stop()
        self.plane.running.remove(self.scheduler)
        self.scheduler = self.plane.run_scheduler(self._settings())

    # -- objects

    def is_handing_out_nothing(self) -> bool:
        """Whether no bind is on its way and no device plugin has still to answer."""
        phases = [pod["metadata"].get("annotations", {}).get(PHASE) for pod in self.pods().values()]
        return "allocating" not in phases and not any(
            figures["tonnage_binds_in_flight", ""] for figures in self.figures()
        )

    def exchange(self, path: str, name: str, before: str | None, after: str | None) -> None:
        """Change an annotation, unless it is not what it is thought to be."""
        while True:
            metadata = self.api.get(path)["metadata"]
            if metadata.get("annotations", {}).get(name) != before:
                return
            try:
                version = metadata["resourceVersion"]
                self.api.patch(path, {"metadata": {"resourceVersion": version, "annotations": {name: after}}})
                return
            except ApiError as error:
                if error.status != CONFLICT:
                    raise


def figures_at(port: int) -> Figures:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return {(name, label): float(value) for name, label, value in _METRIC.findall(text)}


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
                    made.create_nodes()
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
    return front_of(plane), Front("", also_serves=_certificate(plane))


def front_of(plane: ControlPlane) -> Front:
    """A front before the API server."""
    trusts = ssl.create_default_context(cafile=str(plane.authority))
    return Front(plane.server, serves=_certificate(plane), trusts=trusts)


def _certificate(plane: ControlPlane) -> ssl.SSLContext:
    """The API server's own, which everybody here trusts already."""
    serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serves.load_cert_chain(plane.authority, plane.authority.with_suffix(".key"))
    return serves


def through(plane: ControlPlane, front: Front) -> Path:
    """A kubeconfig for those who talk to the API server through a front."""
    content = json.loads(plane.kubeconfig().read_text())
    assert urlsplit(plane.server).hostname == "127.0.0.1"
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{front.port}"
    kubeconfig = plane.folder / f"through-{front.port}.kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(content))
    return kubeconfig


def _extender(plane: ControlPlane, front: Front) -> Extender:
    (metrics,) = free_ports(1)
    (plane.folder / "metrics-port").write_text(str(metrics))
    kubeconfig = through(plane, front)
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

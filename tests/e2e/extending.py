"""A control plane with kube-scheduler, `tonnage extender` beside it, and a player of kubelets and device plugins."""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.checker import findings
from tests.scenario import pod
from tests.waiting import PATIENCE, until
from tonnage.lab.api import Api, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player, playing
from tonnage.lab.program import free_ports
from tonnage.lab.schedulers import HAMI_SCHEDULER, extender_configuration
from tonnage.model.pod import Pod

SCHEDULER = HAMI_SCHEDULER


class Command:
    """A server as a process that answers over HTTP."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        address: str,
        tls: ssl.SSLContext | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._address = address
        self._tls = tls
        self._environment = {**os.environ, **(environment or {})}
        self.log = log
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self._command, stdout=out, stderr=out, env=self._environment)
        until(lambda: self.is_ready, f"{type(self).__name__.lower()} is not ready; see {self.log}")

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        try:
            return self.get("/readyz").startswith("ok")
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._address}{path}", timeout=PATIENCE, context=self._tls) as answer:
            return str(answer.read().decode())

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)


class Extender(Command):
    """`tonnage extender`."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *flags: str,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: Sequence[str] = ("tonnage.cli.main",),
    ) -> None:
        self.port = port or free_ports(1)[0]
        command = [
            *(*within, sys.executable, "-m", *module, "extender", "--kubeconfig", str(kubeconfig)),
            *("--http_bind", f"{host}:{self.port}", "--metrics-bind-address", f"{host}:0", *flags),
        ]
        address = f"{'http' if tls is None else 'https'}://{host}:{self.port}"
        super().__init__(command, log, address, tls, environment)

    def post(self, path: str, document: object) -> Any:
        request = urllib.request.Request(f"{self._address}{path}", json.dumps(document).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE, context=self._tls) as answer:
            return json.loads(answer.read())


class Pods:
    """The pods of a control plane, and the player that runs them."""

    def __init__(self, plane: ControlPlane, player: Player) -> None:
        self.plane = plane
        self.api: Api = plane.api
        self.player = player

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{pods_path()}/{name}")
        return found

    def node_of(self, name: str) -> str | None:
        return self.pod(name)["spec"].get("nodeName")


class World(Pods):
    """Everything together, with words for tests."""

    def __init__(self, plane: ControlPlane, extender: Extender, player: Player) -> None:
        super().__init__(plane, player)
        self.extender = extender

    def until_running(self, *names: str) -> None:
        def all_run() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in self.api.get(pods_path())["items"]}
            return all(name in pods and pods[name]["status"].get("phase") == "Running" for name in names)

        until(all_run, "pods do not run", lambda: self.extender.log.read_text()[-3000:])

    def check(self) -> None:
        """Nothing is over-committed, and no plugin took one pod for another."""
        assert findings(self.api) == []
        assert self.player.mixed_up == []


@contextmanager
def extended(
    plane: ControlPlane,
    *flags: str,
    delay: float = 0.0,
    user: Path | None = None,
    verbs: Sequence[str] = (),
    scheduler_user: Path | None = None,
) -> Iterator[World]:
    """A world for one test; objects are left in the control plane."""
    extender = Extender(user or plane.kubeconfig(), plane.folder / "extender.log", *flags)
    try:
        scheduler = plane.run_scheduler(extender_configuration(extender.port, verbs), scheduler_user)
        try:
            with playing(plane, delay) as player:
                yield World(plane, extender, player)
        finally:
            scheduler.stop()
    finally:
        extender.stop()


def wanted(name: str, gpus: int | None = 1, **more: object) -> Pod:
    made = pod(name, gpus, **more)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=SCHEDULER))

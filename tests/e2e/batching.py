"""A control plane with `tonnage scheduler` and a player of kubelets; there is no other scheduler."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from tests.e2e.checker import findings
from tests.e2e.extending import Command, Pods
from tests.scenario import pod
from tests.waiting import until
from tonnage.lab.api import AT_ONCE, Api, pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player
from tonnage.lab.program import free_ports
from tonnage.model.pod import Pod

SCHEDULER = "tonnage"


class Scheduler(Command):
    """`tonnage scheduler`."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str) -> None:
        (self.port,) = free_ports(1)
        address = f"127.0.0.1:{self.port}"
        command = [
            *(sys.executable, "-m", "tonnage.cli.main", "scheduler", "--kubeconfig", str(kubeconfig)),
            *("--http-bind", address, *flags),
        ]
        super().__init__(command, log, f"http://{address}")

    def metric(self, name: str) -> float:
        return next(float(line.split()[1]) for line in self.get("/metrics").splitlines() if line.split()[0] == name)


class World(Pods):
    """Everything together, with words for tests."""

    def __init__(self, plane: ControlPlane, scheduler: Scheduler, player: Player) -> None:
        super().__init__(plane, player)
        self.scheduler = scheduler

    def nodes(self) -> dict[str, str]:
        """The nodes of all pods that have one."""
        pods = self.api.get(pods_path())["items"]
        return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName")}

    def until_bound(self, *names: str) -> None:
        until(lambda: set(names) <= self.nodes().keys(), "pods are not bound", self._log)

    def until_said(self, name: str, words: str) -> str:
        """Wait for the words in the pod's PodScheduled condition; all that it says."""
        until(lambda: words in self.said(name), f"{name} does not say {words!r}", lambda: self.said(name))
        return self.said(name)

    def said(self, name: str) -> str:
        conditions = self.pod(name)["status"].get("conditions", ())
        return " ".join(f"{c['status']} {c.get('reason')}: {c.get('message')}" for c in conditions)

    def check(self) -> None:
        assert findings(self.api) == []
        assert self.player.mixed_up == []

    def _log(self) -> str:
        return self.scheduler.log.read_text()[-3000:]


def wanted(name: str, gpus: int | None = 1, *, scheduler: str = SCHEDULER, **more: object) -> Pod:
    made = pod(name, gpus, **more)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler))


def gang(name: str, count: int, gpus: int | None, minimum: int | None = None) -> list[dict[str, Any]]:
    """Pods of a Kubernetes Job that start together, as manifests."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": str(uuid4()), "controller": True}
    made = []
    for number in range(count):
        member = pod_manifest(
            wanted(f"{name}-{number}", gpus, annotations={"tonnage.io/min-members": str(minimum or count)})
        )
        member["metadata"]["ownerReferences"] = [owner]
        made.append(member)
    return made


def create(api: Api, manifests: Iterable[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda one: api.create(pods_path(), one), manifests))


@contextmanager
def scheduling(
    plane: ControlPlane, *flags: str, user: Path | None = None, quick: bool = False, player: Player | None = None
) -> Iterator[World]:
    """A world for one test; objects are left in the control plane."""
    player = player or Player(plane, quick=quick)
    try:
        scheduler = Scheduler(user or plane.kubeconfig(), plane.folder / "tonnage-scheduler.log", *flags)
        try:
            yield World(plane, scheduler, player)
        finally:
            scheduler.stop()
    finally:
        player.stop()

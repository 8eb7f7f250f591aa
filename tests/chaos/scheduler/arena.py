"""One cluster with one or two batch schedulers, each with a front of its own, and words for what can be done to them.

API server ◄─ front ── scheduler
     ▲
     └─────── front ── scheduler, if there are two

Half of the nodes share their cards as HAMi does, the others offer whole ones.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from tests.chaos.arena import Figures, Stage, figures_at, front_of, through
from tests.chaos.front import Front
from tests.chaos.scheduler.history import History, follow
from tests.chaos.scheduler.jobs import PRIORITIES
from tests.config.texts import KAI_DEFAULT
from tests.e2e.batching import SCHEDULER, Scheduler
from tests.e2e.extending import Command
from tests.scenario import plain
from tests.waiting import PATIENCE
from tonnage.lab import definitions
from tonnage.lab.api import node_manifest
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player, playing
from tonnage.model.node import Node

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tonnage-scheduler"
QUICK = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=0.5s")
DEFINITIONS = ("podgroups.scheduling.run.ai", "queues.scheduling.run.ai")


class Side:
    """One scheduler, and what is between it and the API server."""

    def __init__(self, plane: ControlPlane, name: str, *flags: str) -> None:
        self.front: Front = front_of(plane)
        self.name = name
        config = plane.folder / "scheduler.yaml"
        self.scheduler = Scheduler(
            through(plane, self.front), plane.folder / f"scheduler-{name}.log", "--config", str(config), *flags
        )

    @property
    def leads(self) -> bool:
        if self.scheduler.process.poll() is not None:
            return False
        with suppress(OSError):
            return self.scheduler.metric("tonnage_leader") == 1
        return False

    def kill(self) -> None:
        self.scheduler.stop(signal.SIGKILL)

    def start(self) -> None:
        self.scheduler.start()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.scheduler.process.pid, number)

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.scheduler.stop(signal.SIGKILL)
        self.front.stop()


class Yard(Stage):
    """One cluster that is put through faults."""

    def __init__(self, plane: ControlPlane, player: Player, size: tuple[int, int], sides: list[Side]) -> None:
        super().__init__(plane, player, size)
        self.sides = sides
        self.history = History([node_manifest(self.node(number)) for number in range(self.nodes)])

    def node(self, number: int) -> Node:
        if number < self.nodes // 2:
            return super().node(number)
        return plain(f"n{number:02}", self.cards, gpu_memory=1000)

    @property
    def front(self) -> Front:
        """Before the one that leads."""
        return self.leader().front

    @property
    def command(self) -> Command:
        return self.leader().scheduler

    @property
    def scheduler_name(self) -> str:
        return SCHEDULER

    def leader(self) -> Side:
        """Who leads; waits until one does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            leading = [side for side in self.sides if side.leads]
            if len(leading) == 1:
                return leading[0]
            time.sleep(0.1)
        raise AssertionError(f"nobody leads\n{self.logs()}")

    def other(self, side: Side) -> Side:
        return self.sides[side is self.sides[0]]

    def until_leading(self, side: Side) -> float:
        """Wait until a replica leads; how many seconds that took."""
        started = time.monotonic()
        while not side.leads:
            assert time.monotonic() < started + PATIENCE, f"{side.name} does not take over\n{self.logs()}"
            time.sleep(0.1)
        return time.monotonic() - started

    def give_lease(self, name: str) -> None:
        """Somebody writes another holder into the Lease."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        changes = self.api.get(LEASE)["spec"].get("leaseTransitions", 0) + 1
        spec = {"holderIdentity": name, "renewTime": now, "acquireTime": now, "leaseTransitions": changes}
        self.api.patch(LEASE, {"spec": spec})

    def configure(self, text: str) -> None:
        """Replace the configuration."""
        new = self.plane.folder / "scheduler.yaml.new"
        new.write_text(text)
        new.rename(self.plane.folder / "scheduler.yaml")

    def tend(self) -> list[str]:
        leading = [side.name for side in self.sides if side.leads]
        return [] if len(leading) == 1 else [f"{leading or 'nobody'} lead"]

    def figures(self) -> list[Figures]:
        return [figures_at(side.scheduler.port) for side in self.sides]

    @property
    def evicted(self) -> int:
        return self.history.evicted

    def logs(self) -> str:
        return "\n".join(f"{side.name}:\n{side.scheduler.log.read_text()[-20000:]}" for side in self.sides)


@contextmanager
def yard(nodes: int = 8, cards: int = 4, replicas: int = 1) -> Iterator[Yard]:
    """Everything started; everything ends with it."""
    with ControlPlane() as plane:
        definitions.install(plane.api, *DEFINITIONS)
        for name, value in PRIORITIES.items():
            made: dict[str, Any] = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
            plane.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**made, "metadata": {"name": name}})
        (plane.folder / "scheduler.yaml").write_text(KAI_DEFAULT)
        flags = QUICK if replicas > 1 else ("--no-leader-elect",)
        sides: list[Side] = []
        try:
            sides.extend(Side(plane, f"replica-{letter}", *flags) for letter in "ab"[:replicas])
            with playing(plane) as player:
                made_yard = Yard(plane, player, (nodes, cards), sides)
                follower = follow(plane, made_yard.history)
                try:
                    made_yard.create_nodes()
                    yield made_yard
                finally:
                    follower.stop()
        finally:
            for side in sides:
                side.stop()

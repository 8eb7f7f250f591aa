"""Two replicas, each with a kube-scheduler and a front of its own, and words for what can be done to them.

API server ◄─ front ─┬─ extender ◄─ kube-scheduler     replica-a
     ▲               └────────────────────┘
     └─────── front ─── the same                       replica-b
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from tests.chaos.arena import HASTE, Figures, Stage, figures_at, front_of, through
from tests.chaos.front import Front
from tests.e2e.replicating import HOSTS, LEASE, LEASES, Replica, logs, port_pair
from tests.waiting import PATIENCE
from tonnage.lab.api import ApiError
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import Player, playing
from tonnage.lab.program import free_ports


class Side:
    """One replica, and what is between it and the API server."""

    def __init__(self, plane: ControlPlane, host: str, ports: tuple[int, int]) -> None:
        self.front: Front = front_of(plane)
        (self.metrics_port,) = free_ports(1)
        flags = ("--metrics-bind-address", f"127.0.0.1:{self.metrics_port}")
        self.replica = Replica(plane, host, ports, through(plane, self.front), flags=flags)

    @property
    def host(self) -> str:
        return self.replica.host

    @property
    def leads(self) -> bool:
        return self.replica.role == "leader"

    def run_scheduler(self) -> None:
        self.replica.run_scheduler(**HASTE)

    def kill(self) -> None:
        self.replica.kill()

    def start(self) -> None:
        self.replica.extender.start()
        self.run_scheduler()

    def signal(self, number: signal.Signals) -> None:
        """To the extender and the kube-scheduler."""
        scheduler = self.replica.scheduler
        for pid in (self.replica.extender.process.pid, *(() if scheduler is None else (scheduler.pid,))):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def look_after_scheduler(self) -> None:
        """Start a kube-scheduler anew that has ended, as it does when it has lost its Lease."""
        scheduler = self.replica.scheduler
        if scheduler is None or not scheduler.is_running:
            self.run_scheduler()

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.replica.stop()
        self.front.stop()


class Pair(Stage):
    """One cluster with two replicas that are put through faults."""

    def __init__(self, plane: ControlPlane, player: Player, size: tuple[int, int], sides: tuple[Side, Side]) -> None:
        super().__init__(plane, player, size)
        self.sides = sides

    def leader(self) -> tuple[Side, Side]:
        """Who leads, and the other one; waits until one does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            leading = [side for side in self.sides if side.leads]
            if len(leading) == 1:
                return leading[0], self.sides[leading[0] is self.sides[0]]
            time.sleep(0.1)
        raise AssertionError(f"nobody leads\n{self.logs()}")

    def until_leading(self, side: Side) -> float:
        """Wait until a replica leads; how many seconds that took."""
        started = time.monotonic()
        while not side.leads:
            assert time.monotonic() < started + PATIENCE, f"{side.host} does not take over\n{self.logs()}"
            side.look_after_scheduler()
            time.sleep(0.1)
        return time.monotonic() - started

    def give_lease(self, host: str) -> None:
        """Somebody writes another holder into the Lease."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        path = f"{LEASES}/{LEASE}"
        changes = self.api.get(path)["spec"].get("leaseTransitions", 0) + 1
        spec = {"holderIdentity": f"{host}_0a1b", "renewTime": now, "acquireTime": now, "leaseTransitions": changes}
        self.api.patch(path, {"spec": spec})

    def tend(self) -> list[str]:
        for side in self.sides:
            side.look_after_scheduler()
        leading = [side.host for side in self.sides if side.leads]
        return [] if len(leading) == 1 else [f"{leading or 'nobody'} lead"]

    def figures(self) -> list[Figures]:
        return [figures_at(side.metrics_port) for side in self.sides]

    def logs(self) -> str:
        return logs([side.replica for side in self.sides])


@contextmanager
def pair_arena(nodes: int = 6, cards: int = 4) -> Iterator[Pair]:
    """Everything started, the first replica leading; everything ends with it."""
    with ControlPlane() as plane:
        sides: list[Side] = []
        ports = port_pair()
        try:
            sides.extend(Side(plane, host, ports) for host in HOSTS)
            first, second = sides
            with playing(plane) as player:
                made = Pair(plane, player, (nodes, cards), (first, second))
                made.create_nodes()
                first.run_scheduler()
                made.until_leading(first)
                second.run_scheduler()
                yield made
        finally:
            for side in sides:
                with suppress(ApiError):
                    side.stop()

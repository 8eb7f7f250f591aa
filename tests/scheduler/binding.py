"""Binds of one cluster in memory, with a played writer of Bindings."""

import asyncio
from collections.abc import Sequence

from tests import virtualtime
from tonnage.actions.catalog import make_actions
from tonnage.binder.handover import HandoverQueue
from tonnage.binder.volumes import VolumeBinder
from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Decision
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.binds import Binds
from tonnage.scheduler.cyclerunner import CycleRunner


class Writer:
    """Remembers the order of Bindings; answers with what is planned for a pod, then with success."""

    def __init__(self, **planned: list[Exception]) -> None:
        self.planned = planned
        self.written: list[str] = []

    def is_handed_over(self, decision: Decision) -> bool:
        return False

    async def write(self, decision: Decision, handed_over: bool = True) -> None:
        self.written.append(decision.task.name)
        await asyncio.sleep(0)
        planned = self.planned.get(decision.task.name.replace("-", "_"))
        if planned:
            raise planned.pop(0)

    async def is_bound(self, task: object, goes_on: object) -> bool:
        return False


class World:
    """A cluster whose pods are decided about and bound, and what became of each."""

    def __init__(self, cluster: Cluster, writer: Writer, at_once: int = 1) -> None:
        self.cluster = cluster
        self.writer = writer
        self.at_once = at_once
        self.were_bound: list[str] = []
        self.released: list[list[str]] = []
        self.missed: list[list[str]] = []
        self.handovers = HandoverQueue(lambda: 0.0)
        self.volume_writer: object = None

    def bound(self, decision: Decision, seconds: float) -> None:
        self.were_bound.append(decision.task.name)

    def not_bound(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        self.released.append([key.partition("/")[2] for key in released])

    def node_busy(self, decision: Decision, why: str, released: Sequence[str]) -> None:
        self.missed.append([key.partition("/")[2] for key in released])

    def waits_for_volume(self, decision: Decision, why: str) -> None:
        pass

    def binds(self, cycle_runner: CycleRunner) -> Binds:
        return Binds(
            self.writer,  # type: ignore[arg-type]
            self.cluster,
            self.handovers,
            VolumeBinder(self.volume_writer, self.cluster),  # type: ignore[arg-type]
            cycle_runner.release,
            self,
            lambda: 0.0,
            self.at_once,
        )

    def run(self) -> None:
        async def main() -> None:
            cycle_runner = CycleRunner(self.cluster, default_plugins(), make_actions())
            binds = self.binds(cycle_runner)
            binds.add(cycle_runner.run(frozenset(), 0.0).placed)
            running = asyncio.create_task(binds.run())
            while len(binds):
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        virtualtime.run(main())

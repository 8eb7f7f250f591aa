"""When the whole scheduler decides, without an API server."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from unittest.mock import Mock

from tests import virtualtime
from tests.scenario import node, pod
from tests.waiting import until_true
from tonnage.actions.catalog import make_actions
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import Reason
from tonnage.kube.kinds import NODES, PODS
from tonnage.kube.leaderelection.fence import always
from tonnage.kube.watch import Backoff
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.service import SchedulerService


@asynccontextmanager
async def cycle_runner(*things):
    """A scheduler that knows these things and has taken over."""
    service = SchedulerService(
        Mock(),
        default_vendors(),
        default_plugins(),
        make_actions(["allocate"]),
        Backoff(draw=lambda: 0.5),
        SchedulerMetrics(),
        "default-scheduler",
    )
    kinds = {kind.resource.type: kind for kind in (NODES, PODS)}
    for thing in things:
        kinds[type(thing)].handler.put(service.cluster, thing)
    service.informer.synced.set()
    service.leadership.leading.set()
    work = asyncio.create_task(service._decide())
    try:
        yield service
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def test_what_changes_while_the_lease_is_late_to_be_renewed_is_decided_once_it_is():
    async def scenario():
        async with cycle_runner(node("a", gpus=1), pod("p", 1, memory=1000)) as service:
            service.leadership.fence = lambda: (0.5, 1.0)
            service._begin()
            await asyncio.sleep(0.1)
            assert service.cycles == 0, "it must not decide"
            service.leadership.fence = always
            await until_true(lambda: service.cycles)
            assert service.cluster.reserved.keys() == {"default/p"}

    virtualtime.run(scenario())


def test_one_that_leads_no_longer_does_not_rely_on_what_it_has_written():
    async def scenario():
        async with cycle_runner() as service:
            service.podgroup_statuses._written["default/g"] = None, {"phase": "Running"}
            service.queue_statuses._written["queues", "q", None] = {"allocated": {}}
            service._cease()
            assert not service.podgroup_statuses._written
            assert not service.queue_statuses._written

    virtualtime.run(scenario())


def test_pods_are_retried_once_when_the_first_of_several_delays_is_over():
    async def scenario():
        async with cycle_runner(node("a", gpus=1), pod("p", 9)) as service:
            service._begin()
            await until_true(lambda: "default/p" in service.unschedulable)
            cycles, now = service.cycles, time.time()
            for seconds in (20.0, 5.0, 10.0):
                service._retry_when_over(now + seconds)
            await asyncio.sleep(4.0)
            assert service.cycles == cycles
            await asyncio.sleep(2.0)
            assert service.cycles == cycles + 1

    virtualtime.run(scenario())


def test_a_job_for_which_a_search_goes_on_is_looked_at_in_the_next_cycle(monkeypatch):
    run, looked_at = CycleRunner.run, []

    def searching(runner, passed_over, now, cut_queues):
        outcome = run(runner, passed_over, now, cut_queues)
        looked_at.append([decision.task.name for decision in outcome.waiting])
        reason = Reason("SearchNotFinished" if len(looked_at) < 4 else "NoRoomCanBeMade")
        return outcome._replace(waits={"default/searched": {"preempt": reason}})

    monkeypatch.setattr(CycleRunner, "run", searching)

    async def scenario():
        pods = [pod(name, 1, memory=9000) for name in ("searched", "other")]
        async with cycle_runner(node("a", gpus=1), *pods) as service:
            service._begin()
            await asyncio.sleep(60)
            assert looked_at == [["other", "searched"], ["searched"], ["searched"], ["searched"]]
            assert len(service.unschedulable) == 2

    virtualtime.run(scenario())

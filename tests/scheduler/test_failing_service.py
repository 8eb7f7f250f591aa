"""A whole scheduler whose cycles fail: what owners and operators see, and when the process ends."""

import asyncio

import pytest
from prometheus_client import generate_latest

from tests import virtualtime
from tests.scenario import node, pod
from tests.scheduler.podstore import scheduling
from tests.scheduler.poison import EVENT, OPEN, VALID, Poison, poisoned
from tonnage.actions.allocate import Allocate
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.kube.supervision import GaveUpError
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.setaside import LONGEST_BACKOFF

HOUR = 3600.0


def test_a_poisoned_job_is_told_of_and_the_others_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="8"), poisoned(pod("bad", cpu="1"), EVENT), pod("good", cpu="1")]
        async with scheduling(monkeypatch, *things, plugins=[Poison()]) as (store, service):
            await asyncio.sleep(0.5)
            assert store.pods["default/good"].node == "a"
            assert store.pods["default/bad"].status.says_unscheduled
            assert store.reasons["default/bad"] == ["SchedulerError"]
            (event,) = [one for one in store.events if one["involvedObject"]["name"] == "bad"]
            assert event["reason"] == "FailedScheduling"
            assert "the scheduler failed at default/bad (RuntimeError in allocate)" in event["message"]
            service._metrics.attach(service)
            page = generate_latest(service._metrics.registry).decode()
            assert 'tonnage_cycle_failures_total{action="allocate"} 1.0' in page
            assert "tonnage_jobs_set_aside 1.0" in page
            assert 'tonnage_schedule_attempts_total{outcome="failed"} 1.0' in page

    virtualtime.run(main())


def test_a_job_that_stays_poisoned_ends_no_process_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this one nor the one that is started in its place."""

    async def main() -> None:
        for _ in range(2):
            things = [node("a", cpu="8"), poisoned(pod("bad", cpu="1"), VALID)]
            async with scheduling(monkeypatch, *things, plugins=[Poison()]) as (store, service):
                await asyncio.sleep(HOUR)
                failures = service.cycle_runner.failed_cycles()["allocate"]
                assert HOUR / LONGEST_BACKOFF < failures < HOUR / LONGEST_BACKOFF + 12, "it is tried, ever more seldom"
                store.add(pod("late", cpu="1"))
                await asyncio.sleep(0.5)
                assert store.pods["default/late"].node == "a"
                assert len(store.reasons["default/bad"]) == 1, "the condition is written once"

    virtualtime.run(main())


def test_a_job_that_is_mended_is_bound_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="8"), poisoned(pod("bad", cpu="1"), VALID)]
        async with scheduling(monkeypatch, *things, plugins=[Poison()]) as (store, service):
            await asyncio.sleep(HOUR)
            store.add(pod("bad", cpu="1"))
            await asyncio.sleep(0.5)
            assert store.pods["default/bad"].node == "a"
            assert not store.pods["default/bad"].status.says_unscheduled
            assert not service.cycle_runner.set_aside

    virtualtime.run(main())


def test_cycles_that_always_fail_end_the_process_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="8"), poisoned(pod("bad", cpu="1"), OPEN), pod("good", cpu="1")]
        async with scheduling(monkeypatch, *things, plugins=[Poison()]):
            await asyncio.sleep(59.0)
            assert len(asyncio.all_tasks()) > 5, "it has not ended"
            await asyncio.sleep(20.0)

    with pytest.raises(GaveUpError, match=r"cycles failed 1\d times in a row in [\dms]+, the last time .* default/bad"):
        virtualtime.run(main())


def test_a_while_of_failing_cycles_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="8"), poisoned(pod("bad", cpu="1"), OPEN), pod("good", cpu="1")]
        async with scheduling(monkeypatch, *things, plugins=[Poison()]) as (store, _):
            await asyncio.sleep(30.0)
            assert store.pods["default/good"].node is None
            store.remove("default/bad")
            await asyncio.sleep(11.0)
            assert store.pods["default/good"].node == "a"
            await asyncio.sleep(HOUR)

    virtualtime.run(main())


def test_what_cannot_be_told_is_bound_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="1"), pod("one", cpu="1"), pod("two", cpu="1")]
        async with scheduling(monkeypatch, *things) as (store, _):
            monkeypatch.setattr(Decision, "why_not", lambda _: 1 / 0)
            await asyncio.sleep(0.5)
            assert [key for key, one in store.pods.items() if one.node] == ["default/one"]

    virtualtime.run(main())


def test_a_bind_that_cannot_be_begun_gives_the_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        things = [node("a", cpu="1"), pod("one", cpu="1")]
        async with scheduling(monkeypatch, *things) as (store, service):
            with monkeypatch.context() as patch:
                patch.setattr(service.writer, "is_handed_over", lambda _: 1 / 0)
                await asyncio.sleep(0.5)
                assert not service.cluster.reserved
                assert len(service.binds) == 0
            await asyncio.sleep(60.0)
            assert store.pods["default/one"].node == "a"

    virtualtime.run(main())


def test_a_pod_that_found_a_place_and_waits_for_nobody_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action placed it as if others left, and evicted nobody; so no change would ever retry it."""

    class Hesitant(Allocate):
        is_first = True

        def run(self, session: Session) -> None:
            if not self.is_first:
                super().run(session)
                return
            self.is_first = False
            for task in list(session.cluster.waiting.values()):
                with Statement(session) as statement:
                    session.decisions[task.key] = statement.pipeline(task)
                    statement.commit()

    async def main() -> None:
        async with scheduling(monkeypatch, node("a", cpu="1")) as (store, service):
            service.configure(default_plugins(), [Hesitant()])
            store.add(pod("p", cpu="1"))
            await asyncio.sleep(0.5)
            assert store.pods["default/p"].node is None
            await asyncio.sleep(1.0)
            assert store.pods["default/p"].node == "a"

    virtualtime.run(main())

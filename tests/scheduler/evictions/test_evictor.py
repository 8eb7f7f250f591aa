"""Evictions on their way: what is written in which order, what budgets refuse, and when the rest is spared."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests import virtualtime
from tests.actions.eviction.making_room import crowd, job, node
from tests.plugins.queues.teams import team
from tests.scheduler.evictions.evicting import Stage
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.leaderelection.fence import Fence, always
from tonnage.model.pod import Pod
from tonnage.scheduler.evictions import evictor as module
from tonnage.scheduler.evictions.evictor import Evictor
from tonnage.scheduler.evictions.plans import ASKED, EvictionPlan, Victim
from tonnage.scheduler.evictions.writer import EvictionWriter

TOO_MANY, GONE, CONFLICT, FORBIDDEN = 429, 404, 409, 403


class Api:
    """Lets pods go as the API server does; answers with what is planned for a pod first."""

    def __init__(self, stage: Stage, budgets: Sequence[dict[str, Any]] = (), **planned: list[Exception]) -> None:
        self.stage = stage
        self.budgets = list(budgets)
        self.planned = planned
        self.written: list[str] = []
        self.before: Callable[[str], None] = lambda written: None
        """Called before each write."""

    async def get(self, path: str, timeout: float) -> bytes:
        assert path == "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        return json.dumps({"items": self.budgets}).encode()

    async def request(self, method: str, path: str, *, body: Any, timeout: float, type_: str = "") -> bytes:
        name, what = path.split("/")[-2:]
        written = f"evict {name}" if what == "eviction" else f"{name} to {body['status']['nominatedNodeName']}"
        self.before(written)
        self.written.append(written)
        await asyncio.sleep(0)
        planned = self.planned.get(name.replace("-", "_"))
        if planned and what == "eviction":
            raise planned.pop(0)
        if what == "eviction":
            assert body["deleteOptions"] == {"preconditions": {"uid": None}}
            self.stage.end(name)
        return b"{}"


class Told:
    """What came of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.outcomes: dict[str, str] = {}
        self.against: list[str] = []
        self.given_up: list[str] = []
        self.looks = 0

    def evicted(self, victim: Victim, outcome: str) -> None:
        self.outcomes[victim.task.name] = outcome

    def postponed(self, plan: EvictionPlan) -> None:
        self.against.append(plan.against)

    def retry_all(self) -> None:
        self.looks += 1

    def give_up(self, plan: EvictionPlan, why: str, refused: Sequence[Victim]) -> None:
        self.given_up.append(why)
        self.stage.cycle_runner.give_up(plan, refused, 0.0)


def carry_out(stage: Stage, api: Api, patience: float = 0.0, fence: Fence = always) -> Told:
    """Run a cycle and carry out what it decided, until nothing is left to do."""
    told = Told(stage)

    async def main() -> None:
        writer = EvictionWriter(api, fence)  # type: ignore[arg-type]
        clock = asyncio.get_running_loop().time
        made = Evictor(writer, stage.cycle_runner.nominations, told, told.give_up, told.retry_all, clock, patience)
        made.add(stage.cycle().plans)
        while len(made):
            await asyncio.sleep(0.01)

    virtualtime.run(main())
    return told


def test_a_node_is_named_again_after_it_was_taken_off_also_if_the_watch_is_behind() -> None:
    """Others hold the place at first, and are gone before the watch has shown that `high` names it no more."""
    stage = two_victims()
    stage.cycle()
    stage.nominate()
    stage.evict("low0-0", "low1-0")
    stage.restart()
    for thing in job("other", "q", 2, on="n0", priority=90):
        (stage.cluster.upsert_pod if isinstance(thing, Pod) else stage.cluster.groups.upsert)(thing)
    api = Api(stage)

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        writer, told = EvictionWriter(api), Told(stage)  # type: ignore[arg-type]
        made = Evictor(writer, stage.cycle_runner.nominations, told, told.give_up, told.retry_all, clock, 0.0)
        made.add(stage.cycle().plans)
        stage.leave("other-0")
        made.add(stage.cycle().plans)
        while len(made):
            await asyncio.sleep(0.01)

    virtualtime.run(main())
    assert stage.promised == {"high-0": "n0"}
    assert api.written == ["high-0 to None", "high-0 to n0"]


def two_victims() -> Stage:
    running = [job(f"low{number}", "q", on="n0") for number in range(2)]
    return Stage(crowd(node("n0", 2), team("q", 2), *running, job("high", "q", 2, priority=75)))


def budget(allowed: int, name: str = "keep") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2},
    }


def refusal(status: int) -> StatusError:
    return StatusError(status, "No", "it would violate the pod's disruption budget")


def test_it_is_written_for_whom_before_anybody_is_evicted() -> None:
    stage = two_victims()
    api = Api(stage)
    told = carry_out(stage, api)
    assert api.written == ["high-0 to n0", "evict low1-0", "evict low0-0"]
    assert told.outcomes == {"low0-0": "evicted", "low1-0": "evicted"}
    assert stage.promised == {"high-0": "n0"}
    assert not told.given_up


def test_of_several_victims_nobody_is_evicted_if_a_budget_does_not_allow_all_of_them() -> None:
    stage = two_victims()
    api = Api(stage, [budget(1)])
    told = carry_out(stage, api)
    assert api.written == []
    assert told.given_up == ["2 pods of PodDisruptionBudget keep have to go and 1 may"]
    assert stage.cluster.leaving == set()
    assert stage.promised == {}
    stage.cycle(now=1.0)
    assert len(stage.plans) == 1, "the same pods are not asked again at once"


def test_a_budget_that_allows_them_all_is_none_in_the_way() -> None:
    stage = two_victims()
    assert not carry_out(stage, Api(stage, [budget(2)])).given_up


def test_a_refused_eviction_is_tried_again_for_a_while() -> None:
    stage = two_victims()
    told = carry_out(stage, Api(stage, low0_0=[refusal(TOO_MANY)]), patience=10.0)
    assert told.outcomes == {"low0-0": "evicted", "low1-0": "evicted"}
    assert told.against == ["default/low0-0 cannot be evicted: it would violate the pod's disruption budget"]
    assert stage.promised == {"high-0": "n0"}
    assert stage.plans[0].against == ""


def test_a_refusal_that_lasts_ends_the_promise() -> None:
    stage = Stage(crowd(node("n0", 2), team("q", 2), job("low", "q", 2, on="n0"), job("high", "q", 2, priority=75)))
    api = Api(stage, low_0=[refusal(TOO_MANY)])
    told = carry_out(stage, api)
    assert api.written == ["high-0 to n0", "evict low-0"]
    assert told.outcomes == {"low-0": "refused"}
    assert told.given_up == ["default/low-0 cannot be evicted: it would violate the pod's disruption budget"]
    assert stage.cluster.waiting.keys() == {"default/high-0"}
    assert [task.name for task in stage.cycle_runner.nominations.take_lost()] == ["high-0"]


def test_without_the_right_to_evict_nothing_is_tried_twice() -> None:
    stage = Stage(crowd(node("n0", 2), team("q", 2), job("low", "q", 2, on="n0"), job("high", "q", 2, priority=75)))
    api = Api(stage, low_0=[refusal(FORBIDDEN)])
    assert carry_out(stage, api, patience=10.0).given_up
    assert api.written.count("evict low-0") == 1


def test_who_is_gone_or_replaced_need_not_be_evicted() -> None:
    stage = two_victims()
    told = carry_out(stage, Api(stage, low0_0=[refusal(GONE)], low1_0=[refusal(CONFLICT)]))
    assert told.outcomes == {"low0-0": "gone", "low1-0": "gone"}
    assert not told.given_up


def test_an_eviction_without_an_answer_is_repeated_and_never_taken_for_refused() -> None:
    stage = two_victims()
    api = Api(stage, low0_0=[ConnectionLostError("reset"), refusal(503)])
    told = carry_out(stage, api)
    assert api.written.count("evict low0-0") == 3
    assert told.outcomes == {"low0-0": "evicted", "low1-0": "evicted"}
    assert not told.given_up


def test_nobody_else_is_evicted_once_the_pod_that_it_is_for_is_gone(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    stage = two_victims()
    api = Api(stage)

    def before(written: str) -> None:
        if written == "evict low1-0":
            stage.leave("high-0")
            asyncio.get_running_loop().call_later(0.1, stage.cycle)

    api.before = before
    told = carry_out(stage, api)
    assert told.outcomes == {"low1-0": "evicted", "low0-0": "spared"}
    assert stage.cluster.leaving == {"default/low1-0"}


def test_nothing_is_written_without_leading() -> None:
    stage = two_victims()
    api = Api(stage)
    told = carry_out(stage, api, fence=lambda: (1.0, 2.0))
    assert api.written == []
    assert told.given_up == ["nothing is written: this replica leads no longer"]
    assert stage.cluster.leaving == set()


def test_an_eviction_that_never_took_effect_is_forgotten_after_the_plan() -> None:
    stage = two_victims()
    stage.cycle()
    victim = stage.victim("low0-0")
    victim.state = ASKED
    stage.cycle_runner.give_up(stage.plans[0], [], 0.0)
    assert "default/low0-0" in stage.cluster.leaving, "nobody knows yet"
    stage.cycle_runner.nominations.let_stay(victim)
    assert stage.cluster.leaving == set()


def test_who_stays_although_others_may_have_counted_on_its_going_lets_everybody_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan ends while nobody knows whether an eviction has happened."""
    monkeypatch.setattr(module, "_LATE_SECONDS", 0.02)
    stage = two_victims()
    api = Api(stage, low0_0=[ConnectionLostError("no answer")])

    def before(written: str) -> None:
        if written == "evict low0-0":
            stage.cycle_runner.give_up(stage.plans[0], [], 0.0)

    api.before = before
    told = carry_out(stage, api)
    assert "default/low0-0" not in stage.cluster.leaving
    assert told.looks == 1

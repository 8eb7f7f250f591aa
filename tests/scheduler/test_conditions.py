"""Conditions of pods that wait: what is written, and how seldom."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests import virtualtime
from tests.scenario import pod
from tonnage.cluster.task import Task, make_task
from tonnage.devices.catalog import default_vendors
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.leaderelection.fence import FencedError
from tonnage.model.pod import SchedulingGate
from tonnage.scheduler import conditions
from tonnage.scheduler.conditions import Conditions


class Api:
    def __init__(self, *planned: Exception) -> None:
        self.planned = list(planned)
        self.written: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, *, body: Any, type_: str, timeout: float) -> bytes:
        self.written.append((path, body))
        if self.planned:
            raise self.planned.pop(0)
        return b"{}"


def task(name: str = "p", gates: bool = False) -> Task:
    made = pod(name, 1)
    if gates:
        gated = msgspec.structs.replace(made.spec, schedulingGates=[SchedulingGate("later")])
        made = msgspec.structs.replace(made, spec=gated)
    return make_task(made, default_vendors())


def run(api: Api, *steps: Callable[[Conditions], None], per_second: float = 1000.0, burst: int = 100) -> None:
    """Tell one thing after the other, each when all before it is written."""

    async def main() -> None:
        made = Conditions(api, lambda: 0.0, per_second, burst)  # type: ignore[arg-type]
        running = asyncio.create_task(made.run())
        for step in steps:
            step(made)
            await asyncio.sleep(conditions.SETTLING + 0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtualtime.run(main())


def messages(api: Api) -> list[str]:
    return [body["status"]["conditions"][0]["message"] for _, body in api.written]


def test_the_reason_is_written_once_and_again_when_it_changes() -> None:
    api = Api()
    run(api, *(lambda made, words=words: made.set_unschedulable(task(), words) for words in ("one", "one", "two")))
    assert messages(api) == ["one", "two"]
    path, body = api.written[0]
    assert path == "/api/v1/namespaces/default/pods/p/status"
    assert body["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "one",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]
    assert "lastTransitionTime" not in api.written[1][1]["status"]["conditions"][0], "the pod waited before"


def test_what_does_not_last_is_not_written() -> None:
    def tell(made: Conditions) -> None:
        made.set_unschedulable(task(), "one")
        made.set_unschedulable(task(), "two")
        made.set_unschedulable(task("q"), "placed a moment later")
        made.forget("default/q")

    api = Api()
    run(api, tell)
    assert messages(api) == ["two"]


def test_one_that_comes_to_lead_again_says_everything_anew() -> None:
    def forget(made: Conditions) -> None:
        made.set_unschedulable(task("q"), "not to be said any more")
        made.forget_all()

    api = Api()
    run(
        api,
        lambda made: made.set_unschedulable(task(), "one"),
        forget,
        lambda made: made.set_unschedulable(task(), "one"),
    )
    assert messages(api) == ["one", "one"]


def test_gated_pods_are_not_spoken_of() -> None:
    api = Api()
    run(api, lambda made: made.set_unschedulable(task(gates=True), "waits"))
    assert api.written == []


def test_a_condition_that_could_not_be_written_is_written_the_next_time() -> None:
    api = Api(StatusError(500, "InternalError", ""))
    run(api, lambda made: made.set_unschedulable(task(), "one"), lambda made: made.set_unschedulable(task(), "one"))
    assert messages(api) == ["one", "one"]


def test_a_condition_that_could_not_be_written_is_written_without_being_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "AGAIN", 0.05)
    api = Api(StatusError(429, "TooManyRequests", ""), ConnectionLostError("no answer"))
    run(
        api, lambda made: made.set_unschedulable(task(), "one"), lambda made: None, lambda made: None, lambda made: None
    )
    assert messages(api) == ["one", "one", "one"]
    api = Api(StatusError(404, "NotFound", "it is gone"))
    run(api, lambda made: made.set_unschedulable(task(), "one"), lambda made: None)
    assert messages(api) == ["one"]


def test_nothing_is_said_again_of_a_pod_that_has_a_place_or_by_one_that_leads_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "AGAIN", 0.3)
    failures = (StatusError(500, "InternalError", ""), FencedError("another leads"))
    for failure, then in zip(failures, (lambda made: made.forget("default/p"), lambda made: None), strict=True):
        api = Api(failure)
        run(api, lambda made: made.set_unschedulable(task(), "one"), then, lambda made: None)
        assert messages(api) == ["one"]


def test_many_are_written_at_a_limited_rate() -> None:
    api = Api()
    run(
        api,
        lambda made: [made.set_unschedulable(task(f"p{number}"), "full") for number in range(10)],
        per_second=1.0,
        burst=3,
    )  # type: ignore[arg-type, func-returns-value]
    assert len(api.written) == 3


def test_where_much_is_to_be_said_each_reason_comes_first_and_then_the_oldest_and_the_latest_in_turn() -> None:
    api = Api()

    def tell(made: Conditions) -> None:
        for number in range(6):
            made.set_unschedulable(task(f"p{number}"), "too large")
        made.set_unschedulable(task("odd"), "no number")
        made.set_unschedulable(task("gone"), "no number")
        made.forget("default/gone")

    run(api, tell)
    assert [path.split("/")[-2] for path, _ in api.written] == ["p0", "odd", "p1", "p5", "p2", "p4", "p3"]


def test_a_pod_with_another_reason_keeps_its_place() -> None:
    api = Api()

    def tell(made: Conditions) -> None:
        for number in range(3):
            made.set_unschedulable(task(f"p{number}"), "8 nodes are full")
        for number in range(3):
            made.set_unschedulable(task(f"p{number}"), "9 nodes are full")
        made.set_unschedulable(task("q"), "8 nodes are full")

    run(api, tell)
    assert [path.split("/")[-2] for path, _ in api.written] == ["p0", "q", "p1", "p2"]
    assert messages(api) == ["9 nodes are full", "8 nodes are full", "9 nodes are full", "9 nodes are full"]

"""How pods that are to be called are written to, and what is counted of it."""

import asyncio
import json

import msgspec
import pytest

from tests.extender.recording import Api
from tests.scenario import node, pod, running, scenario
from tests.virtualtime import run
from tests.waiting import until_true
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.pending import PendingPods
from tonnage.extender.protocol import FilterArgs, read
from tonnage.extender.requeue import FAILED, GONE, PLACED, WRITTEN, Requeue
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.resource import Change
from tonnage.model.annotations import REQUEUED
from tonnage.plugins.defaults import default_plugins


class Server:
    """One card that `x` holds, and an API server that takes notes."""

    def __init__(self, *planned):
        self.cluster = scenario(node("a", gpus=1), running("x", on="a", memory=8000))
        plugins = default_plugins()
        session = Session(self.cluster, plugins)
        self.reservations = Reservations(session, plugins)
        self.api = Api(*planned)
        self.counted = []
        clock = asyncio.get_running_loop().time
        pending = PendingPods(session, self.reservations, clock)
        self.requeue = Requeue(self.api, pending, lambda: 1700000000.9, clock, self.counted.append)
        self.task = asyncio.create_task(self.requeue.run())

    def ask(self, name="p", **more):
        made = pod(name, 1, memory=2000, **more)
        made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=f"uid-{name}"))
        if f"default/{name}" not in self.cluster.reserved:
            self.cluster.upsert_pod(made)
        document = {"Pod": msgspec.to_builtins(made), "NodeNames": ["a"]}
        args = read(json.dumps(document).encode(), FilterArgs)
        self.requeue.filtered(args, self.reservations.filter(args, 0))
        return made

    async def until_told(self, *outcomes):
        await until_true(lambda: self.counted == list(outcomes))


def played(scene, *planned):
    async def main():
        server = Server(*planned)
        try:
            await scene(server)
            assert not server.task.done()
        finally:
            server.task.cancel()
            await asyncio.gather(server.task, return_exceptions=True)

    run(main())


def test_a_pod_is_called_by_an_annotation_and_nothing_else_of_it_changes():
    async def scene(server):
        server.ask()
        server.cluster.remove_pod("default/x")
        await server.until_told(WRITTEN)
        (write,) = server.api.written
        annotations = {REQUEUED: "2023-11-14T22:13:20Z"}
        assert write == (
            "PATCH",
            "/api/v1/namespaces/default/pods/p",
            {"metadata": {"uid": "uid-p", "annotations": annotations}},
        )
        server.ask()
        await server.until_told(WRITTEN, PLACED)

    played(scene)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (StatusError(404, "NotFound", "no such pod"), GONE),
        (StatusError(409, "Conflict", "another uid"), GONE),
        (StatusError(403, "Forbidden", "not you"), FAILED),
        (ConnectionLostError("reset"), FAILED),
    ],
)
def test_a_write_that_fails_is_counted_and_ends_nothing(answer, outcome):
    async def scene(server):
        server.ask()
        server.cluster.remove_pod("default/x")
        await server.until_told(outcome)
        server.ask()
        assert server.counted == [outcome, PLACED]

    played(scene, answer)


def test_nothing_runs_while_nobody_waits(monkeypatch):
    looks = []
    monkeypatch.setattr(PendingPods, "to_requeue", lambda self, now: looks.append(now) or [])

    async def scene(server):
        await asyncio.sleep(0.5)
        assert looks == []
        made = server.ask()
        await until_true(lambda: bool(looks))
        server.requeue.seen(Change("default/p", made, is_gone=True))
        await asyncio.sleep(0.3)
        looks.clear()
        await asyncio.sleep(0.5)
        assert looks == []

    played(scene)


def test_a_mistake_in_a_trial_does_not_end_the_others(monkeypatch):
    real, failures = PendingPods.to_requeue, []

    def look(self, now):
        if len(failures) < 2:
            failures.append(now)
            raise RuntimeError("a mistake")
        return real(self, now)

    monkeypatch.setattr(PendingPods, "to_requeue", look)

    async def scene(server):
        server.ask()
        server.cluster.remove_pod("default/x")
        await server.until_told(WRITTEN)

    played(scene)


def test_only_who_decides_calls():
    async def scene(server):
        server.ask()
        server.requeue.end()
        server.cluster.remove_pod("default/x")
        await asyncio.sleep(0.7)
        assert server.api.written == []
        server.requeue.begin("")
        await server.until_told(WRITTEN)

    played(scene)


def test_a_pod_that_somebody_bound_is_not_called():
    async def scene(server):
        server.ask()
        server.requeue.seen(Change("default/p", pod("p", 1, on="a")))
        server.cluster.remove_pod("default/x")
        await asyncio.sleep(0.7)
        assert server.api.written == []

    played(scene)


def test_calls_are_counted_by_what_became_of_them():
    metrics = ExtenderMetrics()
    for outcome in (WRITTEN, WRITTEN, FAILED, PLACED):
        metrics.requeued(outcome)
    value = metrics.registry.get_sample_value
    assert value("tonnage_requeue_writes_total", {"outcome": WRITTEN}) == 2
    assert value("tonnage_requeue_writes_total", {"outcome": FAILED}) == 1
    assert value("tonnage_pods_requeued_total") == 1

"""Metrics about work under way: reservations and their age, binds, conflicts, locks, handshakes, plugins, the watch."""

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.extender.asking import asked, named
from tests.extender.binding import Api, World
from tests.extender.failing import Breaks
from tests.extender.metering import parts_of, reflector
from tests.extender.recording import parsed, values
from tests.scenario import node, running, scenario
from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.metrics import ExtenderState
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import Reservations, ReservationState
from tonnage.framework.session import Session
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.model.annotations import LOCK
from tonnage.model.wire import encode
from tonnage.plugins.defaults import default_plugins

CONFLICT = StatusError(409, "Conflict", "pod is already assigned to a node")
LOST = ConnectionLostError("reset")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    original = asyncio.sleep
    monkeypatch.setattr("tonnage.extender.binding.asyncio.sleep", lambda seconds: original(0))


def told(parts, now=0.0):
    registry = CollectorRegistry()
    registry.register(ExtenderState(parts, lambda: now))
    return parsed(generate_latest(registry).decode())


def by_outcome(parts, name):
    return {outcome: value for (outcome,), value in values(told(parts)[name], "outcome").items()}


# -- places


def test_the_age_of_the_oldest_place_is_told_by_its_state():
    parts = parts_of(scenario(node("a", gpus=4)))
    for name, when in (("p", 10), ("q", 12), ("r", 15)):
        parts.reservations.filter(asked(named(name, gpus=1), "a"), when)
    parts.reservations.reservation("default/q", "1").state = ReservationState.BINDING
    ages = values(told(parts, now=30)["tonnage_reservation_oldest_age_seconds"], "state")
    assert ages == {("held",): 20, ("binding",): 18, ("bound",): 0}


def test_places_that_nobody_binds_are_counted_when_they_are_given_up():
    parts = parts_of(scenario(node("a", gpus=4)))
    parts.reservations.filter(asked(named("p", gpus=1), "a"), 0)
    parts.reservations.filter(asked(named("q", gpus=1), "a"), 55)
    parts.reservations.expire(61)
    assert told(parts)["tonnage_reservations_expired_total"] == {frozenset(): 1}
    parts.reservations.expire(62)
    assert told(parts)["tonnage_reservations_expired_total"] == {frozenset(): 1}


# -- binds


def bound_by(world):
    """Bind, wait for what goes on behind it, and what metrics find."""
    parts = parts_of(world.cluster)
    parts.binder = world.binder()

    async def main():
        with suppress(BindError, BindUnknownError):
            await parts.binder.bind(world.args)
        await parts.binder.close()

    asyncio.run(main())
    return parts


class Watched(World):
    """A world in which the pod `p` was decided, with its bind."""

    def binder(self):
        self.filter()
        return Binder(self.api, self.cluster, self.server, self.handovers, lambda: self.now, self._clock)

    def _clock(self):
        self.now += 3.0
        return self.now

    @property
    def args(self):
        return BindArgs("p", "default", "1", "a")


NONE = {"refused": 0, "found_bound": 0, "found_not_bound": 0}


def is_like(on):
    return encode(named("p", gpus=1, on=on))


@pytest.mark.parametrize(
    ("answers", "found", "outcome"),
    [
        ([None], {}, {}),
        ([CONFLICT], {}, {"refused": 1}),
        ([StatusError(403, "Forbidden", "no")], {}, {}),
        ([LOST, CONFLICT], {"p": is_like("a")}, {"found_bound": 1}),
        ([LOST, CONFLICT], {"p": is_like(None)}, {"found_not_bound": 1}),
        ([LOST, CONFLICT], {}, {"found_not_bound": 1}),
        ([LOST] * 4, {"p": is_like("a")}, {"found_bound": 1}),
        ([LOST, None], {}, {}),
    ],
)
def test_what_became_of_conflicts_and_of_binds_without_an_answer_is_counted(answers, found, outcome):
    parts = bound_by(Watched(api=Api(*answers, pods=found)))
    assert by_outcome(parts, "tonnage_bind_conflicts_total") == NONE | outcome


def test_a_bind_whose_answer_was_lost_and_that_the_watch_shows_was_bound():
    world = Watched(api=Api(*[LOST] * 4, pods={"p": is_like(None)}))
    get = world.api.get

    async def shows(path, query=None, timeout=0):
        world.cluster.upsert_pod(running("p", on="a", memory=1000))
        return await get(path)

    world.api.get = shows
    assert by_outcome(bound_by(world), "tonnage_bind_conflicts_total") == NONE | {"found_bound": 1}


@pytest.mark.parametrize(
    ("lock", "answers", "outcome"),
    [("", [None], "taken"), ("2026-01-01T00:00:00Z,team,dead", [None], "taken_over"), ("", [LOST], "not_taken")],
)
def test_locks_of_nodes_are_counted(lock, answers, outcome):
    notes = {LOCK: lock} if lock else {}
    world = Watched(
        node("a", gpus=1, annotations=notes), running("other", on="a", memory=10, phase="Pending"), api=Api(*answers)
    )
    parts = bound_by(world)
    assert by_outcome(parts, "tonnage_node_locks_total") == {"taken": 0, "taken_over": 0, "not_taken": 0} | {outcome: 1}


def test_binds_on_their_way_and_the_writes_behind_them_are_told():
    world = Watched()
    parts = parts_of(world.cluster)
    parts.binder = binder = world.binder()
    answer, label = asyncio.Event(), asyncio.Event()

    async def request(method, path, **more):
        await (answer if path.endswith("/binding") else label).wait()
        return b"{}"

    world.api.request = request

    def now():
        found = told(parts)
        return [found[f"tonnage_{name}"][frozenset()] for name in ("binds_in_flight", "bind_writes_queued")]

    async def main():
        seen = [now()]
        task = asyncio.create_task(binder.bind(world.args))
        await asyncio.sleep(0)
        seen.append(now())
        answer.set()
        await task
        seen.append(now())
        label.set()
        await binder.close()
        return [*seen, now()]

    assert asyncio.run(main()) == [[0, 0], [1, 0], [0, 1], [0, 0]]


# -- device plugins, plugins of the scheduler, the watch


def test_handshakes_are_counted_by_what_is_written():
    parts = parts_of(scenario(node("a", gpus=1, annotations={"hami.io/node-handshake": "Reported now"})))
    notes = [{"x": "Requesting_now"}, {"x": "Deleted_now"}, {"x": "Requesting_now"}]
    parts.handshakes = Handshakes(Api(None, None, LOST), parts.cluster, lambda: 0.0, lambda: 0.5)

    async def main():
        for each in notes:
            await parts.handshakes._write(parts.cluster.nodes["a"].node, each)

    asyncio.run(main())
    assert by_outcome(parts, "tonnage_handshakes_total") == {"asked": 1, "written_off": 1, "not_written": 1}


def test_a_plugin_that_fails_is_counted_and_the_pod_is_placed_without_it():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1))
    plugins = [*default_plugins(), Breaks()]
    parts = parts_of(cluster)
    parts.session = Session(cluster, plugins)
    parts.reservations = Reservations(parts.session, plugins)
    assert parts.reservations.filter(asked(named("p", gpus=1), "a", "b"), 0).result.node_names
    failures = values(told(parts)["tonnage_plugin_failures_total"], "plugin")
    assert failures.pop(("breaks",)) >= 1
    assert set(failures.values()) == {0}


def test_the_silence_of_the_api_server_is_told_by_kind():
    parts = parts_of(scenario(), Node=reflector(heard=95.0), Pod=reflector(heard=100.0))
    assert values(told(parts, now=100.5)["tonnage_informer_silence_seconds"], "kind") == {("Node",): 5.5, ("Pod",): 0.5}

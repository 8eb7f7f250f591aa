"""Binds of places whose node or card goes, falls ill or is cordoned between filter and bind."""

import asyncio

import msgspec
import pytest

from tests.extender.asking import asked, named
from tests.kube.live import run
from tests.scenario import REGISTER, gpu, node, pod, running, scenario, usage
from tonnage.binder.binding import BindError
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import Reservations, ReservationState
from tonnage.framework.session import Session
from tonnage.model.node import NodeSpec
from tonnage.model.selection import Toleration
from tonnage.plugins.defaults import default_plugins


class Server:
    """Says yes to everything."""

    def __init__(self):
        self.asked = []

    async def request(self, method, path, **_):
        self.asked.append((method, path))
        return b"{}"

    @property
    def bindings(self):
        return [path for _, path in self.asked if path.endswith("/binding")]


class Extender:
    def __init__(self, *objects):
        self.cluster = scenario(*objects)
        plugins = default_plugins()
        self.server = Server()
        self.reservations = Reservations(Session(self.cluster, plugins), plugins)
        self.handovers = HandoverQueue(lambda: 0.0)
        self.binder = Binder(self.server, self.cluster, self.reservations, self.handovers, lambda: 0.0, lambda: 0.0)

    def filter(self, name="p", *nodes, **wants):
        wanted = named(name, **(wants or {"gpus": 1, "memory": 1000}))
        self.cluster.upsert_pod(wanted)
        return self.reservations.filter(asked(wanted, *(nodes or ("a",))), 0).result.node_names

    async def bind(self, name="p", on="a"):
        try:
            await self.binder.bind(BindArgs(name, "default", "1", on))
        finally:
            await self.binder.close()


def a_node(*uuids, memory=8000, **more):
    return node("a", gpus=[gpu(uuid, index=i, memory=memory) for i, uuid in enumerate(uuids)], **more)


def assert_refused(extender, message, name="p"):
    with pytest.raises(BindError, match=message):
        run(extender.bind(name))
    assert extender.server.bindings == []
    assert not extender.cluster.reserved
    assert f"default/{name}" in extender.cluster.waiting
    assert extender.reservations.reservation(f"default/{name}", "1") is None
    assert extender.handovers.holder("a") is None
    assert extender.cluster.columns.foreign_total == 0


def test_what_stays_as_it_was_is_bound():
    extender = Extender(a_node("u", "v"))
    assert extender.filter() == ["a"]
    run(extender.bind())
    assert extender.server.bindings == ["/api/v1/namespaces/default/pods/p/binding"]


def test_a_node_that_is_gone_is_not_bound_to():
    extender = Extender(a_node("u"))
    extender.filter()
    extender.cluster.remove_node("a")
    assert_refused(extender, "default/p is not bound: node a is not known")
    extender.cluster.upsert_node(a_node("u"))
    assert usage(extender.cluster, "a") == [(0, 0, 0)]
    assert extender.filter() == ["a"]


def test_a_node_that_is_gone_and_was_never_decided_for_is_not_bound_to():
    extender = Extender(a_node("u"))
    extender.cluster.upsert_pod(named("p", gpus=1))
    extender.cluster.remove_node("a")
    assert_refused(extender, "node a is not known")


def test_a_node_that_returns_before_the_bind_keeps_the_place():
    extender = Extender(a_node("u"))
    extender.filter()
    extender.cluster.remove_node("a")
    extender.cluster.upsert_node(a_node("u"))
    run(extender.bind())
    assert len(extender.server.bindings) == 1


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (lambda: a_node("u"), "NVIDIA card v of a is gone"),
        (lambda: node("a"), "NVIDIA card v of a is gone"),
        (lambda: a_node("u", "v", annotations={REGISTER: "rubbish"}), "NVIDIA card v of a is gone"),
        (lambda: a_node("u", "v", annotations={"hami.io/node-handshake": "Deleted_x"}), "NVIDIA card v of a is gone"),
        (lambda: node("a", gpus=[gpu("u"), gpu("v", index=1, healthy=False)]), "card v of a is unhealthy"),
        (lambda: a_node("u", "v", annotations={"hami.io/device-cordon": "v"}), "card v of a is cordoned"),
        (lambda: a_node("u", "v", memory=500), "card v of a has less room than when the place was decided"),
    ],
)
def test_a_card_that_is_not_what_it_was_is_not_given(after, why):
    extender = Extender(a_node("u", "v"))
    extender.filter()
    extender.cluster.upsert_node(after())
    assert_refused(extender, why)
    extender.cluster.upsert_node(a_node("u", "v"))
    assert usage(extender.cluster, "a") == [(0, 0, 0), (0, 0, 0)]


def test_trouble_with_another_card_does_not_matter():
    extender = Extender(a_node("u", "v"))
    extender.filter()
    extender.cluster.upsert_node(node("a", gpus=[gpu("u", healthy=False), gpu("v", index=1)]))
    run(extender.bind())
    assert len(extender.server.bindings) == 1


CORDONED = NodeSpec(unschedulable=True)


def test_a_node_that_is_cordoned_is_not_bound_to():
    extender = Extender(a_node("u"))
    extender.filter()
    extender.cluster.upsert_node(msgspec.structs.replace(a_node("u"), spec=CORDONED))
    assert_refused(extender, "default/p is not bound: a is cordoned")


def test_a_node_that_is_cordoned_is_bound_to_by_a_pod_that_tolerates_it():
    extender = Extender(a_node("u"))
    tolerated = [Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")]
    assert extender.filter(gpus=1, memory=1000, tolerations=tolerated) == ["a"]
    extender.cluster.upsert_node(msgspec.structs.replace(a_node("u"), spec=CORDONED))
    run(extender.bind())
    assert len(extender.server.bindings) == 1


def test_a_node_that_is_cordoned_while_the_bind_waits_for_its_turn_is_not_bound_to():
    extender = Extender(a_node("u"))
    extender.filter()

    async def main():
        assert await extender.handovers.acquire("a", pod("before"), 1)
        binding = asyncio.create_task(extender.bind())
        while not extender.handovers.waiting:
            await asyncio.sleep(0)
        extender.cluster.upsert_node(msgspec.structs.replace(a_node("u"), spec=CORDONED))
        extender.handovers.release("a", pod("before"))
        with pytest.raises(BindError, match="default/p is not bound: a is cordoned"):
            await binding

    run(main())
    assert extender.server.bindings == []
    assert not extender.cluster.reserved


def test_a_card_that_somebody_else_filled_meanwhile_is_not_given():
    extender = Extender(a_node("u"))
    extender.filter()
    extender.cluster.upsert_pod(running("x", on="a", gpu="u", memory=7500))
    assert_refused(extender, "card u of a has less room")
    assert usage(extender.cluster, "a") == [(1, 7500, 0)]


def test_a_card_that_goes_while_the_bind_waits_for_its_turn_is_not_given():
    extender = Extender(a_node("u"))
    extender.filter()

    async def main():
        assert await extender.handovers.acquire("a", pod("before"), 1)
        binding = asyncio.create_task(extender.bind())
        while not extender.handovers.waiting:
            await asyncio.sleep(0)
        assert extender.reservations.reservation("default/p", "1").state is ReservationState.BINDING
        extender.cluster.upsert_node(node("a"))
        extender.handovers.release("a", pod("before"))
        with pytest.raises(BindError, match="card u of a is gone"):
            await binding

    run(main())
    assert extender.server.bindings == []
    assert not extender.cluster.reserved
    assert extender.handovers.holder("a") is None, "the next one's turn"


def test_instances_of_a_card_in_parts_may_add_up_to_more_compute_than_the_card_has():
    profile = {
        "name": "1g.5gb",
        "memoryMB": 1000,
        "core": 15,
        "sliceCount": 1,
        "placements": [{"start": start, "size": 1} for start in range(7)],
    }
    extender = Extender(node("a", gpus=[gpu("u", count=7, mode="mig", migProfiles=[profile])]))
    for number in range(7):
        assert extender.filter(f"p{number}", gpus=1, memory=1000) == ["a"]
    extender.handovers.acquire = lambda *_: asyncio.sleep(0, True)  # no plugin answers here
    for number in range(7):
        run(extender.bind(f"p{number}"))
    assert len(extender.server.bindings) == 7

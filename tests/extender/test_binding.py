"""Bind: what is written, and what becomes of the place when the API server refuses, fails or says nothing."""

import asyncio
import json

import pytest

from tests.extender.asking import asked, named
from tests.extender.binding import Api, World
from tests.scenario import node, pod, running
from tonnage.binder.binding import BindError, BindUnknownError
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.protocol import BindArgs
from tonnage.extender.reservations import ReservationState
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.kinds import NODES
from tonnage.kube.resource import Change
from tonnage.model.pod import Container, ResourceRequirements
from tonnage.model.wire import encode


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    async def at_once(seconds):
        for _ in range(3):
            await original(0)

    original = asyncio.sleep
    monkeypatch.setattr("tonnage.extender.binding.asyncio.sleep", at_once)


def test_one_write_gives_the_pod_its_node_and_its_devices():
    world = World().filter()
    decision = world.bind()
    assert decision.node == "a"
    (written, label) = world.api.written
    assert written[:2] == ("POST", "/api/v1/namespaces/default/pods/p/binding")
    assert json.loads(encode(written[2])) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "1",
            "annotations": {
                "hami.io/vgpu-node": "a",
                "hami.io/vgpu-time": "1700000000",
                "hami.io/bind-phase": "allocating",
                "hami.io/bind-time": "1700000000",
                "hami.io/vgpu-devices-to-allocate": "a/0,NVIDIA,1000,0:;",
                "hami.io/vgpu-devices-allocated": "a/0,NVIDIA,1000,0:;",
            },
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
    }
    assert label == (
        "PATCH",
        "/api/v1/namespaces/default/pods/p",
        {"metadata": {"uid": "1", "labels": {"hami.io/vgpu-node": "a"}}},
    )
    assert world.kept is ReservationState.BOUND


def test_a_definite_refusal_frees_the_place_at_once():
    world = World(api=Api(StatusError(404, "NotFound", "the pod is gone"))).filter()
    with pytest.raises(BindError, match="refuses to bind default/p to a: 404 NotFound: the pod is gone"):
        world.bind()
    assert world.state is None
    assert not world.cluster.reserved
    assert world.handovers.holder("a") is None
    assert len(world.api.written) == 1


@pytest.mark.parametrize("failure", [ConnectionLostError("reset"), StatusError(503, "Unavailable", "")])
def test_an_unknown_outcome_is_tried_again(failure):
    world = World(api=Api(failure)).filter()
    assert world.bind().node == "a"
    assert len(world.bindings()) == 2
    assert world.bindings()[0] == world.bindings()[1]


def shown(**more):
    return encode(named("p", gpus=1, memory=1000, **more))


def test_a_conflict_after_an_unknown_outcome_may_be_our_own_success():
    api = Api(ConnectionLostError("reset"), StatusError(409, "Conflict", "already assigned"), pods={"p": shown(on="a")})
    world = World(api=api).filter()
    with pytest.raises(BindUnknownError, match="not known yet"):
        world.bind()
    assert world.kept is ReservationState.BINDING
    assert world.state.state is ReservationState.BOUND
    assert list(world.cluster.reserved) == ["default/p"]


def test_a_conflict_at_the_first_try_is_a_refusal():
    world = World(api=Api(StatusError(409, "Conflict", "already assigned"))).filter()
    with pytest.raises(BindError):
        world.bind()
    assert not world.cluster.reserved


def test_while_nobody_knows_the_place_is_kept():
    world = World(api=Api(*[ConnectionLostError("time-out")] * 4)).filter()
    world.api.pods = {"p": shown()}
    with pytest.raises(BindUnknownError):
        world.bind()
    assert world.kept is ReservationState.BINDING
    assert world.server.expire(1e12) == []


@pytest.mark.parametrize("status", [401, 403, 422, 429])
def test_a_refusal_of_a_later_try_says_nothing_about_the_first(status):
    answers = [ConnectionLostError("reset"), *[StatusError(status, "No", "")] * 3]
    world = World(api=Api(*answers, pods={"p": shown(on="a")})).filter()
    with pytest.raises(BindUnknownError):
        world.bind()
    assert world.kept is ReservationState.BINDING
    assert list(world.cluster.reserved) == ["default/p"]


def test_a_pod_that_is_gone_at_a_later_try_is_not_bound():
    world = World(api=Api(ConnectionLostError("reset"), StatusError(404, "NotFound", ""))).filter()
    with pytest.raises(BindError):
        world.bind()
    assert not world.cluster.reserved


def test_a_place_goes_when_the_pod_turns_out_to_be_gone():
    world = World(api=Api(*[ConnectionLostError("time-out")] * 4)).filter()
    with pytest.raises(BindUnknownError):
        world.bind()
    assert world.server.reservation("default/p", "1") is None
    assert not world.cluster.reserved


# -- without a place


def test_a_bind_without_a_place_decides_anew_on_its_node():
    world = World()
    assert world.bind().node == "a"
    assert len(world.bindings()) == 1


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ({}, "it is gone .404"),
        ({"p": shown(uid="2")}, "is another pod now"),
        ({"p": shown(on="b")}, "is bound to b already"),
        ({"p": b"nonsense"}, "cannot be read"),
    ],
)
def test_a_pod_that_cannot_be_bound_is_refused_in_words(pods, words):
    world = World(api=Api(pods=pods), is_shown=False)
    with pytest.raises(BindError, match=words):
        world.bind()
    assert not world.api.written


def test_a_bind_to_a_node_that_has_no_room_is_refused_with_the_reason():
    world = World(running("x", on="a", memory=8000), api=Api(pods={"p": shown()}))
    with pytest.raises(BindError, match="does not fit on a: 0 of 1 nodes fit: 1 CardInsufficientMemory"):
        world.bind()


def test_a_second_bind_of_the_same_pod_waits_for_the_first():
    world = World().filter()
    world.server.reservation("default/p", "1").state = ReservationState.BINDING
    with pytest.raises(BindError, match="on its way already"):
        world.bind()
    assert list(world.cluster.reserved) == ["default/p"]


# -- the node's lock


def test_the_lock_is_left_out_while_no_other_sharing_pod_is_pending_there():
    world = World(running("x", on="a", memory=10), pod("cpu", on="a", cpu="1", phase="Pending")).filter()
    world.bind()
    assert [method for method, *_ in world.api.written] == ["POST", "PATCH"]


def test_the_lock_names_the_pod_before_its_binding_is_written():
    world = World(running("x", on="a", memory=10, phase="Pending")).filter()
    world.bind()
    (lock, binding, _) = world.api.written
    assert lock == (
        "PATCH",
        "/api/v1/nodes/a",
        {"metadata": {"annotations": {"hami.io/mutex.lock": "2023-11-14T22:13:20Z,default,p"}}},
    )
    assert binding[0] == "POST"


VCORE, VMEMORY, VMLU = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/vmlu"


def with_mlus(*things):
    """A world whose node has two MLUs, and a pod that asks for a part of one."""
    world = World(*things, wanted=named("p", **{VMLU: 1, VCORE: 10, VMEMORY: 8}))
    world.cluster.upsert_node(node("a", gpus=1, capacity={VCORE: 200, VMEMORY: 128, VMLU: 200}))
    return world.filter()


def test_a_pod_with_mlus_takes_the_lock_that_cambricons_plugin_removes():
    world = with_mlus()
    world.bind()
    (lock, binding, _) = world.api.written
    assert lock[1:] == (
        "/api/v1/nodes/a",
        {"metadata": {"annotations": {"cambricon.com/dsmlu.lock": "2023-11-14T22:13:20Z"}}},
    )
    assert binding[0] == "POST"


def test_both_locks_are_one_write():
    world = with_mlus(running("x", on="a", memory=10, phase="Pending"))
    world.bind()
    assert world.api.written[0][2]["metadata"]["annotations"] == {
        "cambricon.com/dsmlu.lock": "2023-11-14T22:13:20Z",
        "hami.io/mutex.lock": "2023-11-14T22:13:20Z,default,p",
    }


@pytest.mark.parametrize("key", ["hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-node"])
def test_the_lock_names_the_pod_while_any_pending_pod_bears_what_a_device_plugin_believes(key):
    """A tenant's pod without device requests says that it is the one that the plugin is asked about."""
    world = World(pod("cpu", on="a", cpu="1", phase="Pending", annotations={key: "a"})).filter()
    world.bind()
    assert [method for method, *_ in world.api.written] == ["PATCH", "POST", "PATCH"]
    assert "hami.io/mutex.lock" in world.api.written[0][2]["metadata"]["annotations"]


def test_a_lock_that_a_dead_process_left_is_taken_over():
    world = World()
    world.cluster.upsert_node(
        node("a", gpus=1, annotations={"hami.io/mutex.lock": "2023-11-14T20:00:00Z,default,forgotten"})
    )
    world.filter().bind()
    assert world.api.written[0][1] == "/api/v1/nodes/a"


def test_without_the_lock_nothing_is_bound():
    world = World(running("x", on="a", memory=10, phase="Pending"), api=Api(StatusError(403, "Forbidden", ""))).filter()
    with pytest.raises(BindError, match="the lock of a cannot be taken for default/p"):
        world.bind()
    assert not world.bindings()
    assert not world.cluster.reserved


def bind_two(world, *shown):
    """Bind `p`, which is locked and then refused because it is gone, and after it `q`; in between nodes are shown."""

    async def main():
        binder = Binder(world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now)
        with pytest.raises(BindError):
            await binder.bind(BindArgs("p", "default", "1", "a"))
        for one in shown:
            world.cluster.upsert_node(one)
            binder.node_locks.seen(NODES, [Change("a", one)])
        world.cluster.upsert_pod(running("x", on="a", memory=10))
        world.cluster.upsert_pod(named("q", uid="2", gpus=1, memory=1000))
        decided = world.server.filter(asked(named("q", uid="2", gpus=1, memory=1000), "a"), world.now)
        assert decided.result.node_names == ["a"]
        await binder.bind(BindArgs("q", "default", "2", "a"))
        await binder.close()
        return [
            body["metadata"]["annotations"]["hami.io/mutex.lock"]
            for _, path, body in world.api.written
            if "nodes" in path
        ]

    return asyncio.run(main())


LOCKED = "2023-11-14T22:13:20Z,default,p"


@pytest.mark.parametrize("failures", [(None, StatusError(404, "NotFound", "")), (ConnectionLostError("reset"),)])
def test_a_lock_of_its_own_that_the_watch_has_not_shown_yet_is_taken_over(failures):
    world = World(running("x", on="a", memory=10, phase="Pending"), api=Api(*failures)).filter()
    assert bind_two(world, node("a", gpus=1)) == [LOCKED, "2023-11-14T22:13:20Z,default,q"]


def test_a_lock_that_was_shown_and_is_gone_again_need_not_be_taken_over():
    world = World(running("x", on="a", memory=10, phase="Pending"), api=Api(None, StatusError(404, "", ""))).filter()
    locked = node("a", gpus=1, annotations={"hami.io/mutex.lock": LOCKED})
    assert bind_two(world, locked, node("a", gpus=1)) == [LOCKED]


def test_a_lock_that_was_refused_is_not_there():
    world = World(running("x", on="a", memory=10, phase="Pending"), api=Api(StatusError(403, "Forbidden", ""))).filter()
    assert bind_two(world) == [LOCKED]


def test_the_lock_of_a_pod_that_is_deleted_while_it_is_written_does_not_follow_that_of_the_next():
    """The writes of one bind are over before those of the next begin, whatever the watch shows in between."""
    world = World(running("x", on="a", memory=10, phase="Pending"))
    world.filter()
    world.cluster.upsert_pod(named("q", uid="2", gpus=1, memory=1000))
    world.server.filter(asked(named("q", uid="2", gpus=1, memory=1000), "a"), world.now)

    class Slow(Api):
        async def request(self, method, path, **more):
            if not self.written:
                # The pod goes while its lock is on the way.
                world.handovers.seen("default/p", None, is_gone=True)
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().request(method, path, **more)

    world.api = Slow(None, StatusError(404, "NotFound", "the pod is gone"))

    async def main():
        binder = Binder(world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now)
        binds = [binder.bind(BindArgs(name, "default", uid, "a")) for name, uid in (("p", "1"), ("q", "2"))]
        first, second = await asyncio.gather(*binds, return_exceptions=True)
        await binder.close()
        assert isinstance(first, BindError)
        assert second.node == "a"

    asyncio.run(main())
    paths = [path.removeprefix("/api/v1/") for method, path, _ in world.api.written]
    assert paths[:4] == ["nodes/a", "namespaces/default/pods/p/binding", "nodes/a", "namespaces/default/pods/q/binding"]


def test_a_pod_that_goes_while_its_bind_waits_for_its_turn_is_not_bound_and_keeps_nobody_out():
    world = World(api=Api(*[ConnectionLostError("reset")] * 4)).filter()

    async def main():
        binder = Binder(world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now)
        await world.handovers.acquire("a", pod("before"), 1)
        binding = asyncio.create_task(binder.bind(BindArgs("p", "default", "1", "a")))
        while not world.handovers.waiting:
            await asyncio.sleep(0)
        world.cluster.remove_pod("default/p")
        world.handovers.seen("default/p", None, is_gone=True)
        world.handovers.release("a", pod("before"))
        with pytest.raises(BindError, match="default/p is not bound: it is gone"):
            await binding
        await binder.close()

    asyncio.run(main())
    assert world.handovers.holder("a") is None
    assert not world.api.written


def test_a_refused_bind_does_not_free_the_place_of_a_later_pod_of_the_same_name():
    world = World().filter()

    class Late(Api):
        async def request(self, method, path, **more):
            # The pod is deleted and created again while its Binding is on the way.
            world.cluster.remove_pod("default/p")
            later = asked(named("p", uid="later", gpus=1, memory=1000), "a")
            assert world.server.filter(later, world.now).result.node_names == ["a"]
            return await super().request(method, path, **more)

    world.api = Late(StatusError(409, "Conflict", "another uid"))
    with pytest.raises(BindError):
        world.bind()
    assert world.server.reservation("default/p", "later") is not None
    assert world.cluster.reserved["default/p"].uid == "later"


def test_a_busy_node_is_said_after_waiting():
    async def main(world):
        binder = Binder(world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now)
        await world.handovers.acquire("a", pod("first"), 1)
        await binder.bind(BindArgs("p", "default", "1", "a"))

    world = World().filter()
    world.handovers = HandoverQueue(iter(range(0, 1000, 20)).__next__)
    with pytest.raises(BindError, match="a is busy: default/first waits for its devices there"):
        asyncio.run(main(world))
    assert not world.cluster.reserved


def test_vendors_are_told_the_node_the_containers_and_the_time():
    cards = '{"devices":[{"index":"0","minor":"7","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1"}}'
    wanted = named("p", containers=[Container("trainer", ResourceRequirements(limits={"enflame.com/drs-gcu": 1}))])
    world = World(node("a", annotations={"enflame.com/gcu-drs-capacity": cards}), wanted=wanted).filter()
    world.bind()
    (binding,) = world.bindings()
    annotations = binding["metadata"]["annotations"]
    assert annotations["enflame.com/gcu-assigned-minor"] == "7"
    assert annotations["enflame.com/gcu-assigned-time"] == "1700000000000000000"
    assert json.loads(annotations["assigned-containers"]) == {
        "trainer": {"allocated": False, "request": 1, "profileName": "1g.6gb", "profileID": "0"}
    }


# -- the fence


class Fence:
    """Lets so many writes pass."""

    def __init__(self, passing, left=3.0):
        self.passing, self.left = passing, left

    def __call__(self):
        self.passing -= 1
        return (self.left, 0.5) if self.passing >= 0 else (0.4, 0.5)


def bind_behind(fence, world):
    async def main():
        binder = Binder(
            world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now, fence=fence
        )
        try:
            await binder.bind(BindArgs("p", "default", "1", "a"))
        finally:
            world.unanswered = binder.unanswered
            await binder.close()
        return binder

    return asyncio.run(main())


def test_one_that_leads_no_longer_writes_nothing_and_keeps_nothing():
    world = World().filter()
    with pytest.raises(BindError, match="default/p is not bound: this replica leads no longer"):
        bind_behind(Fence(0), world)
    assert world.api.written == []
    assert not world.cluster.reserved
    assert world.handovers.holder("a") is None


def test_neither_is_the_lock_written_nor_the_binding_after_it():
    for passing, written in ((0, []), (1, ["PATCH"])):
        world = World(running("x", on="a", memory=10, phase="Pending")).filter()
        with pytest.raises(BindError, match="leads no longer"):
            bind_behind(Fence(passing), world)
        assert [method for method, *_ in world.api.written] == written


def test_a_write_that_may_have_happened_is_not_repeated_when_another_leads():
    world = World(api=Api(ConnectionLostError("reset"), pods={"p": shown(on="a")})).filter()
    with pytest.raises(BindUnknownError):
        bind_behind(Fence(1), world)
    assert len(world.bindings()) == 1
    assert world.unanswered == 1


def test_a_write_gets_no_more_time_than_there_is():
    class Timed(Api):
        async def request(self, method, path, *, timeout, **more):
            timeouts.append((method, timeout))
            return await super().request(method, path, timeout=timeout, **more)

    timeouts = []
    world = World(running("x", on="a", memory=10, phase="Pending"), api=Timed()).filter()
    binder = bind_behind(Fence(9), world)
    assert timeouts[:2] == [("PATCH", 3.0), ("POST", 3.0)]
    assert binder.unanswered == 0

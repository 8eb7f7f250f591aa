"""What a caller of filter and bind cannot do, whatever it says about pods: the live pod and the watch count."""

import asyncio
import json

import msgspec
import pytest

from tests.extender.asking import asked, named, reservations
from tests.extender.binding import Api, World
from tests.extender.inmemory import Whole
from tests.kube.live import run
from tests.scenario import gpu, node, pod, running, scenario, usage
from tests.waiting import until_true
from tonnage.binder.binding import BindError
from tonnage.cluster.handlers import HANDLERS
from tonnage.extender.binding import Binder
from tonnage.extender.pending import MOST_UNSEEN as MOST_REMEMBERED
from tonnage.extender.pending import PendingPods
from tonnage.extender.protocol import BindArgs, FilterArgs, read
from tonnage.extender.reservations import MOST_UNSEEN, ReservationState
from tonnage.framework.session import Session
from tonnage.model.node import NodeSpec
from tonnage.model.pod import Pod, SchedulingGate
from tonnage.model.wire import WireError, encode
from tonnage.plugins.defaults import default_plugins

OURS = "tonnage-scheduler"


def of(scheduler, name="p", **wants):
    made = named(name, **({"gpus": 1, "memory": 1000} | wants))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler))


def changed(made, **spec):
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))


def with_meta(made, **metadata):
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, **metadata))


def watch(cluster, made):
    """What the informer does with news of a pod."""
    HANDLERS[Pod].put(cluster, made)


def assert_refused(world, words):
    with pytest.raises(BindError, match=words):
        world.bind()
    assert not world.api.written
    assert not world.cluster.reserved


# -- bind: whose pod it is


def test_the_pod_of_another_scheduler_is_not_bound():
    theirs = of("default-scheduler")
    world = World(wanted=theirs, scheduler_name=OURS, api=Api(pods={"p": encode(theirs)}))
    assert_refused(world, f"default/p is not bound: it names the scheduler default-scheduler.*serves {OURS} only")


def test_a_pod_that_names_no_scheduler_is_that_of_default_scheduler():
    world = World(scheduler_name=OURS, api=Api(pods={"p": encode(named("p", gpus=1, memory=1000))}))
    assert_refused(world, "names the scheduler default-scheduler")


@pytest.mark.parametrize(("scheduler_name", "of_pod"), [("", "default-scheduler"), ("", "any"), (OURS, OURS)])
def test_the_pods_of_our_scheduler_are_bound_and_those_of_any_if_none_is_named(scheduler_name, of_pod):
    world = World(wanted=of(of_pod), scheduler_name=scheduler_name).filter()
    assert world.bind().node == "a"


def test_a_pod_is_bound_by_its_uid_only():
    with pytest.raises(WireError, match="default/p has no UID"):
        read(b'{"PodName": "p", "PodNamespace": "default", "Node": "a"}', BindArgs)
    world = World(api=Api(pods={"p": encode(named("p", gpus=1, memory=1000))})).filter()
    with pytest.raises(BindError, match="default/p is not bound: it is another pod now"):
        world.bind(uid="2")
    assert not world.api.written
    assert world.server.reservation("default/p", "1") is not None, "the pod that has the place keeps it"


# -- bind: the live pod


def test_a_gated_pod_is_not_bound_and_its_place_is_free():
    gated = changed(named("p", gpus=1, memory=1000), schedulingGates=[SchedulingGate("team/quota")])
    world = World(wanted=gated, api=Api(pods={"p": encode(gated)}))
    world.server.filter(asked(gated, "a"), world.now)
    assert_refused(world, r"default/p is not bound: it has scheduling gates \(team/quota\)")


def test_before_a_refusal_the_pod_is_read_because_the_watch_may_be_behind():
    gated = changed(named("p", gpus=1, memory=1000), schedulingGates=[SchedulingGate("gate")])
    world = World(wanted=gated, api=Api(pods={"p": encode(named("p", gpus=1, memory=1000))}))
    assert world.bind().node == "a"


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (with_meta(named("p", gpus=1, memory=1000), deletionTimestamp="2026-01-01T00:00:00Z"), "it is being deleted"),
        (named("p", gpus=1, memory=1000, on="b"), "it is bound to b already"),
        (named("p", gpus=1, memory=1000, phase="Failed"), "it has ended"),
        (None, "it is gone"),
    ],
)
def test_a_place_for_an_invented_pod_is_free_as_soon_as_its_bind_shows_what_is_true(live, words):
    pods = {} if live is None else {"p": encode(live)}
    world = World(is_shown=False, api=Api(pods=pods)).filter()
    assert_refused(world, words)


def test_what_a_pod_gets_is_what_the_live_pod_asks_for():
    """The filter's pod asked for 1000 MiB, and the watch had not shown the pod; it really asks for 8000."""
    world = World(is_shown=False, api=Api(pods={"p": encode(named("p", gpus=1, memory=8000))})).filter()
    world.bind()
    assert usage(world.cluster, "a") == [(1, 8000, 0)]
    assert "NVIDIA,8000," in world.bindings()[0]["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]


def test_a_live_pod_that_does_not_fit_where_the_request_did_is_refused():
    live = encode(named("p", gpus=1, memory=8000))
    world = World(running("x", on="a", memory=4000), is_shown=False, api=Api(pods={"p": live})).filter()
    assert_refused(world, "does not fit on a")


def test_a_pod_whose_request_changes_while_its_bind_waits_for_its_turn_is_decided_anew():
    world = World().filter()

    async def main():
        binder = Binder(world.api, world.cluster, world.server, world.handovers, lambda: world.now, lambda: world.now)
        await world.handovers.acquire("a", pod("before"), 1)
        binding = asyncio.create_task(binder.bind(BindArgs("p", "default", "1", "a")))
        while not world.handovers.waiting:
            await asyncio.sleep(0)
        watch(world.cluster, named("p", gpus=1, memory=2000))
        world.handovers.release("a", pod("before"))
        with pytest.raises(BindError, match="what it asks for has changed"):
            await binding
        await binder.close()

    run(main())
    assert not world.api.written
    assert not world.cluster.reserved


# -- bind: a pod that asks for no device


def test_a_pod_that_asks_for_no_device_is_bound_plainly_and_waits_for_nobody():
    world = World(wanted=named("p", cpu="1"))

    async def busy():
        await world.handovers.acquire("a", pod("before", 1), 1)

    asyncio.run(busy())
    world.bind()
    ((method, path, body),) = world.api.written
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods/p/binding")
    assert body["metadata"] == {"name": "p", "namespace": "default", "uid": "1", "annotations": {}}
    assert world.handovers.holder("a") == "default/before"
    assert world.kept is ReservationState.BOUND


def test_what_its_author_wrote_about_a_hand_over_is_blanked_with_the_binding():
    """Else a device plugin that is asked about another pod of the node could take this one for it."""
    forged = {"hami.io/bind-phase": "allocating", "hami.io/vgpu-node": "a", "hami.io/bind-time": "1", "mine": "kept"}
    world = World(wanted=named("p", cpu="1", annotations=forged))
    world.bind()
    ((_, _, body),) = world.api.written
    assert body["metadata"]["annotations"] == {"hami.io/bind-phase": "", "hami.io/vgpu-node": ""}


def test_a_pod_that_asks_for_no_device_is_checked_like_any_other():
    theirs = of("default-scheduler", gpus=0, memory=0)
    world = World(wanted=theirs, scheduler_name=OURS, api=Api(pods={"p": encode(theirs)}))
    world.cluster.upsert_node(msgspec.structs.replace(node("a", gpus=1), spec=NodeSpec(unschedulable=True)))
    assert_refused(world, "names the scheduler")
    world = World(wanted=named("p", cpu="1"))
    world.cluster.upsert_node(msgspec.structs.replace(node("a", gpus=1), spec=NodeSpec(unschedulable=True)))
    assert_refused(world, "a is cordoned")


# -- filter: invented pods


def test_a_request_without_a_uid_reserves_nothing():
    cluster = scenario(node("a", gpus=1))
    answer = reservations(cluster).filter(asked(named("p", uid="", gpus=1), "a"), 0).result
    assert "default/p has no UID" in answer.error
    assert not cluster.reserved


def test_the_pod_of_another_scheduler_gets_no_place():
    cluster = scenario(node("a", gpus=1))
    answer = reservations(cluster, scheduler_name=OURS).filter(asked(of("theirs"), "a"), 0).result
    assert "default/p names the scheduler theirs" in answer.error
    assert not cluster.reserved


def test_the_live_pod_counts_and_not_what_a_request_says_of_it():
    cluster = scenario(node("a", gpus=1))
    cluster.upsert_pod(named("p", gpus=1, memory=1000))
    server = reservations(cluster)
    assert server.filter(asked(named("p", gpus=1, memory=8000), "a"), 0).result.node_names == ["a"]
    assert usage(cluster, "a") == [(1, 1000, 0)]


@pytest.mark.parametrize("created", ["9999-12-31T23:59:59Z", None])
def test_an_invented_pod_of_the_name_of_a_running_one_takes_nothing_from_it(created):
    victim = with_meta(running("p", on="a", memory=6000), uid="real", creationTimestamp="2026-01-01T00:00:00Z")
    cluster = scenario(node("a", gpus=1), victim)
    server = reservations(cluster)
    invented = with_meta(named("p", uid="invented", gpus=1, memory=1000), creationTimestamp=created)
    answer = server.filter(asked(invented, "a"), 0).result
    assert "the watch shows an earlier pod default/p still" in answer.error
    assert usage(cluster, "a") == [(1, 6000, 0)]
    server.expire(1e9)
    assert usage(cluster, "a") == [(1, 6000, 0)]


@pytest.mark.parametrize("created", ["9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z", None])
def test_a_place_for_an_invented_pod_is_free_as_soon_as_the_watch_shows_another_of_that_name(created):
    cluster = scenario(node("a", gpus=1))
    server = reservations(cluster)
    invented = with_meta(named("p", uid="invented", gpus=1, memory=1000), creationTimestamp=created)
    assert server.filter(asked(invented, "a"), 0).result.node_names == ["a"]
    real = with_meta(running("p", on="a", memory=6000), uid="real", creationTimestamp="2026-01-01T00:00:00Z")
    watch(cluster, real)
    assert server.reservation("default/p", "invented") is None
    assert usage(cluster, "a") == [(1, 6000, 0)]
    assert server.expire(1e9) == []
    assert usage(cluster, "a") == [(1, 6000, 0)]


def test_invented_pods_reserve_a_bounded_number_of_places():
    cluster = scenario(node("a", gpus=[gpu("u", count=1000, memory=100_000)]), node("b", gpus=1))
    server = reservations(cluster)
    for number in range(MOST_UNSEEN):
        assert server.filter(asked(named(f"x{number}", uid=f"{number}", gpus=1, memory=1), "a"), 0).result.node_names
    more = server.filter(asked(named("more", gpus=1, memory=1), "b"), 0).result
    assert f"places are reserved for {MOST_UNSEEN} pods that the watch has not shown" in more.error
    assert server.filter(asked(named("x0", uid="0", gpus=1, memory=1), "b"), 0).result.node_names == ["b"]
    cluster.upsert_pod(named("more", gpus=1, memory=1))
    assert server.filter(asked(named("more", gpus=1, memory=1), "b"), 0).result.node_names == ["b"], "a real pod"
    server.expire(10)
    assert list(cluster.reserved) == ["default/more"]


def test_invented_pods_that_fit_nowhere_are_remembered_up_to_a_bound():
    cluster = scenario(node("a", gpus=1))
    plugins = default_plugins()
    server = reservations(cluster)
    pending = PendingPods(Session(cluster, plugins), server, lambda: 0.0)
    for number in range(MOST_REMEMBERED + 50):
        args = asked(named(f"x{number}", uid=f"{number}", gpus=1, memory=9000), "a")
        pending.filtered(args, server.filter(args, 0))
    assert len(pending) == MOST_REMEMBERED
    cluster.upsert_pod(named("real", gpus=1, memory=9000))
    args = asked(named("real", gpus=1, memory=9000), "a")
    pending.filtered(args, server.filter(args, 0))
    assert len(pending) == MOST_REMEMBERED + 1


def test_a_pod_that_is_created_again_is_decided_once_the_watch_has_caught_up_with_kube_scheduler():
    """kube-scheduler's watch has shown the new pod of that name, and ours still shows the old one."""

    async def main():
        whole = Whole()
        whole.api.put(node("a", gpus=1))
        whole.api.put(pod("p", 1, memory=8000))
        async with whole.running():
            assert await whole.schedule("p", ["a"]) == "a"
            await until_true(lambda: "default/p" in whole.service.cluster.running)
            told, whole.api._tell = whole.api._tell, lambda *news: unseen.append(news)
            unseen: list[object] = []
            whole.api.delete("p")
            whole.api.put(pod("p", 1, memory=8000))
            asking = asyncio.create_task(whole.schedule("p", ["a"]))
            await asyncio.sleep(0.1)
            assert not asking.done()
            whole.api._tell = told
            for news in unseen:
                told(*news)
            assert await asking == "a"

    run(main())


# -- names

TRAVERSAL = "../../../pods?x="


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"PodName": TRAVERSAL}, "PodName"),
        ({"PodName": "P"}, "PodName"),
        ({"PodName": "p" * 254}, "PodName"),
        ({"PodName": "p\n"}, "PodName"),
        ({"PodNamespace": "kube.system"}, "PodNamespace"),
        ({"PodNamespace": "n" * 64}, "PodNamespace"),
        ({"PodNamespace": ".."}, "PodNamespace"),
        ({"PodUID": "1/../2"}, "PodUID"),
        ({"PodUID": "1" * 129}, "PodUID"),
        ({"Node": "a/status"}, "Node"),
    ],
)
def test_a_name_that_is_none_is_refused_before_anything_is_done_with_it(changes, place):
    async def main():
        whole = Whole()
        whole.api.put(node("a", gpus=1))
        asked_for = []
        whole.api.get = _noting(whole.api.get, asked_for)
        async with whole.running():
            asked_for.clear()
            args = {"PodName": "p", "PodNamespace": "default", "PodUID": "1", "Node": "a"} | changes
            error = (await whole.ask("/bind", args))["Error"]
            assert f"at {place}: " in error
            assert len(error) < 400
            assert error.isprintable()
            assert not asked_for
            assert not whole.api.writes
            await asyncio.sleep(0)
            assert not whole.events.queued

    run(main())


def _noting(get, asked_for):
    async def noting(path, *more, **named_):
        asked_for.append(path)
        return await get(path, *more, **named_)

    return noting


@pytest.mark.parametrize("metadata", [{"name": TRAVERSAL}, {"name": ""}, {"namespace": "a/b"}, {"uid": "x" * 5000}])
def test_a_pod_of_a_request_has_a_kubernetes_name(metadata):
    document = {"Pod": msgspec.to_builtins(with_meta(named("p", gpus=1), **metadata)), "NodeNames": ["a"]}
    with pytest.raises(WireError):
        read(json.dumps(document).encode(), FilterArgs)


def test_a_node_that_is_not_known_has_at_least_a_kubernetes_name():
    server = reservations(scenario(node("a", gpus=1)))
    wanted = named("p", gpus=1, memory=1000)
    for answer in (server.filter(asked(wanted, "a", TRAVERSAL), 0), server.feasible(asked(wanted, "a", TRAVERSAL))):
        assert "is no Kubernetes name" in answer.result.error
    assert server.prioritize(asked(wanted, "a", TRAVERSAL)) == []

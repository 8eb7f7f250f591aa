"""Two bound pods on one slice: which is taken for the later one, and what makes nobody suspect."""

import asyncio

import msgspec
import pytest

from tests.plugins.gpus.migcards import holder, mig
from tests.scenario import gpu, node, place, pod, running, scenario, usage
from tonnage.binder.overlaps import MOMENT, Overlaps
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.resource import Change

NOW = 1_700_000_000


def stamped(made, at=NOW, uid="1"):
    notes = {**(made.metadata.annotations or {}), "hami.io/bind-time": str(at)}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes, uid=uid))


def bound(name, memory, at=NOW, uid="1", on="a", **more):
    return stamped(running(name, on=on, gpu="a/0", memory=memory, **more), at, uid)


class Api:
    def __init__(self, *planned):
        self.planned, self.written = list(planned), []

    async def request(self, method, path, *, body=None, timeout=0):
        self.written.append((method, path, body))
        answer = self.planned.pop(0) if self.planned else None
        if isinstance(answer, Exception):
            raise answer
        return b"{}"


class World:
    """A node with one card of 8000 MiB, and pods that become bound to it."""

    def __init__(self, *objects, api=None, is_settled=True):
        self.cluster = scenario(*(objects or (node("a", gpus=1),)))
        self.api, self.time, self.told = api or Api(), 0.0, []
        self.leads = True
        self.overlaps = Overlaps(
            self.api, self.cluster, lambda: self.time, self.overlapped, may_evict=lambda: self.leads
        )
        if is_settled:
            self.overlaps.settle()

    def overlapped(self, pod, why):
        self.told.append((pod.key, why))

    def see(self, *pods):
        for one in pods:
            self.cluster.upsert_pod(one)
        self.overlaps.seen([Change(one.key, one) for one in pods])
        return self

    def gone(self, key):
        self.cluster.remove_pod(key)
        self.overlaps.seen([Change(key, is_gone=True)])

    def to_evict(self, after=MOMENT):
        self.time += after
        return [task.key for task, _ in self.overlaps.to_evict()]


def test_the_pod_that_came_later_has_to_go():
    world = World().see(bound("p", 5000)).see(bound("q", 5000))
    assert world.to_evict(0) == []
    assert world.to_evict() == ["default/q"]


def test_who_came_later_is_what_this_process_saw_and_not_what_an_annotation_says():
    world = World().see(bound("p", 5000, at=NOW), bound("q", 5000, at=NOW - 1))
    assert world.to_evict() == ["default/q"]


def test_no_more_pods_go_than_must():
    world = World().see(bound("p", 5000)).see(bound("q", 5000)).see(bound("r", 3000)).see(bound("s", 3000))
    assert world.to_evict() == ["default/q", "default/s"]


def test_pods_that_share_a_card_as_they_should_are_left_alone():
    world = World().see(bound("p", 5000), bound("q", 3000))
    assert world.overlaps.suspects == {}
    # One that is taken in again, with changes, is nothing new.
    world.see(bound("p", 5000, phase="Running"))
    assert world.to_evict() == []


def test_slots_and_cores_count_too():
    world = World(node("a", gpus=1, slots=1)).see(bound("p", 10), bound("q", 10))
    assert world.to_evict() == ["default/q"]
    world = World().see(bound("p", 10, cores=60), bound("q", 10, cores=60))
    assert world.to_evict() == ["default/q"]


def test_a_card_that_has_shrunk_makes_nobody_suspect():
    world = World().see(bound("p", 4000), bound("q", 4000))
    world.cluster.upsert_node(node("a", gpus=1, gpu_memory=4000))
    world.see(bound("p", 4000, phase="Running"))
    assert world.to_evict() == []
    # Nor does it make those suspect that come when it is over-full already.
    world.cluster.upsert_node(node("a", gpus=1, gpu_memory=6000))
    assert world.see(bound("r", 10)).to_evict() == []


def test_a_card_of_which_the_picture_learns_late_that_it_has_grown_makes_nobody_go():
    world = World().see(bound("p", 8000)).see(bound("q", 8000))
    assert world.overlaps.suspects
    world.cluster.upsert_node(node("a", gpus=1, gpu_memory=16000))
    assert world.to_evict() == []
    assert world.overlaps.suspects == {}


def test_a_place_that_is_only_reserved_makes_no_bound_pod_go():
    world = World()
    place(world.cluster, pod("reserved", 1, memory=8000))
    assert list(world.cluster.reserved) == ["default/reserved"]
    assert world.see(bound("q", 8000)).to_evict() == []


def test_once_the_other_one_is_gone_nobody_has_to_go():
    world = World().see(bound("p", 5000)).see(bound("q", 5000))
    world.gone("default/p")
    assert world.to_evict() == []


def test_another_pod_of_the_same_name_is_not_the_suspect():
    world = World().see(bound("p", 5000)).see(bound("q", 5000))
    world.gone("default/q")
    world.see(bound("q", 3000, uid="2"))
    assert world.to_evict() == []


def test_of_pods_that_were_there_at_the_start_nobody_goes_because_the_order_is_not_known(caplog):
    world = World(is_settled=False).see(bound("p", 5000, at=NOW - 60), bound("q", 5000))
    world.overlaps.settle()
    assert world.to_evict() == []
    assert "default/q holds 2000 memory too many" in caplog.text
    assert "who came later is not known" in caplog.text
    # Whoever is bound later is later than both.
    assert world.see(bound("r", 10)).to_evict() == []


def test_what_is_bound_after_the_start_counts_whatever_the_clock_of_the_one_who_bound_it_says():
    world = World()
    assert world.see(bound("p", 5000)).see(bound("q", 5000, at=NOW - 600)).to_evict() == ["default/q"]
    assert world.see(running("r", on="a", gpu=0, memory=5000)).to_evict(10) == ["default/q", "default/r"]


def test_a_pod_that_turns_up_while_our_bind_is_on_its_way_is_the_later_one():
    """A tenant binds its own pod to a card that was just given to another pod."""
    world = World()
    decision = place(world.cluster, stamped(pod("ours", 1, memory=8000), uid="ours"))
    assert decision.node == "a"
    world.see(bound("attacker", 8000, uid="attacker"))
    assert world.to_evict() == []
    world.see(bound("ours", 8000, uid="ours"))
    assert world.to_evict() == ["default/attacker"]


def test_our_bind_is_the_earlier_one_even_if_both_are_shown_at_once():
    world = World()
    place(world.cluster, stamped(pod("ours", 1, memory=8000), uid="ours"))
    world.see(bound("attacker", 8000, uid="attacker"), bound("ours", 8000, uid="ours"))
    assert world.to_evict() == ["default/attacker"]


def test_a_pod_that_comes_to_name_a_card_is_later_than_those_that_are_on_it():
    """A tenant's pod was first seen without a record; the record then names the card of another pod."""
    silent = stamped(pod("attacker", 1, on="a", memory=8000), uid="attacker")
    world = World(silent, node("a", gpus=1), is_settled=False)
    world.see(silent)
    world.overlaps.settle()
    world.see(bound("victim", 8000, uid="victim"))
    world.see(bound("attacker", 8000, uid="attacker"))
    assert world.to_evict() == ["default/attacker"]


def test_a_pod_that_names_another_card_later_moves_nowhere_and_makes_nobody_go():
    """A tenant's pod has one card and then claims the card of another pod."""
    world = World(node("a", gpus=2), is_settled=True)
    world.see(stamped(running("attacker", on="a", gpu=1, memory=8000), uid="attacker"))
    world.see(bound("victim", 8000, uid="victim"))
    world.see(stamped(running("attacker", on="a", gpu=0, memory=8000), uid="attacker"))
    assert world.to_evict() == []
    assert usage(world.cluster, "a") == [(1, 8000, 0), (1, 8000, 0)]


def test_a_pod_without_device_requests_makes_nobody_go():
    claim = {"hami.io/vgpu-devices-allocated": "a/0,NVIDIA,8000,100:;"}
    world = World().see(stamped(pod("attacker", on="a", annotations=claim), uid="attacker"))
    assert world.see(bound("victim", 8000)).to_evict() == []


def test_the_same_mig_instance_for_two():
    world = World(node("a", gpus=[mig("m")]))
    world.see(*(stamped(holder(name, "m", start, 1)) for name, start in (("p", 0), ("q", 0), ("r", 1))))
    assert world.to_evict() == ["default/q"]


def test_cards_of_other_nodes_do_not_matter():
    world = World(node("a", gpus=1), node("b", gpus=[gpu("a/0")]))
    assert world.see(bound("p", 5000), bound("q", 5000, on="b")).to_evict() == []


# -- evicting


def run_for(world, seconds):
    async def main():
        running = asyncio.create_task(world.overlaps.run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("tonnage.binder.overlaps._BEAT", 0.01)


def test_the_eviction_names_the_pod_by_its_uid_and_is_told():
    world = World().see(bound("p", 5000)).see(bound("q", 5000, uid="7"))
    world.time = MOMENT
    run_for(world, 0.1)
    ((method, path, body),) = world.api.written
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods/q/eviction")
    assert body["kind"] == "Eviction"
    assert body["deleteOptions"] == {"preconditions": {"uid": "7"}}
    words = "holds 2000 memory too many (10000 of 8000 in use) of NVIDIA card a/0 of a, which default/p held before"
    assert world.told == [("default/q", f"evicted: {words}")]


@pytest.mark.parametrize("failure", [StatusError(429, "TooManyRequests", "budget"), ConnectionLostError("reset")])
def test_what_cannot_be_evicted_now_is_tried_again_later(failure):
    world = World(api=Api(failure)).see(bound("p", 5000)).see(bound("q", 5000))
    world.time = MOMENT
    run_for(world, 0.1)
    assert len(world.api.written) == 1
    assert world.told == []
    world.time += 5
    run_for(world, 0.1)
    assert len(world.api.written) == 2
    assert len(world.told) == 1


def test_only_the_leader_evicts():
    world = World().see(bound("p", 5000)).see(bound("q", 5000))
    world.time, world.leads = MOMENT, False
    run_for(world, 0.1)
    assert world.api.written == []
    world.leads = True
    run_for(world, 0.1)
    assert len(world.api.written) == 1

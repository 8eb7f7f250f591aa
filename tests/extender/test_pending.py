"""Who of those that found no node is called, when, and how often."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenario import node, pod, running, scenario
from tonnage.extender.pending import HOLD_SECONDS, INTERVAL, LONGEST_BACKOFF, MOST_REQUEUED, PendingPods
from tonnage.extender.protocol import FilterArgs, read
from tonnage.extender.reservations import Reservations
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.plugins.defaults import default_plugins

CALLED = 2 * INTERVAL
"""A pod is seen to fit at one beat and called at the next, so that kube-scheduler can come by itself."""


def identified(made):
    name = made.metadata.name
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=f"uid-{name}"))


class Door:
    """An extender with a clock of its own, as kube-scheduler and the watch meet it."""

    def __init__(self, *things):
        self.cluster = scenario(*things)
        plugins = default_plugins()
        self.session = Session(self.cluster, plugins)
        self.reservations = Reservations(self.session, plugins)
        self.now = 1000.0
        self.pending = PendingPods(self.session, self.reservations, lambda: self.now)
        self.calls = []

    def ask(self, name, *names, shown=True, **wants):
        """kube-scheduler asks about a pod; whether it was given a node."""
        wanted = identified(pod(name, 1, **wants))
        if shown and f"default/{name}" not in self.cluster.reserved:
            self.cluster.upsert_pod(wanted)
        offered = list(names) or sorted(self.cluster.nodes)
        args = read(json.dumps({"Pod": msgspec.to_builtins(wanted), "NodeNames": offered}).encode(), FilterArgs)
        filtered = self.reservations.filter(args, self.now)
        self.pending.filtered(args, filtered)
        return bool(filtered.result.node_names)

    def end(self, name):
        self.cluster.remove_pod(f"default/{name}")

    def pass_(self, seconds):
        """Let time go by; who was called meanwhile."""
        called, until = [], self.now + seconds
        while self.now + INTERVAL <= until + 1e-9:
            self.now += INTERVAL
            called += [task.name for task in self.pending.to_requeue(self.now)]
        self.calls += [(self.now, name) for name in called]
        return called


def full(*more):
    """One card of 8000 MiB, which `x` and `y` share."""
    return Door(node("a", gpus=1), running("x", on="a", memory=4000), running("y", on="a", memory=4000), *more)


def test_a_pod_is_called_once_what_it_needs_is_free():
    door = full()
    assert not door.ask("p", memory=3000)
    assert door.pass_(60) == []
    door.end("x")
    assert door.pass_(INTERVAL) == []
    assert door.pass_(INTERVAL) == ["p"]


def test_a_pod_that_kube_scheduler_asks_about_by_itself_is_not_called():
    door = full()
    door.ask("p", memory=3000)
    door.end("x")
    door.pass_(INTERVAL)
    assert door.ask("p", memory=3000)
    assert door.pass_(60) == []
    assert len(door.pending) == 0


def test_one_free_share_calls_one_pod_of_a_thousand():
    door = full()
    for number in range(1000):
        door.ask(f"p{number:03}", memory=3000)
    door.end("x")
    assert door.pass_(CALLED) == ["p000"]
    assert door.pass_(HOLD_SECONDS - CALLED) == []


def test_a_pod_that_does_not_come_lets_the_next_one_go_before_it():
    door = full()
    for name in ("p", "q"):
        door.ask(name, memory=3000)
    door.end("x")
    assert door.pass_(CALLED) == ["p"]
    assert door.pass_(HOLD_SECONDS + CALLED) == ["q"]
    assert door.pass_(HOLD_SECONDS) == ["p"]


def test_the_important_and_then_the_older_go_first():
    door = full()
    door.ask("a-young", memory=3000, created="2026-01-02T00:00:00Z")
    door.ask("b-old", memory=3000, created="2026-01-01T00:00:00Z")
    door.ask("c-high", memory=3500, priority=10)
    door.end("x")
    assert door.pass_(CALLED) == ["c-high"]
    assert door.ask("c-high", memory=3500)
    door.end("y")
    assert door.pass_(CALLED) == ["b-old"]


def test_pods_of_different_sizes_are_called_together_if_they_fit_together():
    door = full()
    for name, memory in (("large", 7000), ("middle", 2500), ("small", 1500), ("tiny", 1000)):
        door.ask(name, memory=memory)
    door.end("x")
    assert sorted(door.pass_(CALLED)) == ["middle", "small"]


def test_trials_leave_everything_as_it_was():
    door = full()
    door.ask("p", memory=3000)
    door.end("x")
    door.cluster.settle()
    before = door.cluster.columns.card_free.copy(), dict(door.cluster.waiting), dict(door.cluster.holders)
    assert door.pass_(CALLED) == ["p"]
    assert door.pass_(1) == []
    assert (door.cluster.columns.card_free == before[0]).all()
    assert (door.cluster.waiting, door.cluster.holders) == before[1:]
    assert not door.cluster.reserved


def test_a_pod_that_changed_since_it_was_called_stays_as_it_is_now():
    door = full()
    door.ask("p", memory=3000)
    door.end("x")
    assert door.pass_(CALLED) == ["p"]
    newer = identified(pod("p", 1, memory=3000, annotations={"tonnage.io/requeued": "now"}))
    door.cluster.upsert_pod(newer)
    door.pass_(1)
    assert door.cluster.waiting["default/p"].pod == newer


def test_a_question_that_came_before_the_watch_showed_what_was_freed_does_not_cost_minutes():
    door = full()
    door.ask("p", memory=3000)
    # kube-scheduler has seen the end of x and asks again; here x is still there.
    assert not door.ask("p", memory=3000)
    door.end("x")
    assert door.pass_(CALLED) == ["p"]


def test_a_question_that_came_before_the_watch_showed_the_pod_itself_counts_too():
    door = full()
    assert not door.ask("p", memory=3000, shown=False)
    door.end("x")
    assert door.pass_(2) == []
    door.cluster.upsert_pod(identified(pod("p", 1, memory=3000)))
    assert door.pass_(CALLED) == ["p"]


def test_a_pod_that_the_watch_never_shows_is_forgotten():
    door = full()
    door.ask("p", memory=3000, shown=False)
    door.pass_(61)
    assert len(door.pending) == 0


@pytest.mark.parametrize("offered", [("b",), ("b", "c")])
def test_only_nodes_that_kube_scheduler_would_take_count(offered):
    door = Door(node("a", gpus=1), node("b", gpus=1), node("c"), running("x", on="b", memory=8000))
    assert not door.ask("p", *offered, memory=3000)
    assert door.pass_(5) == []
    door.end("x")
    assert door.pass_(CALLED) == ["p"]


def test_a_node_that_was_offered_before_it_was_known_counts_once_it_is():
    door = full()
    assert not door.ask("p", "a", "new", memory=5000)
    assert door.pass_(5) == []
    door.cluster.upsert_node(node("new", gpus=1))
    assert door.pass_(CALLED) == ["p"]


def test_a_silent_plugins_node_counts_once_it_is_heard_again():
    door = Door(node("a", gpus=1))
    door.reservations.silent = {"a"}
    assert not door.ask("p", memory=3000)
    assert door.pass_(5) == []
    door.reservations.silent = set()
    assert door.pass_(CALLED) == ["p"]


def quota(amount):
    return ResourceQuota(ObjectMeta("q", "default"), QuotaSpec({"limits.nvidia.com/gpumem": amount}))


def test_room_in_a_quota_calls_as_many_as_it_has_room_for():
    door = Door(node("a", gpus=4))
    door.cluster.quotas.upsert(quota(1000))
    for name in ("p", "q", "r"):
        assert not door.ask(name, memory=2000)
    assert door.pass_(5) == []
    door.cluster.quotas.upsert(quota(4000))
    door.pending.invalidate()
    assert door.pass_(CALLED) == ["p", "q"]


def test_a_place_that_was_kept_for_somebody_else_and_given_up_calls():
    door = Door(node("a", gpus=1))
    assert door.ask("holder", memory=6000)
    assert not door.ask("p", memory=6000)
    door.reservations.release("default/holder")
    assert door.pass_(CALLED) == ["p"]


def test_a_pod_is_called_at_most_every_five_seconds_and_less_often_if_it_never_comes():
    door = full()
    door.ask("p", memory=3000)
    door.end("x")
    times = [door.now for _ in range(6000) if door.pass_(INTERVAL)]
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps[:5] == [10, 20, 40, 80, 160]
    assert set(gaps[5:]) == {round(LONGEST_BACKOFF)}


def test_a_pod_that_lost_a_race_for_its_place_is_called_soon_again():
    door = full()
    door.ask("p", memory=3000)
    for number in range(10):
        door.end("x")
        assert door.pass_(CALLED) == ["p"], number
        # Somebody else was faster; then p is asked about.
        door.cluster.upsert_pod(running("x", on="a", memory=4000))
        assert not door.ask("p", memory=3000)
        assert door.pass_(HOLD_SECONDS) == []


def test_a_pod_that_is_bound_or_gone_is_not_called():
    door = full()
    for name in ("p", "q"):
        door.ask(name, memory=2000)
        door.pending.forget(f"default/{name}")
    door.end("x")
    assert door.pass_(10) == []


def test_who_comes_to_decide_takes_over_those_that_wait():
    ours = msgspec.structs.replace(pod("p", 1, memory=3000), spec=scheduled_by("p", "hami-scheduler"))
    others = msgspec.structs.replace(pod("q", 1, memory=3000), spec=scheduled_by("q", "volcano"))
    door = Door(node("a", gpus=1), identified(ours), identified(others), identified(pod("r", cpu="1")))
    door.pending.adopt("hami-scheduler")
    assert door.pass_(HOLD_SECONDS) == ["p"]
    door.pending.forget_all()
    assert door.pass_(60) == []


def scheduled_by(name, scheduler):
    return msgspec.structs.replace(pod(name, 1, memory=3000).spec, schedulerName=scheduler)


def test_not_more_are_called_than_can_be_waited_for():
    door = Door(*[node(f"n{number:02}", gpus=8) for number in range(5)])
    door.reservations.silent = set(door.cluster.nodes)
    for number in range(MOST_REQUEUED + 20):
        door.ask(f"p{number:03}", memory=500)
    door.reservations.silent = set()
    assert len(door.pass_(HOLD_SECONDS)) == MOST_REQUEUED
    assert len(door.pass_(2 * INTERVAL)) == 20


def test_a_long_trial_goes_on_at_the_next_beat_and_forgets_nobody(monkeypatch):
    door = Door(node("a", gpus=8))
    door.reservations.silent = {"a"}
    for number in range(12):
        door.ask(f"p{number:02}", memory=100 + number)
    door.reservations.silent = set()
    ticks = iter(range(10**9))
    monkeypatch.setattr(door.pending, "_clock", lambda: next(ticks) * 0.002)
    assert sorted(door.pass_(20 * INTERVAL)) == [f"p{number:02}" for number in range(12)]


@given(st.data())
def test_whatever_happens_nobody_who_fits_waits_long_and_nobody_is_called_too_often(data):
    """kube-scheduler comes to pods that are called, late or not at all; nothing else brings them back."""
    door = Door(node("a", gpus=2), node("b", gpus=1))
    sizes: dict[str, int] = {}
    for step in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(("come", "go", "pass")))
        placed = [key.partition("/")[2] for key in door.cluster.holders]
        if what == "come":
            sizes[f"p{step:02}"] = memory = data.draw(st.sampled_from((1000, 3000, 6000, 8000)))
            door.ask(f"p{step:02}", memory=memory)
        elif what == "go" and placed:
            door.end(data.draw(st.sampled_from(sorted(placed))))
        else:
            called = door.pass_(INTERVAL)
            for name in called:
                if data.draw(st.booleans()):
                    door.ask(name, memory=sizes[name])
    for _ in range(int(60 / INTERVAL)):
        for name in door.pass_(INTERVAL):
            door.ask(name, memory=sizes[name])
    for task in list(door.cluster.waiting.values()):
        assert door.session.decide(task).node is None, f"{task.key} fits and waits"
    by_pod: dict[str, list[float]] = {}
    for at, name in door.calls:
        by_pod.setdefault(name, []).append(at)
    for times in by_pod.values():
        assert all(later - earlier >= HOLD_SECONDS - 1e-6 for earlier, later in pairwise(times))

"""Who of those that found no node is called, when, and how often."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenario import ALLOCATED, container, node, pod, running, scenario
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


class Server:
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
    return Server(node("a", gpus=1), running("x", on="a", memory=4000), running("y", on="a", memory=4000), *more)


def test_a_pod_is_called_once_what_it_needs_is_free():
    server = full()
    assert not server.ask("p", memory=3000)
    assert server.pass_(60) == []
    server.end("x")
    assert server.pass_(INTERVAL) == []
    assert server.pass_(INTERVAL) == ["p"]


def test_a_pod_is_called_once_an_init_container_has_given_its_card_back():
    parts = {"init": [container("load", gpus=1, memory=7000)], "containers": [container(gpus=1, memory=1000)]}
    notes = {ALLOCATED: "a/0,NVIDIA,7000,0:;a/0,NVIDIA,1000,0:;"}
    server = Server(node("a", gpus=1), pod("x", on="a", annotations=notes, **parts))
    assert not server.ask("p", memory=3000)
    assert server.pass_(60) == []
    server.cluster.upsert_pod(pod("x", on="a", annotations=notes, ended=["load"], **parts))
    assert server.pass_(CALLED) == ["p"]


def test_a_pod_that_kube_scheduler_asks_about_by_itself_is_not_called():
    server = full()
    server.ask("p", memory=3000)
    server.end("x")
    server.pass_(INTERVAL)
    assert server.ask("p", memory=3000)
    assert server.pass_(60) == []
    assert len(server.pending) == 0


def test_one_free_share_calls_one_pod_of_a_thousand():
    server = full()
    for number in range(1000):
        server.ask(f"p{number:03}", memory=3000)
    server.end("x")
    assert server.pass_(CALLED) == ["p000"]
    assert server.pass_(HOLD_SECONDS - CALLED) == []


def test_a_pod_that_does_not_come_lets_the_next_one_go_before_it():
    server = full()
    for name in ("p", "q"):
        server.ask(name, memory=3000)
    server.end("x")
    assert server.pass_(CALLED) == ["p"]
    assert server.pass_(HOLD_SECONDS + CALLED) == ["q"]
    assert server.pass_(HOLD_SECONDS) == ["p"]


def test_the_important_and_then_the_older_go_first():
    server = full()
    server.ask("a-young", memory=3000, created="2026-01-02T00:00:00Z")
    server.ask("b-old", memory=3000, created="2026-01-01T00:00:00Z")
    server.ask("c-high", memory=3500, priority=10)
    server.end("x")
    assert server.pass_(CALLED) == ["c-high"]
    assert server.ask("c-high", memory=3500)
    server.end("y")
    assert server.pass_(CALLED) == ["b-old"]


def test_pods_of_different_sizes_are_called_together_if_they_fit_together():
    server = full()
    for name, memory in (("large", 7000), ("middle", 2500), ("small", 1500), ("tiny", 1000)):
        server.ask(name, memory=memory)
    server.end("x")
    assert sorted(server.pass_(CALLED)) == ["middle", "small"]


def test_trials_leave_everything_as_it_was():
    server = full()
    server.ask("p", memory=3000)
    server.end("x")
    server.cluster.settle()
    before = server.cluster.columns.card_free.copy(), dict(server.cluster.waiting), dict(server.cluster.holders)
    assert server.pass_(CALLED) == ["p"]
    assert server.pass_(1) == []
    assert (server.cluster.columns.card_free == before[0]).all()
    assert (server.cluster.waiting, server.cluster.holders) == before[1:]
    assert not server.cluster.reserved


def test_a_pod_that_changed_since_it_was_called_stays_as_it_is_now():
    server = full()
    server.ask("p", memory=3000)
    server.end("x")
    assert server.pass_(CALLED) == ["p"]
    newer = identified(pod("p", 1, memory=3000, annotations={"tonnage.io/requeued": "now"}))
    server.cluster.upsert_pod(newer)
    server.pass_(1)
    assert server.cluster.waiting["default/p"].pod == newer


def test_a_question_that_came_before_the_watch_showed_what_was_freed_does_not_cost_minutes():
    server = full()
    server.ask("p", memory=3000)
    # kube-scheduler has seen the end of x and asks again; here x is still there.
    assert not server.ask("p", memory=3000)
    server.end("x")
    assert server.pass_(CALLED) == ["p"]


def test_a_question_that_came_before_the_watch_showed_the_pod_itself_counts_too():
    server = full()
    assert not server.ask("p", memory=3000, shown=False)
    server.end("x")
    assert server.pass_(2) == []
    server.cluster.upsert_pod(identified(pod("p", 1, memory=3000)))
    assert server.pass_(CALLED) == ["p"]


def test_a_pod_that_the_watch_never_shows_is_forgotten():
    server = full()
    server.ask("p", memory=3000, shown=False)
    server.pass_(61)
    assert len(server.pending) == 0


@pytest.mark.parametrize("offered", [("b",), ("b", "c")])
def test_only_nodes_that_kube_scheduler_would_take_count(offered):
    server = Server(node("a", gpus=1), node("b", gpus=1), node("c"), running("x", on="b", memory=8000))
    assert not server.ask("p", *offered, memory=3000)
    assert server.pass_(5) == []
    server.end("x")
    assert server.pass_(CALLED) == ["p"]


def test_a_node_that_was_offered_before_it_was_known_counts_once_it_is():
    server = full()
    assert not server.ask("p", "a", "new", memory=5000)
    assert server.pass_(5) == []
    server.cluster.upsert_node(node("new", gpus=1))
    assert server.pass_(CALLED) == ["p"]


def test_a_silent_plugins_node_counts_once_it_is_heard_again():
    server = Server(node("a", gpus=1))
    server.cluster.device_plugins.update({"a"})
    assert not server.ask("p", memory=3000)
    assert server.pass_(5) == []
    server.cluster.device_plugins.update(set())
    assert server.pass_(CALLED) == ["p"]


def quota(amount):
    return ResourceQuota(ObjectMeta("q", "default"), QuotaSpec({"limits.nvidia.com/gpumem": amount}))


def test_room_in_a_quota_calls_as_many_as_it_has_room_for():
    server = Server(node("a", gpus=4))
    server.cluster.quotas.upsert(quota(1000))
    for name in ("p", "q", "r"):
        assert not server.ask(name, memory=2000)
    assert server.pass_(5) == []
    server.cluster.quotas.upsert(quota(4000))
    server.pending.invalidate()
    assert server.pass_(CALLED) == ["p", "q"]


def test_a_place_that_was_kept_for_somebody_else_and_given_up_calls():
    server = Server(node("a", gpus=1))
    assert server.ask("holder", memory=6000)
    assert not server.ask("p", memory=6000)
    server.reservations.release("default/holder")
    assert server.pass_(CALLED) == ["p"]


def test_a_pod_is_called_at_most_every_five_seconds_and_less_often_if_it_never_comes():
    server = full()
    server.ask("p", memory=3000)
    server.end("x")
    times = [server.now for _ in range(6000) if server.pass_(INTERVAL)]
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps[:5] == [10, 20, 40, 80, 160]
    assert set(gaps[5:]) == {round(LONGEST_BACKOFF)}


def test_a_pod_that_lost_a_race_for_its_place_is_called_soon_again():
    server = full()
    server.ask("p", memory=3000)
    for number in range(10):
        server.end("x")
        assert server.pass_(CALLED) == ["p"], number
        # Somebody else was faster; then p is asked about.
        server.cluster.upsert_pod(running("x", on="a", memory=4000))
        assert not server.ask("p", memory=3000)
        assert server.pass_(HOLD_SECONDS) == []


def test_a_pod_that_is_bound_or_gone_is_not_called():
    server = full()
    for name in ("p", "q"):
        server.ask(name, memory=2000)
        server.pending.forget(f"default/{name}")
    server.end("x")
    assert server.pass_(10) == []


def test_who_comes_to_decide_takes_over_those_that_wait():
    ours = msgspec.structs.replace(pod("p", 1, memory=3000), spec=scheduled_by("p", "hami-scheduler"))
    others = msgspec.structs.replace(pod("q", 1, memory=3000), spec=scheduled_by("q", "volcano"))
    server = Server(node("a", gpus=1), identified(ours), identified(others), identified(pod("r", cpu="1")))
    server.pending.adopt("hami-scheduler")
    assert server.pass_(HOLD_SECONDS) == ["p"]
    server.pending.forget_all()
    assert server.pass_(60) == []


def scheduled_by(name, scheduler):
    return msgspec.structs.replace(pod(name, 1, memory=3000).spec, schedulerName=scheduler)


def test_not_more_are_called_than_can_be_waited_for():
    server = Server(*[node(f"n{number:02}", gpus=8) for number in range(5)])
    server.cluster.device_plugins.update(set(server.cluster.nodes))
    for number in range(MOST_REQUEUED + 20):
        server.ask(f"p{number:03}", memory=500)
    server.cluster.device_plugins.update(set())
    assert len(server.pass_(HOLD_SECONDS)) == MOST_REQUEUED
    assert len(server.pass_(2 * INTERVAL)) == 20


def test_a_long_trial_goes_on_at_the_next_beat_and_forgets_nobody(monkeypatch):
    server = Server(node("a", gpus=8))
    server.cluster.device_plugins.update({"a"})
    for number in range(12):
        server.ask(f"p{number:02}", memory=100 + number)
    server.cluster.device_plugins.update(set())
    ticks = iter(range(10**9))
    monkeypatch.setattr(server.pending, "_clock", lambda: next(ticks) * 0.002)
    assert sorted(server.pass_(20 * INTERVAL)) == [f"p{number:02}" for number in range(12)]


@given(st.data())
def test_whatever_happens_nobody_who_fits_waits_long_and_nobody_is_called_too_often(data):
    """kube-scheduler comes to pods that are called, late or not at all; nothing else brings them back."""
    server = Server(node("a", gpus=2), node("b", gpus=1))
    sizes: dict[str, int] = {}
    for step in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(("come", "go", "pass")))
        placed = [key.partition("/")[2] for key in server.cluster.holders]
        if what == "come":
            sizes[f"p{step:02}"] = memory = data.draw(st.sampled_from((1000, 3000, 6000, 8000)))
            server.ask(f"p{step:02}", memory=memory)
        elif what == "go" and placed:
            server.end(data.draw(st.sampled_from(sorted(placed))))
        else:
            called = server.pass_(INTERVAL)
            for name in called:
                if data.draw(st.booleans()):
                    server.ask(name, memory=sizes[name])
    for _ in range(int(60 / INTERVAL)):
        for name in server.pass_(INTERVAL):
            server.ask(name, memory=sizes[name])
    for task in list(server.cluster.waiting.values()):
        assert server.session.decide(task).node is None, f"{task.key} fits and waits"
    by_pod: dict[str, list[float]] = {}
    for at, name in server.calls:
        by_pod.setdefault(name, []).append(at)
    for times in by_pod.values():
        assert all(later - earlier >= HOLD_SECONDS - 1e-6 for earlier, later in pairwise(times))

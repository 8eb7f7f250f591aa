"""Virtual time: pods wait for others to leave, in their order, and the figures say what happened."""

import random
from collections.abc import Callable, Iterable
from itertools import islice

import numpy as np
import pytest

from tests.scenario import gpu, node, pod, running, scenario, session
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import MEMORY
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import main_reason
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.wire import convert
from tonnage.overview.usage import measure
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.simulator.measure import WaitTimes, wait_times
from tonnage.simulator.objects import EPOCH
from tonnage.simulator.placer import ClassPlacer, CyclePlacer, Outcome, Placer
from tonnage.simulator.replay import Replay
from tonnage.simulator.workloads.demo import Arrival, demo_arrivals, demo_nodes


def replay(nodes: Iterable[Node], arrivals: Iterable[Arrival], **policies: str) -> Replay:
    cluster = scenario(*nodes)
    return Replay(cluster, ClassPlacer(cluster, session(cluster, **policies)), arrivals)


def quickly(cluster: Cluster) -> Placer:
    return ClassPlacer(cluster, Session(cluster, default_plugins()))


def invented(seed: int, nodes: int = 5, gpus: int = 4, placer: Callable[[Cluster], Placer] = quickly) -> Replay:
    rng = random.Random(seed)
    cluster = Cluster(default_vendors())
    for one in demo_nodes(nodes, gpus, rng):
        cluster.upsert_node(one)
    return Replay(cluster, placer(cluster), demo_arrivals(nodes, gpus, rng))


def whole(name: str, *, priority: int = 0, created: str | None = None, **more: str) -> Pod:
    """A pod that wants a card for itself."""
    return pod(name, 1, priority=priority, created=created, **more)


def runs(simulated: Replay, name: str) -> bool:
    return f"default/{name}" in simulated.cluster.holders


def waits_for(simulated: Replay, name: str) -> str:
    return simulated.why(simulated.waiting[f"default/{name}"].task)


# -- arriving, waiting and leaving


def test_a_pod_waits_until_another_leaves_and_then_runs():
    simulated = replay([node("a", gpus=1)], [Arrival(0, 100, whole("first")), Arrival(10, 50, whole("second"))])
    simulated.advance(99.9)
    assert runs(simulated, "first")
    assert not runs(simulated, "second")
    assert waits_for(simulated, "second") == "0 of 1 nodes fit: 1 CardInsufficientMemory"
    simulated.advance(100)
    assert runs(simulated, "second")
    assert not simulated.waiting
    simulated.advance(150)
    assert (simulated.arrived, simulated.placed, simulated.finished, simulated.running) == (2, 2, 2, 0)
    assert simulated.summary().wait_seconds == WaitTimes(mean=45.0, p50=0.0, p95=90.0, max=90.0)
    assert simulated.waited_for == {"CardInsufficientMemory": 1}
    assert not simulated.cluster.holders
    assert not simulated.cluster.reserved


def test_the_cluster_is_told_the_virtual_time():
    at = replay([node("a")], [Arrival(90, 10, whole("p"))])
    at.advance(90)
    assert at.cluster.now == EPOCH.timestamp() + 90


def test_a_card_that_becomes_free_is_there_for_a_pod_that_arrives_at_the_same_time():
    simulated = replay([node("a", gpus=1)], [Arrival(0, 60, whole("first")), Arrival(60, 60, whole("second"))])
    simulated.advance(60)
    assert runs(simulated, "second")
    assert not simulated.waited_for


def test_who_waits_is_served_by_priority_then_age_then_name():
    arrivals = [
        Arrival(0, 100, whole("holder")),
        Arrival(1, 100, whole("low", created="2026-01-01T00:00:00Z")),
        Arrival(2, 100, whole("young", priority=5, created="2026-01-01T00:00:20Z")),
        Arrival(3, 100, whole("b-old", priority=5, created="2026-01-01T00:00:10Z")),
        Arrival(3, 100, whole("a-old", priority=5, created="2026-01-01T00:00:10Z")),
    ]
    simulated = replay([node("a", gpus=1)], arrivals)
    simulated.advance(99)
    order = ["a-old", "b-old", "young", "low"]
    assert [one.task.pod.metadata.name for one in simulated.queue(10)] == order
    for turn, name in enumerate(order, start=1):
        simulated.advance(100.0 * turn)
        assert runs(simulated, name), name


def test_pods_that_arrive_together_are_served_in_their_order():
    arrivals = [Arrival(5, 10, whole("late", priority=1)), Arrival(5, 10, whole("urgent", priority=9))]
    simulated = replay([node("a", gpus=1)], arrivals)
    simulated.advance(5)
    assert runs(simulated, "urgent")
    assert not runs(simulated, "late")


def test_a_small_pod_passes_a_big_one_that_does_not_fit():
    arrivals = [
        Arrival(0, 100, pod("x", 1)),
        Arrival(1, 10, pod("big", 2, priority=9)),
        Arrival(2, 10, pod("small", 1)),
    ]
    simulated = replay([node("a", gpus=2)], arrivals)
    simulated.advance(2)
    assert runs(simulated, "small")
    assert waits_for(simulated, "big").startswith("0 of 1 nodes fit: 1 ")


def test_a_pod_that_makes_no_sense_waits_and_says_why():
    simulated = replay([node("a", gpus=1)], [Arrival(0, 10, pod("odd", 1, memory="lots"))])
    simulated.advance(1000)
    assert "InvalidRequest" in waits_for(simulated, "odd")
    assert simulated.waited_for == {"InvalidRequest": 1}


def test_nothing_ever_arrives():
    simulated = replay([node("a", gpus=1)], [])
    simulated.advance(3600)
    summary = simulated.summary()
    assert (simulated.now, summary.pods.arrived, summary.gpu_memory_percent.mean) == (3600, 0, 0.0)


def test_a_cluster_without_nodes_keeps_everybody_waiting():
    simulated = replay([], [Arrival(0, 10, pod("p", 1))])
    simulated.advance(60)
    assert len(simulated.waiting) == 1
    assert simulated.waited_for == {"NoNodes": 1}
    assert simulated.summary().fragmentation_percent.final == 0.0


def test_pods_that_are_told_apart_only_by_an_annotation_do_not_share_their_fate():
    """One asks for idle cards only and fails; the other, otherwise alike, joins the used card in the same moment."""
    mutex = {"hami.io/gpu-scheduler-policy": "mutex"}
    arrivals = [
        Arrival(0, 100, pod("holder", 1, memory=1000)),
        Arrival(1, 10, pod("alone", 1, memory=1000, annotations=mutex, priority=9)),
        Arrival(1, 10, pod("friendly", 1, memory=1000)),
    ]
    simulated = replay([node("a", gpus=1)], arrivals)
    simulated.advance(1)
    assert runs(simulated, "friendly")
    assert not runs(simulated, "alone")


# -- pods that are moved


def test_a_pod_that_is_moved_for_another_runs_where_there_was_found_to_be_room():
    """One pod on each of two nodes, and one that wants two cards: somebody joins the other, and all three run."""
    cluster = scenario(node("n1", gpus=2), node("n2", gpus=2))
    placer = CyclePlacer(cluster, default_plugins("spread"), make_actions(["allocate", "consolidation"]))
    preemptible = {"volcano.sh/preemptable": "true"}
    small = [Arrival(when, 100.0, whole(name, annotations=preemptible)) for name, when in (("x", 0.0), ("y", 1.0))]
    large = Arrival(10.0, 50.0, pod("large", 2, annotations=preemptible))
    simulated = Replay(cluster, placer, [*small, large])
    simulated.advance(9)
    before = dict(cluster.holders)
    assert set(before.values()) == {"n1", "n2"}
    simulated.advance(10)
    (moved,) = [key for key in before if cluster.holders[key] != before[key]]
    assert cluster.holders["default/large"] == before[moved]
    assert cluster.running.keys() == cluster.holders.keys()
    assert (simulated.placed, simulated.stopped, simulated.waiting) == (3, 1, {})
    assert simulated.decisions == 3
    simulated.advance(109)
    assert [*cluster.holders] == [moved]
    simulated.advance(110)
    assert not cluster.holders
    assert (cluster.columns.card_free == cluster.columns.card_total).all()


# -- the same as without short cuts


class Patient(Placer):
    """Tries every waiting pod after everything that happens."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.session = Session(cluster, default_plugins())

    def arrive(self, task):
        pass

    def about(self, task):
        return None

    def place(self, departed):
        tasks = sorted(self.cluster.waiting.values(), key=lambda task: task.order)
        placed = [task for task in tasks if self.session.place(task).node is not None]
        for task in placed:
            self.cluster.confirm(task.key)
        return Outcome(placed)


def by_actions(cluster):
    return CyclePlacer(cluster, default_plugins(), make_actions())


@pytest.mark.parametrize("placer", [Patient, by_actions])
@pytest.mark.parametrize("seed", range(3))
def test_leaving_out_hopeless_attempts_loses_no_placement(seed, placer):
    quick, patient = invented(seed), invented(seed, placer=placer)
    for minute in range(0, 6 * 60, 15):
        quick.advance(minute * 60.0)
        patient.advance(minute * 60.0)
        assert quick.cluster.holders == patient.cluster.holders
        assert list(quick.waiting) == list(patient.waiting)
    assert quick.waited_for
    assert quick.summary().wait_seconds == patient.summary().wait_seconds


def test_the_same_seed_gives_the_same_however_time_is_cut():
    at_once, in_steps = invented(3), invented(3)
    at_once.advance(4 * 3600)
    for step in range(1, 4 * 3600 // 7 + 1):
        in_steps.advance(step * 7.0)
    in_steps.advance(4 * 3600)
    assert at_once.summary() == in_steps.summary()
    assert at_once.cluster.holders == in_steps.cluster.holders
    assert at_once.summary() != invented(4).summary()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_over_committed_and_what_is_held_is_what_runs(seed):
    simulated = invented(seed)
    for hour in range(1, 7):
        simulated.advance(hour * 3600.0)
        columns = simulated.cluster.columns
        assert (columns.card_free >= 0).all()
        assert (columns.free >= 0).all()
        assert len(simulated.cluster.holders) == simulated.running
        assert simulated.cluster.waiting.keys() == simulated.waiting.keys()
        assert simulated.arrived == simulated.placed + len(simulated.waiting)
        used = sum(
            card.memory
            for state in simulated.cluster.states
            for holding in state.holdings.values()
            for use in holding.vendors
            for card in use.cards
        )
        assert used == (columns.card_total - columns.card_free)[MEMORY].sum()
    assert not list(simulated.cluster.problems())


def test_everything_is_free_again_when_all_have_left():
    rng = random.Random(1)
    cluster = Cluster(default_vendors())
    for one in demo_nodes(4, 4, rng):
        cluster.upsert_node(one)
    simulated = Replay(cluster, quickly(cluster), islice(demo_arrivals(4, 4, rng), 200))
    simulated.advance(10 * 86400)
    assert (simulated.arrived, simulated.finished, len(simulated.waiting)) == (200, 200, 0)
    assert np.array_equal(cluster.columns.card_free, cluster.columns.card_total)
    assert np.array_equal(cluster.columns.free, cluster.columns.allocatable)


# -- figures


def test_the_figures_of_a_cluster_made_by_hand():
    cluster = scenario(
        node("a", gpus=[gpu("a/0", memory=8000), gpu("a/1", index=1, memory=8000), gpu("a/2", index=2, memory=8000)]),
        node("b", gpus=1, gpu_memory=16000),
        node("c"),
        running("x", on="a", gpu=0, memory=2000, cores=25),
        running("y", on="a", gpu=1, memory=8000, cores=50),
    )
    usage = measure(cluster)
    assert usage.memory == pytest.approx(25.0)  # 10,000 of 40,000 MiB
    assert usage.cores == pytest.approx(18.75)  # 75 of 400
    assert (usage.idle, usage.partial, usage.full, usage.cards) == (2, 1, 1, 4)
    assert usage.free_nodes == 1


def test_a_card_without_compute_left_is_full():
    cluster = scenario(node("a", gpus=2, gpu_memory=8000), running("x", on="a", gpu=0, memory=4000, cores=100))
    usage = measure(cluster)
    assert (usage.idle, usage.partial, usage.full) == (1, 0, 1)


def test_a_cluster_without_nodes_has_no_cards():
    assert measure(scenario()).cards == 0


def test_fragmentation_is_the_free_part_of_all_cards_that_the_typical_pods_cannot_use():
    """A pod takes a quarter of one of four cards; to pods of whole cards, the other three quarters are of no use."""
    cluster = scenario(node("a", gpus=4, gpu_memory=8000))
    workload = convert({"workload": [{"gpus": 1}]}, FragmentationGradient.Arguments)
    placer = ClassPlacer(cluster, Session(cluster, default_plugins()))
    arrivals = [Arrival(60, 9999, pod("p", 1, memory=2000))]
    simulated = Replay(cluster, placer, arrivals, plugins=[FragmentationGradient(workload)])
    simulated.advance(180)
    summary = simulated.summary()
    assert summary.fragmentation_percent.final == pytest.approx(100 * 0.75 / 4, abs=0.1)
    assert summary.fragmentation_percent.mean == pytest.approx(summary.fragmentation_percent.final, abs=0.1)


def test_typical_pods_are_learned_with_each_sample_and_not_by_looking():
    """Half a card is left, which the one kind of pods can use and the other cannot."""
    cluster = scenario(node("a", gpus=2, gpu_memory=8000))
    arrivals = [Arrival(0, 9999, pod("half", 1, memory=4000)), Arrival(0, 9999, whole("whole"))]
    simulated = Replay(cluster, quickly(cluster), arrivals)
    simulated.advance(59)
    assert (simulated.cards.count().free, simulated.cards.count().fragmentation) == (0.5, 0.0)
    simulated.advance(60)
    assert simulated.cards.count().fragmentation == pytest.approx(100 * 0.25 / 2)


def test_means_are_taken_over_virtual_time():
    arrivals = [Arrival(0, 630, whole("first"))]
    simulated = replay([node("a", gpus=1)], arrivals)
    simulated.advance(1200)
    assert len(simulated.samples) == 20
    assert simulated.summary().gpu_memory_percent.mean == 50.0
    assert simulated.summary().gpu_memory_percent.final == 0.0


def test_percentiles_of_waiting_times_are_waits_that_happened():
    assert wait_times([]) == WaitTimes(0.0, 0.0, 0.0, 0.0)
    assert wait_times([7.0]) == WaitTimes(7.0, 7.0, 7.0, 7.0)
    assert wait_times([float(n) for n in range(100, 0, -1)]) == WaitTimes(50.5, 50.0, 95.0, 100.0)


def test_pods_still_waiting_count_with_their_time_so_far():
    simulated = replay([node("a", gpus=1)], [Arrival(0, 9999, whole("first")), Arrival(100, 1, whole("second"))])
    simulated.advance(500)
    assert simulated.summary().wait_seconds.max == 400.0


def test_the_main_reason_is_one_that_may_pass():
    """Two nodes have the wrong card for good; the pod waits for the one that is full."""
    cluster = scenario(
        node("a", gpus=[gpu("a/0", type="NVIDIA-Tesla T4")]),
        node("b", gpus=[gpu("b/0", type="NVIDIA-Tesla T4")]),
        node("c", gpus=1),
        running("x", on="c", memory=8000),
    )
    wanted = pod("p", 1, memory=1000, annotations={"nvidia.com/use-gputype": "A100"})
    assert main_reason(session(cluster).decide(make_task(wanted, cluster.vendors))) == "CardInsufficientMemory"

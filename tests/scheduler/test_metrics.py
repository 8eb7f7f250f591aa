"""What a scrape of the batch scheduler shows: cycles, plugins, queues, gangs, and what every server shows."""

import math

import pytest

from tests.extender.recording import values
from tests.groups import add, group, kai_group, kai_queue, members
from tests.scenario import node, plain, scenario
from tests.scheduler.metering import World, busy
from tonnage.framework.decision import QueueFigures
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import POINTS
from tonnage.framework.registration import CLOSE, OPEN, REDUCE
from tonnage.framework.session import Session
from tonnage.plugins.queues.proportion import Proportion
from tonnage.scheduler.metrics import MOST_QUEUES, queue_metrics
from tonnage.scheduler.stopwatch import Stopwatch


def test_shares_of_queues_are_those_of_the_last_cycle() -> None:
    found = busy().scrape()
    shares = {
        name: values(found[f"tonnage_queue_{name}"], "queue", "resource")["team", "nvidia.com/gpu"]
        for name in ("deserved", "fair_share", "allocated", "requested")
    }
    assert shares == {"deserved": 4, "fair_share": 4, "allocated": 1, "requested": 9}
    assert values(found["tonnage_queue_requested"], "queue", "resource")["team", "cpu"] == 3


def test_gangs_that_cannot_start_are_counted_and_what_waits_to_be_written() -> None:
    found = busy().scrape()
    assert found["tonnage_gangs_pending"] == {frozenset(): 1}
    for name, count in (("events", 3), ("conditions", 2), ("statuses", 1)):
        assert found[f"tonnage_{name}_queued"] == {frozenset(): count}


def test_every_action_and_plugin_is_timed() -> None:
    found = busy().scrape()
    assert values(found["tonnage_action_duration_seconds_count"], "action") == {("enqueue",): 1, ("allocate",): 1}
    spent = values(found["tonnage_plugin_duration_seconds_total"], "plugin", "point")
    assert spent["proportion", "open"] > 0
    assert spent["devices", "batch predicate"] > 0
    assert {point for _, point in spent} <= {OPEN, CLOSE, REDUCE, *(point.name for point in POINTS)}


def test_a_scrape_has_no_series_for_pods_nodes_or_cycles() -> None:
    world = busy()
    before = sum(map(len, world.scrape().values()))
    for _ in range(3):
        world.cycle_runner.run((), 0.0)
    world.parts.cluster.upsert_node(node("b", cpu="1"))
    assert sum(map(len, world.scrape().values())) == before


def test_queues_beyond_a_number_are_not_told() -> None:
    figures = {"cpu": QueueFigures(1.0, math.inf, 0.0, 0.0)}
    deserved, *_ = queue_metrics({f"q{number:04}": figures for number in range(MOST_QUEUES + 3)})
    assert len(deserved.samples) == MOST_QUEUES
    assert deserved.samples[0].labels == {"queue": "q0000", "resource": "cpu"}


def test_queues_of_kai_count_cards_as_gpus() -> None:
    cluster = scenario(plain("a", 4), *members("g", 1, 2, cpu=1))
    add(cluster, kai_queue("team", resources={"gpu": {"quota": 2}}), kai_group("g", 1, queue="team"))
    world = World(cluster, Proportion())
    world.cycle_runner.run((), 0.0)
    found = world.scrape()
    assert values(found["tonnage_queue_allocated"], "queue", "resource")["team", "gpu"] == 2
    assert values(found["tonnage_queue_deserved"], "queue", "resource")["team", "gpu"] == 2


class Fails(Plugin):
    name = "fails"

    def on_session_open(self, session: Session) -> None:
        session.add_job_valid(lambda job: 1 / 0)  # type: ignore[arg-type, return-value]


def test_failures_of_plugins_add_up_over_sessions() -> None:
    world = World(scenario(node("a", cpu="1"), *members("g", 1, cpu=1)), Fails())
    add(world.parts.cluster, group("g", 1))
    for _ in range(2):
        world.cycle_runner.run((), 0.0)
    failures = values(world.scrape()["tonnage_plugin_failures_total"], "plugin")
    assert failures["fails",] == 2
    assert failures["gang",] == 0


# -- the stopwatch


def test_time_is_added_up_by_plugin_and_point_whether_an_answer_comes_or_not() -> None:
    times = iter((0.0, 1.0, 5.0, 7.0, 10.0, 10.5))
    watch = Stopwatch(lambda: next(times), print)
    double = watch("p", "open", lambda number: 2 * number)
    assert double(4) == 8
    with pytest.raises(ZeroDivisionError):
        watch("p", "open", lambda: 1 / 0)()
    watch("q", "open", lambda: None)()
    assert watch.seconds() == {("p", "open"): 3.0, ("q", "open"): 0.5}


def test_short_answers_about_nodes_are_measured_now_and_then_and_long_ones_always() -> None:
    now, took = [0.0], [0.0]

    def answer(task: object, nodes: object) -> None:
        now[0] += took[0]

    def clock() -> float:
        reads.append(now[0])
        return now[0]

    reads: list[float] = []
    watch = Stopwatch(clock, print)
    measured = watch("p", "batch predicate", answer)
    took[0] = 2**-20
    for _ in range(1 + 160):
        measured(None, None)
    assert len(reads) == 2 * 11
    assert watch.seconds() == {("p", "batch predicate"): 161 * 2**-20}
    reads.clear()
    took[0] = 2**-10
    for _ in range(100):
        measured(None, None)
    assert len(reads) > 2 * 80
    assert watch.seconds()["p", "batch predicate"] == 161 * 2**-20 + 100 * 2**-10

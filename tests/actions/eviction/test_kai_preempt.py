"""Preempt with KAI's plugins: who goes for a more important job of the same queue, and who never does."""

import pytest

from tests.actions.eviction.making_room import (
    BUILD,
    INFERENCE,
    LARGE_SLICE,
    crowd,
    evicted,
    job,
    kai,
    node,
    promised,
    sliced,
)
from tests.groups import Outcome
from tests.plugins.queues.teams import team
from tonnage.model.timestamp import rfc3339

NOW = 1_800_000_000.0


def preempt(*things) -> Outcome:
    return kai(crowd(*things), "preempt")


def untouched(outcome: Outcome) -> bool:
    return evicted(outcome) == [] and promised(outcome) == {}


@pytest.mark.parametrize("priority", [BUILD, INFERENCE])
def test_a_more_important_job_takes_the_place_of_a_less_important_one(priority):
    outcome = preempt(node("n", 1), team("q", 5), job("low", "q", on="n"), job("high", "q", priority=priority))
    assert (evicted(outcome), promised(outcome)) == (["low-0"], {"high-0": "n"})


def test_as_many_go_as_are_needed():
    running = [job(f"r{number}", "q", on="n") for number in range(3)]
    outcome = preempt(node("n", 4), team("q", 4), *running, job("p", "q", 3, priority=BUILD))
    assert len(evicted(outcome)) == 2
    assert promised(outcome) == {"p-0": "n"}


def test_jobs_of_other_queues_stay():
    queues = [team("q", 3), team("r", 3)]
    others = job("other", "r", 3, on="n")
    assert untouched(preempt(node("n", 3), *queues, others, job("p", "q", priority=BUILD)))
    outcome = preempt(node("n", 5), *queues, others, job("own", "q", 2, on="n"), job("p", "q", 2, priority=BUILD))
    assert evicted(outcome) == ["own-0"]


def test_one_that_must_not_be_stopped_stays_even_for_a_more_important_one():
    fixed = job("fixed", "q", on="n", priority=BUILD)
    assert untouched(preempt(node("n", 1), team("q", 9), fixed, job("p", "q", priority=INFERENCE)))


def test_jobs_of_one_priority_stay():
    running = job("runs", "q", mib=60, on="n", card="x")
    assert untouched(preempt(node("n", 1), team("q", 1), running, job("p", "q", mib=50)))


def test_of_equally_important_jobs_the_younger_goes():
    running = [
        job(name, "q", on="n", priority=75, created=f"2026-01-0{age}T00:00:00Z")
        for age, name in ((1, "old"), (2, "new"))
    ]
    outcome = preempt(node("n", 2), team("q", 2), *running, job("p", "q", priority=BUILD))
    assert evicted(outcome) == ["new-0"]


def test_a_job_that_may_not_preempt_yet_stops_nobody():
    cluster = crowd(
        node("n", 1),
        team("q", 1),
        job("low", "q", on="n"),
        job("high", "q", priority=BUILD, created=rfc3339(NOW - 60), preemptionDelay="5m"),
    )
    cluster.now = NOW
    assert untouched(kai(cluster, "preempt"))
    cluster.now = NOW + 600
    assert evicted(kai(cluster, "preempt")) == ["low-0"]


def test_a_fixed_job_beyond_the_quota_stops_nobody():
    running = [job("a", "q", on="n"), job("b", "q", 3, on="n")]
    assert untouched(preempt(node("n", 4), team("q", 3), *running, job("p", "q", 4, priority=BUILD)))


def test_nobody_goes_where_that_would_not_be_enough():
    running = [job("a", "q", on="n0"), job("b", "q", 2, on="n1")]
    nodes = [node("n0", 2), node("n1", 2)]
    assert untouched(preempt(*nodes, team("q", 4), *running, job("p", "q", 4, priority=BUILD)))


def test_a_pod_that_does_not_leave_keeps_its_card_and_the_job_starts_in_the_place_of_the_other():
    cluster = crowd(node("n", 2), team("q", 2), job("gang", "q", pods=2, on="n"), job("p", "q", priority=BUILD))
    outcome = kai(cluster, "preempt")
    assert evicted(outcome) == ["gang-0", "gang-1"]
    cluster.release("default/p-0")
    cluster.restore("default/gang-1")
    cluster.remove_pod("default/gang-0")
    assert kai(cluster, "allocate").placed == {"p-0": "n"}
    assert cluster.holders["default/gang-1"] == "n"


# -- gangs and elastic jobs


def test_for_a_gang_that_fits_then_the_less_important_job_goes():
    outcome = preempt(node("n", 3), team("q", 3), job("low", "q", on="n"), job("g", "q", pods=3, priority=BUILD))
    assert (evicted(outcome), set(promised(outcome))) == (["low-0"], {"g-0", "g-1", "g-2"})


@pytest.mark.parametrize(("gpus", "quota"), [(2, 9), (6, 5)])
def test_for_a_gang_that_does_not_fit_even_then_nobody_goes(gpus, quota):
    gang = job("g", "q", 2, pods=3, priority=BUILD)
    assert untouched(preempt(node("n", gpus), team("q", quota), job("low", "q", on="n"), gang))


def test_a_gang_is_stopped_as_a_whole():
    outcome = preempt(node("n", 4), team("q", 4), job("g", "q", 2, pods=2, on="n"), job("p", "q", priority=BUILD))
    assert evicted(outcome) == ["g-0", "g-1"]


def test_elastic_jobs_each_give_up_what_they_can_spare():
    running = [job(name, "q", pods=2, minimum=1, on="n") for name in "ab"]
    outcome = preempt(node("n", 4), team("q", 4), *running, job("p", "q", 2, priority=INFERENCE))
    assert evicted(outcome) == ["a-1", "b-1"]


def test_an_elastic_job_goes_as_a_whole_if_what_it_can_spare_is_not_enough():
    outcome = preempt(
        node("n", 3), team("q", 3), job("e", "q", pods=3, minimum=1, on="n"), job("p", "q", 3, priority=INFERENCE)
    )
    assert evicted(outcome) == ["e-0", "e-1", "e-2"]


def test_an_elastic_job_stops_others_for_its_minimum_only():
    waits = job("e", "q", pods=2, minimum=1, priority=INFERENCE)
    outcome = preempt(node("n", 2), team("q", 2), job("low", "q", 2, on="n"), waits)
    assert (evicted(outcome), promised(outcome)) == (["low-0"], {"e-0": "n"})


def test_an_elastic_job_that_runs_stops_others_to_grow():
    running = [
        job("low", "q", pods=2, minimum=1, on="n"),
        job("e", "q", pods=2, minimum=1, on=["n", ""], priority=BUILD),
    ]
    outcome = preempt(node("n", 3), team("q", 3), *running)
    assert (evicted(outcome), promised(outcome)) == (["low-1"], {"e-1": "n"})


# -- parts of cards and MIG instances


@pytest.mark.parametrize("asked", [{"gpus": 0.6}, {"mib": 60}])
def test_a_part_goes_for_a_larger_part_and_the_whole_card_stays(asked):
    older, younger = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    running = [job("whole", "q", on="n", created=older), job("small", "q", 0.5, on="n", card="x", created=younger)]
    outcome = preempt(node("n", 2), team("q", 2), *running, job("p", "q", priority=BUILD, **asked))
    assert (evicted(outcome), promised(outcome)) == (["small-0"], {"p-0": "n"})


def test_of_parts_of_one_card_the_less_important_goes():
    running = [job("a", "q", mib=30, on="n", card="x"), job("b", "q", mib=50, on="n", card="x", priority=40)]
    outcome = preempt(node("n", 1), team("q", 1), *running, job("p", "q", mib=60, priority=BUILD))
    assert evicted(outcome) == ["b-0"]


def test_instances_are_taken_by_more_important_jobs_of_the_queue():
    asks = {LARGE_SLICE: 1}
    queues, high = [team("q", 1), team("r", 1)], job("p", "q", 0, asks=asks, priority=BUILD)
    outcome = preempt(sliced("n", large=1), *queues, job("low", "q", 0, asks=asks, on="n"), high)
    assert (evicted(outcome), promised(outcome)) == (["low-0"], {"p-0": "n"})
    assert untouched(preempt(sliced("n", large=1), *queues, job("low", "r", 0, asks=asks, on="n"), high))
    fixed = job("low", "q", 0, asks=asks, on="n", priority=BUILD)
    assert untouched(preempt(sliced("n", large=1), *queues, fixed, high))

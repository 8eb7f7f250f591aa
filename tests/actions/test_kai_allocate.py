"""Allocate with KAI's plugins: quotas and limits of queues, gangs, elastic jobs, parts of cards, MIG instances."""

from typing import Any

import pytest

from tests.actions.eviction.making_room import (
    BUILD,
    LARGE_SLICE,
    SLICE,
    crowd,
    evicted,
    job,
    kai,
    node,
    promised,
    sliced,
)
from tests.groups import kai_queue
from tests.plugins.queues.teams import team
from tests.scenario import plain, usage
from tonnage.cluster.jobs.group import KAI_GROUP

CYCLE = ("allocate", "consolidation", "reclaim", "preempt")


def started(*things: Any, actions: tuple[str, ...] = ("allocate",)) -> dict[str, str | None]:
    """The nodes of pods that start at once."""
    return kai(crowd(*things), *actions).placed


# -- elastic jobs and gangs


def test_an_elastic_job_starts_what_fits_and_the_rest_waits():
    outcome = kai(crowd(node("n", 3), team("q", 1), job("e", "q", pods=5, minimum=2)), "allocate")
    assert (set(outcome.placed), outcome.waiting) == ({"e-0", "e-1", "e-2"}, set())
    assert outcome.decisions["e-3"].node is None


def test_an_elastic_job_that_runs_grows_while_there_is_room():
    grows = job("e", "q", pods=3, minimum=1, on=["n", "", ""])
    outcome = kai(crowd(node("n", 2), team("q", 1), grows), "allocate")
    assert outcome.placed == {"e-1": "n"}
    assert outcome.decisions["e-2"].node is None


@pytest.mark.parametrize("nodes", [[4], [2, 2], [1, 3]])
def test_a_gang_starts_on_one_node_or_over_several(nodes):
    machines = [node(f"n{place}", gpus) for place, gpus in enumerate(nodes)]
    assert len(started(*machines, team("q", 4), job("g", "q", pods=4, priority=BUILD))) == 4


def test_a_gang_for_which_one_card_is_missing_starts_no_pod():
    assert started(node("n", 5), team("q", 9), job("g", "q", 3, pods=2)) == {}


def test_a_gang_that_must_not_be_stopped_stays_within_the_quota_with_all_its_pods():
    gang = job("g", "q", 2, pods=3, priority=BUILD)
    assert started(node("n", 8), team("q", 5), gang) == {}
    assert len(started(node("n", 8), team("q", 6), gang)) == 3


def test_a_gang_waits_as_a_whole_for_a_card_that_will_be_free():
    leaves = job("old", "q", on="n", leaving=True)
    outcome = kai(crowd(node("n", 6), team("q", 4), leaves, job("g", "q", 3, pods=2)), "allocate")
    assert outcome.placed == {}
    assert promised(outcome) == {"g-0": "n", "g-1": "n"}


def test_a_pod_that_still_runs_although_it_was_told_to_leave_keeps_its_card():
    outcome = kai(crowd(node("n", 1), team("q", 1), job("old", "q", on="n"), job("p", "q")), "allocate")
    assert (outcome.placed, promised(outcome)) == ({}, {})


def test_without_nodes_everybody_waits():
    assert started(team("q", 1), team("r", 0), job("a", "q"), job("b", "r")) == {}


# -- queues


def test_what_is_free_goes_to_the_queue_that_is_below_its_quota():
    queues = [team("full", 3), team("below", 2)]
    waiting = [job("a", "full"), job("b", "below", 2)]
    assert started(node("n", 5), *queues, job("runs", "full", 3, on="n"), *waiting) == {"b-0": "n"}


def test_a_queue_without_a_quota_gets_what_is_left():
    queues = [team("nothing", 0, weight=0), team("q", 2)]
    assert started(node("n", 2), *queues, job("a", "nothing"), job("b", "q", 2)) == {"b-0": "n"}


def test_queues_of_equal_quota_take_turns():
    queues = [team("q", 1), team("r", 1)]
    wanted = [job(f"{of}{number}", of) for of in "qr" for number in range(4)]
    assert sorted(started(node("n", 6), *queues, *wanted)) == [f"{of}{number}-0" for of in "qr" for number in range(3)]


def test_of_queues_that_all_fill_their_quota_the_oldest_are_served():
    queues = [team(f"q{n}", 1, created=f"2026-01-0{n + 1}T00:00:00Z") for n in range(5)]
    wanted = [job(f"j{n}", f"q{n}") for n in range(5)]
    assert sorted(started(node("n", 3), *queues, *wanted)) == ["j0-0", "j1-0", "j2-0"]


def test_jobs_that_may_be_stopped_go_beyond_the_quota_and_others_do_not():
    machine, queue = node("n", 4), team("q", 1)
    assert len(started(machine, queue, job("fixed", "q", priority=BUILD), job("more", "q"))) == 2
    assert started(machine, queue, job("fixed", "q", 2, priority=BUILD)) == {}


def test_one_that_may_be_stopped_does_not_use_up_the_quota_of_one_that_may_not():
    runs = job("runs", "q", 3, on="n")
    assert started(node("n", 6), team("q", 3), runs, job("fixed", "q", 3, priority=BUILD)) == {"fixed-0": "n"}


def test_a_limit_holds_although_cards_are_free():
    queues = [team("top", 3), team("q", 3, limit=3, parentQueue="top")]
    assert len(started(node("n", 8), *queues, job("a", "q", 3), job("b", "q", 1))) == 1


def test_a_limit_of_cpu_holds_although_cards_are_free():
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    limited = kai_queue("q", resources={"gpu": free, "cpu": {**free, "limit": 5000}, "memory": free})
    wanted = [job(name, "q", asks={"cpu": 3}) for name in "ab"]
    assert len(started(node("n", 4), limited, *wanted)) == 1


def test_a_department_that_deserves_less_than_its_team_keeps_fixed_jobs_waiting():
    queues = [team("top", 2), team("q", 3, parentQueue="top")]
    assert started(node("n", 8), *queues, job("fixed", "q", 3, priority=BUILD)) == {}
    assert len(started(node("n", 8), *queues, job("flexible", "q", 3))) == 1


def test_jobs_of_a_queue_four_levels_down_start():
    levels = [team("a", 8), team("b", 6, parentQueue="a"), team("c", 4, parentQueue="b"), team("d", 2, parentQueue="c")]
    assert started(node("n", 4), *levels, job("p", "d", 2)) == {"p-0": "n"}


def test_at_its_limit_a_queue_stops_its_own_less_important_job_and_never_the_other_way_round():
    queue = team("q", 1, limit=1)
    outcome = kai(crowd(node("n", 3), queue, job("low", "q", on="n"), job("high", "q", priority=BUILD)), *CYCLE)
    assert (evicted(outcome), promised(outcome)) == (["low-0"], {"high-0": "n"})
    outcome = kai(crowd(node("n", 3), queue, job("high", "q", on="n", priority=BUILD), job("low", "q")), *CYCLE)
    assert (evicted(outcome), outcome.placed, promised(outcome)) == ([], {}, {})


# -- parts of cards


def test_a_part_joins_the_card_that_is_shared_already():
    runs = job("runs", "q", 0.4, on="n1", card="x", priority=BUILD)
    outcome = kai(crowd(node("n0", 2), node("n1", 2), team("q", 3), runs, job("p", "q", 0.6)), "allocate")
    assert outcome.placed == {"p-0": "n1"}
    assert [used[0] for used in usage(outcome.session.cluster, "n1")] == [2, 0]


def test_a_part_that_does_not_fit_beside_another_gets_the_next_card():
    runs = job("runs", "q", 0.4, on="n", card="x")
    outcome = kai(crowd(node("n", 2), team("q", 2), runs, job("p", "q", 0.7), job("s", "q", 0.3)), "allocate")
    assert outcome.placed == {"p-0": "n", "s-0": "n"}
    assert sorted(used[0] for used in usage(outcome.session.cluster, "n")) in ([1, 2], [2, 1])


def test_a_whole_card_is_not_one_that_is_shared():
    runs = job("runs", "q", 0.1, on="n", card="x")
    assert started(node("n", 2), team("q", 2), runs, job("p", "q")) == {"p-0": "n"}
    assert started(node("n", 1), team("q", 2), runs, job("p", "q")) == {}


def test_parts_that_must_not_be_stopped_count_as_parts_of_the_quota():
    runs = job("runs", "q", 0.7, on="n", card="x", priority=BUILD)
    assert started(node("n", 2), team("q", 1), runs, job("p", "q", 0.4, priority=BUILD)) == {}
    assert len(started(node("n", 2), team("q", 1), runs, job("p", "q", 0.3, priority=BUILD))) == 1
    assert len(started(node("n", 2), team("q", 1), runs, job("p", "q", 0.4))) == 1


def test_memory_of_cards_counts_as_parts_of_the_quota():
    gang = job("g", "q", mib=30, pods=4, priority=BUILD)
    assert started(node("n", 2), team("q", 1), gang) == {}
    assert len(started(node("n", 2), team("q", 2), gang)) == 4


def test_memory_of_several_cards_counts_for_each():
    notes = {KAI_GROUP: "p", "gpu-fraction-num-devices": "2"}
    asks = job("p", "q", mib=60, priority=BUILD, each=[{"annotations": notes}])
    assert started(node("n", 2), team("q", 1), asks) == {}
    assert len(started(node("n", 2), team("q", 2), asks)) == 1


def test_a_part_of_a_card_waits_for_memory_of_the_node_that_will_be_free():
    machine = plain("n", 1, gpu_memory=100, memory=4000)
    stays = job("stays", "q", mib=25, on="n", card="x", asks={"memory": 2000})
    leaves = job("leaves", "q", 0, on="n", asks={"memory": 1500}, leaving=True)
    outcome = kai(crowd(machine, team("q", 1), stays, leaves, job("p", "q", mib=50, asks={"memory": 1200})), "allocate")
    assert (outcome.placed, promised(outcome)) == ({}, {"p-0": "n"})


def test_parts_that_leave_hold_their_cards_until_they_are_gone():
    leaving = [job(name, "q", 0.5, on="n", card=name, leaving=True) for name in "xy"]
    cluster = crowd(node("n", 3), team("q", 3), *leaving)
    kai(cluster, *CYCLE)
    assert sum(used[0] > 0 for used in usage(cluster, "n")) == 2


# -- MIG instances


def test_an_instance_is_one_of_its_own_profile():
    asks = job("p", "q", 0, asks={LARGE_SLICE: 1})
    assert started(sliced("n", large=1), team("q", 1), asks) == {"p-0": "n"}
    assert started(sliced("n", large=0), team("q", 1), asks) == {}
    assert started(sliced("n", small=2), team("q", 1), asks) == {}


def test_a_gang_of_instances_starts_as_a_whole_and_leaves_the_rest_to_a_smaller_job():
    queue = team("q", 8)
    first = job("first", "q", 0, pods=2, asks={LARGE_SLICE: 1, SLICE: 1})
    second = job("second", "q", 0, pods=2, asks={LARGE_SLICE: 1, SLICE: 1})
    third = job("third", "q", 0, asks={SLICE: 1})
    placed = started(sliced("n", large=3, small=4), queue, first, second, third)
    assert sorted(placed) == ["first-0", "first-1", "third-0"]

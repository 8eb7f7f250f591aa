"""Consolidation with KAI's plugins: who moves, who stays, and when nobody does; then gangs that lack pods."""

from tests.actions.eviction.making_room import BUILD, crowd, evicted, job, kai, moved, node, promised
from tests.groups import Outcome
from tests.plugins.queues.teams import team
from tonnage.cluster.jobs.group import STALE_SINCE
from tonnage.model.timestamp import rfc3339

NOW = 1_800_000_000.0


def consolidate(*things) -> Outcome:
    outcome = kai(crowd(*things), "consolidation")
    assert evicted(outcome) == []
    return outcome


def untouched(outcome: Outcome) -> bool:
    return outcome.session.evictions == [] and promised(outcome) == {}


def test_a_job_moves_beside_another_and_one_that_fits_nowhere_waits():
    running = [job("a", "q", 2, on="n0"), job("b", "q", on="n1"), job("c", "q", 2, on="n1")]
    waiting = [job("large", "q", 3, pods=2), job("p", "q", 3)]
    outcome = consolidate(node("n0", 4), node("n1", 4), team("q", 2), *running, *waiting)
    assert (moved(outcome), promised(outcome)) == ({"c-0": "n0"}, {"p-0": "n1"})


def test_nobody_moves_where_no_move_makes_room():
    running = [job("a", "q", 3, on="n0"), job("b", "q", 3, on="n1")]
    for gpus in (2, 3):
        assert untouched(consolidate(node("n0", 4), node("n1", 4), team("q", 9), *running, job("p", "q", gpus)))


def test_jobs_of_other_queues_move_too():
    queues = [team("q", 1), team("r", 1)]
    running = [job("a", "q", 2, on="n0"), job("b", "r", on="n0"), job("c", "r", 3, on="n1")]
    outcome = consolidate(node("n0", 4), node("n1", 4), *queues, *running, job("p", "q", 2))
    assert (moved(outcome), promised(outcome)) == ({"b-0": "n1"}, {"p-0": "n0"})


def test_the_less_important_job_moves():
    running = [job("low", "q", 2, on="n0"), job("high", "q", 2, on="n1", priority=75)]
    outcome = consolidate(node("n0", 4), node("n1", 4), team("q", 2), *running, job("p", "q", 3))
    assert (moved(outcome), promised(outcome)) == ({"low-0": "n1"}, {"p-0": "n0"})


def test_fixed_jobs_stay_and_nobody_moves_for_them():
    nodes, queue = [node("n0", 2), node("n1", 2)], team("q", 4)
    running = [job(name, "q", on=on, priority=BUILD) for name, on in (("a", "n0"), ("b", "n1"))]
    assert untouched(consolidate(*nodes, queue, *running, job("p", "q", 2)))
    running = [job(name, "q", on=on) for name, on in (("a", "n0"), ("b", "n1"))]
    assert untouched(consolidate(*nodes, queue, *running, job("p", "q", 2, priority=BUILD)))


def test_what_an_elastic_job_can_spare_moves_if_there_is_room_for_it():
    elastic = job("e", "q", 2, minimum=1, on=["n0", "n1"])
    outcome = consolidate(node("n0", 4), node("n1", 3), team("q", 2), elastic, job("p", "q", 3))
    assert (moved(outcome), promised(outcome)) == ({"e-1": "n0"}, {"p-0": "n1"})
    full = job("e", "q", 2, minimum=1, on=["n0", "n0", "n1"])
    assert untouched(consolidate(node("n0", 4), node("n1", 3), team("q", 2), full, job("p", "q", 3)))


def test_parts_of_cards_come_together_so_that_a_gang_gets_cards():
    running = [job(name, "q", mib=30, on=f"n{place}", card=name) for place, name in enumerate("xyz")]
    nodes = [node(f"n{place}", 1) for place in range(3)]
    outcome = consolidate(*nodes, team("q", 3), *running, job("p", "q", mib=80, pods=2))
    assert (set(moved(outcome).values()), len(moved(outcome))) == ({"n0"}, 2)
    assert set(promised(outcome).values()) == {"n1", "n2"}


def test_a_queue_at_its_limit_moves_nobody():
    running = [job(name, "q", on=on) for name, on in (("a", "n0"), ("b", "n1"))]
    assert untouched(consolidate(node("n0", 2), node("n1", 2), team("q", 2, limit=2), *running, job("p", "q", 2)))


# -- gangs that lack pods


def test_a_gang_that_lost_a_pod_and_gets_none_back_goes_and_frees_its_cards():
    stale = {STALE_SINCE: rfc3339(NOW - 3600)}
    gang = job("g", "q", pods=2, on=["n", ""], annotations=stale)
    cluster = crowd(node("n", 2), team("q", 1), gang, job("other", "q", on="n"))
    cluster.now = NOW
    outcome = kai(cluster, "allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    assert (evicted(outcome), outcome.placed) == (["g-0"], {})


def test_a_gang_that_gets_its_pod_back_in_the_same_cycle_stays():
    stale = {STALE_SINCE: rfc3339(NOW - 3600)}
    gang = job("g", "q", pods=2, on=["n", ""], annotations=stale)
    cluster = crowd(node("n", 2), team("q", 2), gang)
    cluster.now = NOW
    outcome = kai(cluster, "allocate", "stalegangeviction")
    assert (evicted(outcome), outcome.placed) == ([], {"g-1": "n"})

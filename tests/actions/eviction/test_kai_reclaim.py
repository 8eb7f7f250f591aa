"""Reclaim with KAI's plugins: what a queue takes back from others, and what it must leave them."""

from typing import Any

import pytest

from tests.actions.eviction.making_room import (
    BUILD,
    INFERENCE,
    SLICE,
    crowd,
    evicted,
    job,
    kai,
    moved,
    node,
    promised,
    sliced,
)
from tests.groups import Outcome, kai_queue
from tests.plugins.queues.teams import team
from tests.scenario import node as bare
from tonnage.cluster.jobs.queue import KAI_PRIORITY
from tonnage.model.timestamp import rfc3339

NOW = 1_800_000_000.0


def reclaim(*things: Any) -> Outcome:
    return kai(crowd(*things), "reclaim")


def untouched(outcome: Outcome) -> bool:
    return outcome.session.evictions == [] and promised(outcome) == {}


def aged(name: str, of: str, gpus: float = 1, age: int = 0, **more: Any) -> list[Any]:
    """A job that is that many days old."""
    return job(name, of, gpus, created=rfc3339(NOW - 86_400 * age), **more)


# -- quotas and shares


def test_a_queue_below_its_quota_takes_back_from_one_beyond_it():
    outcome = reclaim(node("n", 3), team("q", 2), team("r", 1), job("runs", "q", 3, on="n"), job("p", "r"))
    assert (evicted(outcome), promised(outcome)) == (["runs-0"], {"p-0": "n"})


def test_a_queue_within_its_quota_gives_nothing_up():
    running = [job("a", "q", on="n"), job("b", "q", on="n")]
    assert untouched(reclaim(node("n", 2), team("q", 3), team("r", 3), *running, job("p", "r"), job("s", "r")))


def test_jobs_that_must_not_be_stopped_stay():
    running = [job(name, "q", on="n", priority=INFERENCE) for name in "ab"]
    assert untouched(reclaim(node("n", 2), team("q", 1, weight=0), team("r", 1, weight=0), *running, job("p", "r")))


def test_a_queue_of_unlimited_quota_gives_nothing_up():
    queues = [team("q", -1, weight=0), team("r", 2, weight=0)]
    assert untouched(reclaim(node("n", 4), *queues, job("runs", "q", 4, on="n"), job("p", "r", 2)))


def test_a_fixed_job_takes_back_no_more_than_the_quota_and_the_next_one_is_tried():
    queues = [team("q", 0, weight=0), team("r", 1)]
    waiting = [aged("large", "r", 2, 2, priority=BUILD), aged("fits", "r", 1, 1, priority=BUILD)]
    outcome = reclaim(node("n", 2), *queues, job("runs", "q", 2, on="n"), *waiting)
    assert (evicted(outcome), promised(outcome)) == (["runs-0"], {"fits-0": "n"})


def test_the_more_important_job_of_the_queue_gets_what_is_taken_back():
    waiting = [job("low", "r"), job("high", "r", priority=BUILD)]
    outcome = reclaim(node("n", 2), team("q", 1), team("r", 1), job("runs", "q", 2, on="n"), *waiting)
    assert promised(outcome) == {"high-0": "n"}


def test_what_is_beyond_the_quotas_is_shared_by_weight():
    queues = [team("q", 1, weight=3), team("r", 2, weight=1)]
    running = [job("a", "q", on="n"), job("b", "r", 2, on="n"), aged("c", "r", 1, 1, on="n")]
    outcome = reclaim(node("n", 4), *queues, *running, job("p", "q", 1))
    assert (evicted(outcome), promised(outcome)) == (["c-0"], {"p-0": "n"})


def test_a_job_beyond_the_fair_share_takes_nothing_back():
    queues = [team("q", 2, weight=2), team("r", 1, weight=1)]
    assert untouched(reclaim(node("n", 4), *queues, job("runs", "q", 3, on="n"), job("p", "r", 2)))


def test_the_youngest_jobs_go_until_the_owner_has_its_share():
    queues = [team("q", 4, weight=4), team("r", 2, weight=2)]
    running = [aged("large", "q", 5, 9, on="n"), *[aged(f"s{n}", "q", 1, 4 - n, on="n") for n in range(3)]]
    outcome = reclaim(node("n", 8), *queues, *running, job("p", "r", 2))
    assert (evicted(outcome), promised(outcome)) == (["s1-0", "s2-0"], {"p-0": "n"})


def test_a_queue_of_higher_priority_takes_from_both_others():
    queues = [team("q", 1, weight=2), team("r", 1, weight=1), team("first", 0, priority=KAI_PRIORITY + 1)]
    running = [job(f"a{n}", "q", on="n") for n in range(4)] + [job(f"b{n}", "r", on="n") for n in range(3)]
    outcome = reclaim(node("n", 7), *queues, *running, job("p", "first", 3))
    assert promised(outcome) == {"p-0": "n"}
    assert {name[0] for name in evicted(outcome)} == {"a", "b"}


def test_a_queue_that_uses_cards_without_a_share_of_them_gives_up_its_last_pod_first():
    """Its only pod counts while it runs, whatever the queue would hold without it."""
    queues = [team("q", 1), team("r", 1), team("none", 0, weight=0)]
    running = [aged("old", "q", 2, 2, on="n"), aged("young", "q", 1, 1, on="n"), aged("last", "none", 1, 3, on="n")]
    outcome = reclaim(node("n", 4), *queues, *running, job("p", "r"))
    assert (evicted(outcome), promised(outcome)) == (["last-0"], {"p-0": "n"})


def test_a_job_that_may_not_reclaim_yet_takes_nothing():
    cluster = crowd(
        node("n", 2),
        team("q", 1),
        team("r", 1),
        job("runs", "q", 2, on="n"),
        job("p", "r", created=rfc3339(NOW - 60), preemptionDelay="5m"),
    )
    cluster.now = NOW
    assert untouched(kai(cluster, "reclaim"))
    cluster.now = NOW + 600
    assert evicted(kai(cluster, "reclaim")) == ["runs-0"]


# -- departments


def departments(first: float, second: float) -> list[Any]:
    return [team("d", first), team("e", second)]


def test_departments_take_back_from_each_other():
    below = [team("q", 1, parentQueue="d"), team("r", 1, parentQueue="e")]
    running = [job("low", "q", on="n"), job("fixed", "q", on="n", priority=BUILD)]
    for priority in (50, BUILD):
        outcome = reclaim(node("n", 2), *departments(1, 1), *below, *running, job("p", "r", priority=priority))
        assert (evicted(outcome), promised(outcome)) == (["low-0"], {"p-0": "n"})


def test_a_team_does_not_take_more_than_its_department_may_have():
    below = [team("q", 1, parentQueue="d"), team("r", 1, parentQueue="e"), team("s", 1, parentQueue="e")]
    running = [job("a", "q", 3, on="n"), job("b", "r", on="n", priority=BUILD)]
    assert untouched(reclaim(node("n", 4), *departments(2, 2), *below, *running, job("p", "r", 2)))


def test_a_department_within_its_quota_loses_nothing_to_another_team_beyond_its_own():
    below = [team("q", 1, weight=0, parentQueue="d"), team("r", 1, weight=0, parentQueue="e")]
    running = [job("a", "q", on="n0"), job("b", "r", on="n1", priority=BUILD)]
    nodes = [node("n0", 1), node("n1", 1)]
    assert untouched(reclaim(*nodes, *departments(2, 2), *below, *running, job("p", "r")))


def test_within_a_department_a_team_takes_from_the_one_beside_it():
    below = [team("q", 2, weight=0, parentQueue="d")]
    below += [team("r", 2, weight=0, parentQueue="e"), team("s", 1, weight=0, parentQueue="e")]
    running = [job("a", "q", 2, on="n"), aged("b", "r", 2, 2, on="n"), aged("c", "r", 1, 1, on="n")]
    outcome = reclaim(node("n", 5), *departments(2, 3), *below, *running, job("p", "s"))
    assert (evicted(outcome), promised(outcome)) == (["c-0"], {"p-0": "n"})


def test_what_one_team_may_have_is_taken_from_its_own_department_and_from_another():
    queues = [team("d", 0), team("e", 4), team("q", 1, parentQueue="d")]
    queues += [team("r", 0, weight=0, parentQueue="e"), team("s", 4, weight=4, parentQueue="e")]
    running = [job("a", "q", 2, on="n"), job("b", "r", 2, on="n")]
    outcome = reclaim(node("n", 4), *queues, *running, job("p", "s", 4))
    assert (evicted(outcome), promised(outcome)) == (["a-0", "b-0"], {"p-0": "n"})


def test_a_protected_queue_beside_the_victims_does_not_keep_them():
    queues = [team("top", 9), team("org", 5, parentQueue="top", priority=KAI_PRIORITY + 10)]
    queues += [team("mine", 3, parentQueue="org", priority=75), team("batch", 0, parentQueue="org", priority=25)]
    queues += [team("safe", 3, parentQueue="top")]
    running = [job("keep", "safe", 2, on="n0"), job("a", "batch", 2, on="n1"), job("b", "batch", 2, on="n2")]
    outcome = reclaim(*[node(f"n{n}", 2) for n in range(3)], node("spare", 1), *queues, *running, job("p", "mine", 2))
    assert len(evicted(outcome)) == 1
    assert evicted(outcome)[0] in ("a-0", "b-0")
    assert set(promised(outcome)) == {"p-0"}


# -- gangs and elastic jobs


def test_a_gang_takes_one_job_on_each_node():
    running = [job(f"r{n}", "q", on=f"n{n}") for n in range(3)]
    nodes = [node(f"n{n}", 1) for n in range(3)]
    outcome = reclaim(*nodes, team("q", 0, weight=0), team("r", 2), *running, job("g", "r", pods=3))
    assert (evicted(outcome), len(promised(outcome))) == (["r0-0", "r1-0", "r2-0"], 3)


def test_for_a_gang_one_of_whose_pods_has_no_node_nobody_goes():
    gang = job("g", "r", pods=3, each=[{}, {}, {"selector": {"rack": "none"}}])
    running = [job(f"r{n}", "q", on=f"n{n}") for n in range(3)]
    nodes = [node(f"n{n}", 1) for n in range(3)]
    assert untouched(reclaim(*nodes, team("q", 0, weight=0), team("r", 2), *running, gang))


def test_a_gang_that_would_leave_its_queue_beyond_its_share_takes_nothing():
    running = [job(f"r{n}-{m}", "q", on=f"n{n}") for n in range(3) for m in range(3)]
    nodes = [node(f"n{n}", 3) for n in range(3)]
    assert untouched(reclaim(*nodes, team("q", 8, weight=0), team("r", 3), *running, job("g", "r", pods=3)))


def test_a_fixed_gang_beyond_the_quota_takes_nothing():
    queues = [team("q", 0, weight=0), team("r", 3)]
    gang = job("g", "r", 2, pods=2, priority=BUILD)
    assert untouched(reclaim(node("n", 8), *queues, job("runs", "q", 8, on="n"), gang))


def test_a_gang_that_runs_is_lost_as_a_whole():
    outcome = reclaim(
        node("n", 3), team("q", 0, weight=0), team("r", 3), job("g", "q", pods=3, on="n"), job("p", "r", 3)
    )
    assert evicted(outcome) == ["g-0", "g-1", "g-2"]


def test_three_queues_and_the_one_that_deserves_them_gets_the_cards_of_both_others():
    queues = [team("q", 0, weight=0), team("r", 1, weight=0), team("s", 3, weight=0)]
    running = [aged("a", "q", 1, 4, on="n0"), aged("b", "r", 1, 3, on="n0")]
    running += [aged("c", "q", 1, 2, on="n1"), aged("d", "r", 1, 1, on="n1")]
    outcome = reclaim(node("n0", 2), node("n1", 2), *queues, *running, job("g", "s", pods=3))
    assert evicted(outcome) == ["a-0", "c-0", "d-0"]


@pytest.mark.parametrize(("wanted", "gone"), [(1, ["a-1"]), (2, ["a-1", "b-1"])])
def test_elastic_jobs_lose_what_they_can_spare(wanted, gone):
    running = [aged("b", "q", 1, 2, pods=2, minimum=1, on="n"), aged("a", "q", 1, 1, pods=2, minimum=1, on="n")]
    outcome = reclaim(node("n", 4), team("q", 0, weight=0), team("r", 2), *running, job("p", "r", wanted))
    assert (evicted(outcome), promised(outcome)) == (gone, {"p-0": "n"})


def test_of_an_elastic_job_the_pods_of_lower_task_priority_go_first_and_the_higher_start_first():
    low, high = ({"labels": {"kai.scheduler/task-priority": text}} for text in "12")
    running = job("e", "q", pods=2, minimum=1, on="n", each=[high, low])
    waiting = job("w", "r", pods=2, minimum=1, each=[low, high])
    outcome = reclaim(node("n", 2), team("q", 1, weight=0), team("r", 1, weight=0), running, waiting)
    assert (evicted(outcome), promised(outcome)) == (["e-1"], {"w-1": "n"})


def test_an_elastic_job_grows_into_what_its_queue_deserves():
    running = [job("e", "q", pods=2, minimum=1, on="n"), job("w", "r", pods=2, minimum=1, on=["n", ""])]
    outcome = reclaim(node("n", 3), team("q", 0, weight=0), team("r", 2), *running)
    assert (evicted(outcome), promised(outcome)) == (["e-1"], {"w-1": "n"})


# -- parts of cards


def test_a_part_goes_and_the_whole_card_stays_with_its_queue():
    running = [aged("whole", "q", 1, 2, on="n"), aged("small", "q", 0.5, 1, on="n", card="x")]
    outcome = reclaim(node("n", 2), team("q", 1), team("r", 1), *running, job("p", "r"))
    assert evicted(outcome) == ["small-0"]


def test_of_two_parts_on_a_card_one_is_enough_for_a_smaller_one():
    running = [aged("whole", "q", 1, 3, on="n")]
    running += [aged(name, "q", 0.5, age, on="n", card="x") for name, age in (("older", 2), ("younger", 1))]
    outcome = reclaim(node("n", 2), team("q", 1), team("r", 1), *running, job("p", "r", 0.3))
    assert evicted(outcome) == ["younger-0"]


def test_a_part_beyond_what_its_queue_deserves_takes_nothing():
    running = [job("a", "q", on="n"), job("b", "q", 0.5, on="n", card="x"), job("c", "r", 0.5, on="n", card="x")]
    assert untouched(reclaim(node("n", 2), team("q", 1), team("r", 1), *running, job("p", "r", 0.8)))


def test_memory_of_cards_is_taken_back_like_parts():
    running = [job("a", "q", mib=60, on="n0", card="x"), job("b", "q", mib=80, on="n1", card="y", priority=40)]
    outcome = reclaim(node("n0", 1), node("n1", 1), team("q", 1), team("r", 1), *running, job("p", "r", mib=50))
    assert (evicted(outcome), promised(outcome)) == (["b-0"], {"p-0": "n1"})


def test_a_part_moves_to_another_card_instead_of_being_lost():
    queues = [team("q", 0, weight=0), team("r", 0, weight=0), team("s", 2, weight=0)]
    running = [aged("a", "q", 0.5, 2, on="n0", card="x"), aged("b", "r", 0.5, 1, on="n1", card="y")]
    outcome = reclaim(node("n0", 1), node("n1", 1), *queues, *running, job("p", "s"))
    assert (evicted(outcome), len(moved(outcome)), len(promised(outcome))) == ([], 1, 1)


def test_a_part_that_fits_on_no_other_card_is_lost():
    queues = [team("q", 0, weight=0), team("r", 0, weight=0), team("s", 2, weight=0)]
    running = [aged("a", "q", 0.7, 2, on="n0", card="x"), aged("b", "r", 0.7, 1, on="n1", card="y")]
    outcome = reclaim(node("n0", 1), node("n1", 1), *queues, *running, job("p", "s"))
    assert (len(evicted(outcome)), moved(outcome), len(promised(outcome))) == (1, {}, 1)


# -- CPU and memory


def counted(name: str, gpus: float = 0, cpu: float = -1, memory: float = -1, weight: float = 0) -> Any:
    """A queue with quotas of CPU, in thousandths, and of memory, in MB."""
    quotas = {"gpu": gpus, "cpu": cpu, "memory": memory}
    resources = {key: {"quota": value, "limit": -1, "overQuotaWeight": weight} for key, value in quotas.items()}
    return kai_queue(name, resources=resources)


def test_cpu_is_not_taken_from_a_queue_with_an_unlimited_quota_of_it():
    running = [job(name, "q", 0, on="n", asks={"cpu": 2}) for name in "ab"]
    assert untouched(
        reclaim(bare("n", cpu="4"), counted("q"), counted("r", 1), *running, job("p", "r", 0, asks={"cpu": 2}))
    )


def test_cpu_is_taken_from_a_queue_that_deserves_none():
    running = [job(name, "q", 0, on="n", asks={"cpu": 2}) for name in "ab"]
    outcome = reclaim(
        bare("n", cpu="4"), counted("q", 0, 0, 0), counted("r", 1), *running, job("p", "r", 0, asks={"cpu": 4})
    )
    assert (evicted(outcome), promised(outcome)) == (["a-0", "b-0"], {"p-0": "n"})


def test_nothing_is_taken_back_where_cpu_is_free():
    running = job("a", "q", 0, on="n", asks={"cpu": 2})
    cluster = crowd(
        bare("n", cpu="8"), counted("q", 0, 0, 0), counted("r", 1), running, job("p", "r", 0, asks={"cpu": 2})
    )
    outcome = kai(cluster, "allocate", "reclaim")
    assert (outcome.session.evictions, outcome.placed) == ([], {"p-0": "n"})


def test_an_elastic_job_gives_back_cpu_beyond_the_quota():
    queues = [counted("q", 0, 2000, weight=1), counted("r", 0, 2000, weight=1)]
    running = [job("e", "q", 0, pods=3, minimum=1, on="n", asks={"cpu": 1})]
    running += [job("w", "r", 0, pods=2, minimum=1, on=["n", ""], asks={"cpu": 1})]
    outcome = reclaim(bare("n", cpu="4"), *queues, *running)
    assert (evicted(outcome), promised(outcome)) == (["e-2"], {"w-1": "n"})


# -- nobody goes in vain


def test_a_victim_that_a_later_one_makes_needless_stays():
    """The single pod goes first for the first rank; the gang that goes for the others frees enough for all three."""
    gang = aged("gang", "q", 1, 2, pods=3, on=["n0", "n1", "n2"])
    single = aged("single", "q", 1, 1, on="n3")
    queues = [team("q", 1, weight=0), team("r", 3, weight=0)]
    outcome = reclaim(*[node(f"n{n}", 1) for n in range(4)], *queues, gang, single, job("p", "r", pods=3))
    assert evicted(outcome) == ["gang-0", "gang-1", "gang-2"]
    assert promised(outcome) == {"p-0": "n0", "p-1": "n1", "p-2": "n2"}


def test_the_best_of_the_nodes_that_a_gang_frees_is_taken():
    """Both nodes become free enough; the fuller one packs better, and of equals the first by name."""
    queues = [team("q", 10), team("r", 10), team("s", 4)]
    gang = job("gang", "q", 10, pods=2, on=["n0", "n1"])
    outcome = reclaim(node("n0", 16), node("n1", 16), *queues, gang, job("p", "r", 10))
    assert promised(outcome) == {"p-0": "n0"}
    other = job("other", "s", 4, on="n1")
    outcome = reclaim(node("n0", 16), node("n1", 16), *queues, gang, other, job("p", "r", 10))
    assert promised(outcome) == {"p-0": "n1"}


def test_a_gang_without_another_place_does_not_keep_a_single_pod_of_its_kind_from_moving():
    """One card is free elsewhere: too little for the gang, enough for the single pod."""
    nodes = [node("n0", 3), node("n1", 1)]
    running = [aged("single", "q", 1, 3, on="n0"), aged("gang", "q", 1, 4, pods=2, on="n0")]
    outcome = reclaim(*nodes, team("q", 0, weight=0), team("r", 3, weight=0), *running, job("p", "r", 3))
    assert (evicted(outcome), moved(outcome)) == (["gang-0", "gang-1"], {"single-0": "n1"})


# -- MIG


def test_mig_instances_count_by_their_slices():
    """Queue q holds one card's worth without a share, and r takes it back; the total is two."""
    running = job("runs", "q", 0, asks={SLICE: 1}, on="n")
    outcome = reclaim(sliced("n", small=2), team("q"), team("r", 2), running, job("p", "r", 0, asks={SLICE: 2}))
    assert (evicted(outcome), promised(outcome)) == (["runs-0"], {"p-0": "n"})
    (record,) = [one for one in outcome.document.queues if one.name == "r"]
    assert (record.resources["gpu"].fair_share, record.resources["gpu"].allocated) == ("2", "2")

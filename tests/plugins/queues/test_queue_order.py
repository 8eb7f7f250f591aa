"""Dominant shares and KAI's order of queues, rule by rule."""

import pytest

from tests.plugins.queues.tables import GPU, UNLIMITED, gpus, queue, standing_of, usage
from tonnage.plugins.queues._dominantshare import dominant_share, drf_share, order_key
from tonnage.plugins.queues._queuetable import Amounts, Dimension, QueueTerms
from tonnage.plugins.queues._queueusage import QueueUsage

CPU = Dimension("cpu")


def order(state: QueueUsage, jobs: dict[str, Amounts] | None = None) -> list[str]:
    """Names of queues, the one that is served next first."""
    jobs, rows = jobs or {}, state.table.rows
    return sorted(rows, key=lambda name: order_key(state, rows[name], jobs.get(name)))


# -- shares


def test_a_dominant_share_of_the_cluster_is_the_largest_one() -> None:
    assert drf_share((2, 10), (10, 20)) == 0.5
    assert drf_share((), ()) == 0


def test_something_that_the_cluster_has_none_of_counts_whole_and_nothing_of_it_not_at_all() -> None:
    assert drf_share((1, 3), (10, 0)) == 1
    assert drf_share((1, 0), (10, 0)) == 0.1


def test_the_share_of_what_a_queue_may_have() -> None:
    state = usage(
        10,
        queue("within", 4, request=9, holds=3, weight=0),
        queue("beyond", 2, request=6, holds=4),
        queue("capped", 8, request=8, holds=1, limit=2),
        queue("everything", UNLIMITED, holds=5),
        queue("nothing", holds=0.5, weight=0),
    )
    found = {name: dominant_share(state, row, state.allocated[row]) for name, row in state.table.rows.items()}
    assert found == {"within": 3 / 4, "beyond": 4 / 2, "capped": 1 / 2, "everything": 5 / 10, "nothing": 500}


def test_a_queue_may_have_its_quota_even_if_its_share_is_less() -> None:
    state = usage(10, queue("a", 4, request=1), queue("b", request=9, limit=7))
    row = state.table.rows
    assert state.fair[row["a"]] == [1000]
    assert state.allocatable[row["a"]] == [4000]
    assert state.allocatable[row["b"]] == [7000]


# -- the order, one rule each; the other rules say the opposite or nothing


def test_1_who_is_not_over_its_fair_share_comes_first() -> None:
    state = usage(
        4, queue("over", 1, request=3, holds=3, priority=200, weight=0), queue("under", 3, request=8, holds=1)
    )
    assert order(state, {"over": gpus(1), "under": gpus(5)}) == ["under", "over"]


def test_1_over_means_over_in_every_resource() -> None:
    terms = [
        QueueTerms("gpu-only", deserved=(1000, 10), request=(3000, 5), allocated=(3000, 5), priority=200),
        QueueTerms("b", deserved=(9000, 90), request=(9000, 90), allocated=(0, 0)),
    ]
    state = standing_of([GPU, CPU], (4000, 40), *terms)
    # Not over in CPUs: so both are alike, and the second rule decides.
    assert not order_key(state, state.table.rows["gpu-only"])[0]


def test_2_who_stays_within_its_quota_with_the_job_comes_first() -> None:
    state = usage(10, queue("beyond", 3, request=9, holds=3, priority=200), queue("within", 4, request=4, holds=3))
    assert order(state, {"beyond": gpus(1), "within": gpus(1)}) == ["within", "beyond"]
    assert order(state, {"within": gpus(1)}) == ["beyond", "within"]


def test_3_the_higher_priority_comes_first() -> None:
    state = usage(10, queue("low", 5, request=5), queue("high", 5, request=5, holds=4, priority=200))
    assert order(state, {"low": gpus(1), "high": gpus(1)}) == ["high", "low"]


def test_4_who_uses_something_it_may_have_nothing_of_comes_last() -> None:
    terms = [
        QueueTerms("none", deserved=(0, 9), request=(0, 9), created="1"),
        QueueTerms("some", deserved=(1000, 9), request=(5000, 9), allocated=(5000, 0), created="2"),
    ]
    state = standing_of([GPU, CPU], (8000, 18), *terms)
    # A thousandth of a card counts as a whole share, which is less than what the other one holds of its own.
    assert order(state, {"none": (1, 0), "some": (1, 0)}) == ["some", "none"]


def test_5_the_smaller_dominant_share_with_the_job_comes_first() -> None:
    state = usage(10, queue("a", 5, request=5, holds=1), queue("b", 5, request=5, holds=2))
    assert order(state, {"a": gpus(1), "b": gpus(1)}) == ["a", "b"]
    assert order(state, {"a": gpus(3), "b": gpus(1)}) == ["b", "a"]


def test_6_the_smaller_dominant_share_without_the_job_comes_next() -> None:
    state = usage(10, queue("a", 5, request=5, holds=2, created="1"), queue("b", 5, request=5, holds=1, created="2"))
    assert order(state, {"a": gpus(1), "b": gpus(2)}) == ["b", "a"]


def test_7_who_may_have_less_comes_next() -> None:
    state = usage(12, queue("large", 8, request=8, holds=4, created="1"), queue("small", 4, holds=2, created="2"))
    assert order(state) == ["small", "large"]


def test_8_the_older_comes_first_and_then_the_name_decides() -> None:
    state = usage(9, queue("a", 3, created="2"), queue("b", 3, created="1"), queue("c", 3, created="2"))
    assert order(state) == ["b", "a", "c"]


# -- whole scenarios


def serve(state: QueueUsage, free: float, waiting: dict[str, list[float]]) -> list[str]:
    """Serve jobs by the order of queues until no job of the next queue fits; the names of queues served."""
    served = []
    while waiting := {name: jobs for name, jobs in waiting.items() if jobs}:
        rows = state.table.rows
        name = min(waiting, key=lambda name: order_key(state, rows[name], gpus(waiting[name][0])))
        job, *waiting[name] = waiting[name]
        if job <= free and state.why_over_limit(rows[name], gpus(job)) is None:
            state.charge(rows[name], gpus(job))
            free -= job
            served.append(name)
    return served


@pytest.mark.parametrize("weight", [0, 1])
def test_the_queue_that_holds_less_starts_and_then_they_take_turns(weight: int) -> None:
    state = usage(
        4,
        queue("q0", 1, holds=1, request=2, weight=weight, created="0"),
        queue("q1", 1, request=3, weight=weight, created="1"),
    )
    assert serve(state, 3, {"q0": [1], "q1": [1, 1, 1]}) == ["q1", "q0", "q1"]


def test_of_two_that_both_fill_their_quota_the_one_that_holds_nothing_yet_runs() -> None:
    state = usage(4, queue("q0", 3, holds=2, request=3, created="0"), queue("q1", 2, request=2, created="1"))
    assert serve(state, 2, {"q0": [1], "q1": [2]}) == ["q1"]


def test_parts_of_cards_of_a_gang_beyond_the_limit_wait() -> None:
    state = usage(4, queue("q", 1, limit=1, request=1.5))
    reason = state.why_over_limit(0, gpus(3 * 0.5))
    assert reason is not None
    assert reason.name == "QueueOverLimit"
    assert reason.message == "queue q holds 0 gpu and may hold 1; the job asks for 1.5"
    assert state.why_over_limit(0, gpus(2 * 0.5)) is None


# -- limits and quotas along the tree


def test_a_limit_holds_for_all_below_together() -> None:
    state = usage(9, queue("top", 4, limit=4), queue("a", 4, parent="top", holds=2), queue("b", parent="top"))
    rows = state.table.rows
    assert state.why_over_limit(rows["b"], gpus(2)) is None
    state.charge(rows["b"], gpus(2))
    reason = state.why_over_limit(rows["b"], gpus(1))
    assert reason is not None
    assert reason.message == "queue top holds 4 gpu and may hold 4; the job asks for 1"
    state.charge(rows["a"], (-1000,))
    assert state.why_over_limit(rows["b"], gpus(1)) is None


def test_jobs_that_must_not_be_stopped_stay_within_the_quota_at_every_level() -> None:
    state = usage(
        9, queue("top", 3), queue("a", 3, parent="top", holds=2, fixed=1), queue("b", UNLIMITED, parent="top")
    )
    rows = state.table.rows
    assert state.why_over_quota(rows["b"], gpus(2)) is None
    state.charge(rows["b"], gpus(1), fixed=True)
    state.charge(rows["a"], gpus(5))
    reason = state.why_over_quota(rows["b"], gpus(2))
    assert reason is not None
    assert reason.name == "NonPreemptibleOverQuota"
    assert reason.message == (
        "jobs of queue top that must not be stopped hold 2 gpu and may hold 3; the job asks for 2"
    )


def test_a_limit_on_something_that_is_not_asked_for_stops_nobody() -> None:
    terms = QueueTerms("a", limit=(1000, 10), deserved=(1000, 10), allocated=(3000, 5), request=(3000, 8))
    state = standing_of([GPU, CPU], (8000, 80), terms)
    assert state.why_over_limit(0, (0, 5)) is None
    reason = state.why_over_limit(0, (0, 6))
    assert reason is not None
    assert "cpu" in reason.message

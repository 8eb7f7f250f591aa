"""What queues get by Volcano's proportion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.framework.decision import Reason
from tonnage.plugins.queues import _waterfill
from tonnage.plugins.queues._queuetable import Amounts, Dimension, QueueTable, QueueTerms

DIMENSIONS = [Dimension("cpu"), Dimension("memory")]
GI = 2**30


def queue(
    name: str,
    weight: int = 1,
    *,
    request: Amounts = (),
    holds: Amounts = (),
    capability: Amounts = (),
    guarantee: Amounts = (),
    deserved: Amounts = (),
    priority: int = 0,
    parent: str = "",
) -> QueueTerms:
    return QueueTerms(
        name,
        weight=(weight, weight),
        request=request or holds,
        allocated=holds,
        limit=capability,
        guarantee=guarantee,
        deserved=deserved,
        priority=priority,
        parent=parent,
    )


def deserved(total: Amounts, *queues: QueueTerms) -> dict[str, list[float]]:
    table = QueueTable(DIMENSIONS, queues)
    result = _waterfill.deserved_by_weight(table, total)
    return {name: result[:, row].tolist() for name, row in table.rows.items()}


def said(reason: Reason | None) -> str:
    assert reason is not None
    return f"{reason.name}: {reason.message}"


# -- proportion: what queues deserve


def test_weights_share_the_cluster() -> None:
    many = (100_000, 100_000)
    assert deserved((9000, 9000), queue("a", 1, request=many), queue("b", 2, request=many)) == {
        "a": [3000, 3000],
        "b": [6000, 6000],
    }


def test_what_one_does_not_ask_for_goes_to_the_others_resource_by_resource() -> None:
    assert deserved((9000, 9000), queue("a", request=(1000, 9000)), queue("b", request=(9000, 9000))) == {
        "a": [1000, 4500],
        "b": [8000, 4500],
    }


def test_a_capability_caps_and_a_guarantee_lifts() -> None:
    many = (9000, 9000)
    found = deserved(
        (9000, 9000),
        queue("capped", request=many, capability=(1000, -1)),
        queue("lifted", request=many, guarantee=(5000, 0)),
        queue("plain", request=many),
    )
    assert found == {"capped": [1000, 3000], "lifted": [5000, 3000], "plain": [3000, 3000]}


def test_what_is_guaranteed_to_others_cannot_be_had() -> None:
    table = QueueTable(
        DIMENSIONS,
        [
            queue("idle", guarantee=(4000, 0)),
            queue("busy", request=(9000, 9000), guarantee=(1000, 0)),
            queue("capped", request=(9000, 9000), capability=(2000, -1)),
        ],
    )
    most = _waterfill.most_possible(table, (9000, 9000))
    found = {name: most[:, row].tolist() for name, row in table.rows.items()}
    assert found == {"idle": [8000, 9000], "busy": [5000, 9000], "capped": [2000, 9000]}


def test_guarantees_beyond_the_cluster_leave_nothing_and_break_nothing() -> None:
    found = deserved((4, 4), queue("a", guarantee=(9, 0)), queue("b", request=(4, 4)))
    assert found == {"a": [9, 0], "b": [0, 4]}


def test_two_queues_of_the_fair_share_test() -> None:
    total = (5000, 5000)
    q1 = queue("q1", holds=(1000, 1000), request=(3000, 3000))
    found = deserved(total, q1, queue("q2", request=(3000, 2000)))
    assert found == {"q1": [2500, 3000], "q2": [2500, 2000]}


def test_no_queue_and_no_weight() -> None:
    assert deserved((5, 5)) == {}
    assert deserved((5, 5), queue("a", 0, request=(5, 5))) == {"a": [0, 0]}


AMOUNT = st.tuples(st.integers(0, 50), st.integers(0, 50))


@given(
    st.lists(
        st.tuples(st.integers(1, 4), AMOUNT, st.one_of(st.just((-1, -1)), AMOUNT), st.one_of(st.just((0, 0)), AMOUNT)),
        max_size=6,
    ),
    AMOUNT,
)
def test_the_same_level_as_volcano_reaches_round_by_round(
    terms: list[tuple[int, Amounts, Amounts, Amounts]], total: Amounts
) -> None:
    total = tuple(amount * 100 for amount in total)
    queues = [
        queue(
            f"q{n}",
            weight,
            request=tuple(amount * 100 for amount in request),
            capability=tuple(amount * 100 if amount >= 0 else -1 for amount in capability),
            # Together no more than there is, as Volcano demands.
            guarantee=tuple(min(a, b // 6) for a, b in zip(guarantee, total, strict=True)),
        )
        for n, (weight, request, capability, guarantee) in enumerate(terms)
    ]
    found = deserved(total, *queues)
    for place in range(2):
        by_hand = round_by_round(queues, total[place], place)
        assert [found[one.name][place] for one in queues] == pytest.approx(by_hand, abs=1)


def round_by_round(queues: list[QueueTerms], total: float, place: int) -> list[float]:
    kept = sum(one.guarantee[place] for one in queues)
    most = []
    for one in queues:
        possible = max(total - kept, 0) + one.guarantee[place]
        most.append(possible if one.limit[place] < 0 else min(possible, one.limit[place]))
    right = [0.0] * len(queues)
    remaining = float(total)
    weights = sum(one.weight[place] for one in queues)
    for _ in range(400):
        if remaining < 0.1:
            break
        before = sum(right)
        for n, one in enumerate(queues):
            more = right[n] + remaining * one.weight[place] / weights
            right[n] = max(min(more, most[n], one.request[place]), one.guarantee[place])
        remaining = max(remaining - (sum(right) - before), 0)
    return right


# -- proportion: checks


def test_shares_are_looked_at_anew_after_each_job() -> None:
    """A running (1,1) and waiting (2,2) in q1; in q2 first a (3,2), then a (2,2) and a (1,1); 5 CPUs."""
    rights = {"q1": (2500, 3000), "q2": (2500, 2000)}
    assert serve(rights, {"q1": [(2000, 2000)], "q2": [(3000, 2000)]}) == [("q2", (3000, 2000))]
    rights = {"q1": (2500, 2500), "q2": (2500, 2500)}
    assert serve(rights, {"q1": [(2000, 2000)], "q2": [(2000, 2000), (1000, 1000)]}) == [
        ("q2", (2000, 2000)),
        ("q1", (2000, 2000)),
    ]


def serve(rights: dict[str, Amounts], waiting: dict[str, list[Amounts]]) -> list[tuple[str, Amounts]]:
    held = {"q1": (1000, 1000), "q2": (0, 0)}
    free = (4000, 4000)
    served = []
    while waiting := {name: jobs for name, jobs in waiting.items() if jobs}:
        name = min(waiting, key=lambda name: _waterfill.share_of(held[name], rights[name]))
        job, *waiting[name] = waiting[name]
        if _waterfill.too_much(job, free) is None:
            held[name] = tuple(a + b for a, b in zip(held[name], job, strict=True))
            free = tuple(a - b for a, b in zip(free, job, strict=True))
            served.append((name, job))
    return served


def test_only_what_a_pod_asks_for_is_compared_with_what_the_queue_deserves() -> None:
    table = QueueTable(
        DIMENSIONS,
        [
            queue("q1", holds=(1000, 2 * GI), request=(3000, 3 * GI), capability=(2000, 2 * GI)),
            queue("q2", holds=(2000, 1 * GI), request=(2000, 2 * GI), capability=(3000, 3 * GI)),
        ],
    )
    total = (4000, 4 * GI)
    rights = _waterfill.deserved_by_weight(table, total)

    def allocatable(row: int, request: Amounts) -> Reason | None:
        return _waterfill.why_not_allocatable(table, row, request, table.allocated[:, row], rights[:, row])

    assert allocatable(0, (1000, 0)) is None
    assert allocatable(1, (0, GI)) is None
    assert said(allocatable(0, (1000, GI))) == (
        "QueueBeyondDeserved: queue q1 holds 2Gi memory and deserves 2Gi; the pod asks for 1Gi"
    )


def test_a_queue_is_overused_once_it_holds_what_it_deserves_of_everything() -> None:
    table = QueueTable(DIMENSIONS, [queue("a")])
    assert _waterfill.why_overused(table, 0, (2000, GI - 1), (2000, GI)) is None
    assert said(_waterfill.why_overused(table, 0, (2000, GI), (2000, GI))) == (
        "QueueOverused: queue a holds all that it deserves: 2 cpu, 1Gi memory"
    )


def test_a_tenth_is_no_difference() -> None:
    assert _waterfill.too_much([2.05], [2.0]) is None
    assert _waterfill.too_much([2.1], [2.0]) == 0
    assert _waterfill.too_much([2.1], [2.0], [0]) is None


def test_a_queue_with_a_tenth_of_the_weight_may_still_deserve_what_nobody_else_wants() -> None:
    found = deserved((10_000, 10_000), queue("q1", 1, holds=(2000, 2000)), queue("q2", 9, request=(3000, 3000)))
    assert found == {"q1": [2000, 2000], "q2": [3000, 3000]}

"""KAI's division of a cluster among queues."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.queues.tables import UNLIMITED, naive_division, queue, shares
from tonnage.plugins.queues._fairshare import divide, times_over
from tonnage.plugins.queues._queuetable import HEAVIEST, Dimension, QueueTable, QueueTerms, QueueTreeError, faults

# -- vectors of the reference


def two(deserved: float = 2, request: float = 6, **differ: tuple[object, object]) -> list[QueueTerms]:
    """Two queues, a the older, that differ in what is given in pairs."""
    first = {key: values[0] for key, values in differ.items()}
    second = {key: values[1] for key, values in differ.items()}
    return [
        queue("a", deserved, request=request, created="1", **first),  # type: ignore[arg-type]
        queue("b", deserved, request=request, created="2", **second),  # type: ignore[arg-type]
    ]


def test_what_nobody_deserves_goes_by_weight() -> None:
    assert shares(100, *two(10, 100, weight=(3, 1))) == {"a": 70, "b": 30}


def test_enough_for_all_leaves_a_rest() -> None:
    assert shares(15, *two()) == {"a": 6, "b": 6}


def test_weights_1_to_3() -> None:
    assert shares(8, *two(weight=(1, 3))) == {"a": 3, "b": 5}


def test_a_limit_leaves_more_for_the_other_but_no_more_than_it_asks_for() -> None:
    assert shares(12, *two(limit=(5, UNLIMITED))) == {"a": 5, "b": 6}


def test_weights_1_to_4_with_parts_of_units() -> None:
    assert shares(11, *two(request=10, weight=(1, 4))) == {"a": 3, "b": 8}


def test_of_two_equals_the_older_gets_the_odd_unit() -> None:
    assert shares(11, *two()) == {"a": 6, "b": 5}
    assert shares(11, *two()[::-1]) == {"a": 6, "b": 5}
    younger, older = queue("a", request=6, created="2"), queue("b", request=6, created="1")
    assert shares(7, younger, older) == {"a": 3, "b": 4}


def test_priority_comes_before_weight() -> None:
    assert shares(6, *two(priority=(1, 2))) == {"a": 2, "b": 4}
    assert shares(6, *two(priority=(1, 2), weight=(100, 1))) == {"a": 2, "b": 4}


# -- the rules one by one


def test_what_is_deserved_is_given_even_beyond_the_total() -> None:
    assert shares(3, queue("a", 2, request=5), queue("b", 4, request=4)) == {"a": 2, "b": 4}


def test_an_unlimited_quota_is_the_whole_cluster() -> None:
    assert shares(10, queue("a", UNLIMITED, request=50), queue("b", 3, request=5)) == {"a": 10, "b": 3}


def test_without_a_weight_there_is_nothing_beyond_the_quota() -> None:
    assert shares(10, queue("a", 1, request=9, weight=0), queue("b", 1, request=3)) == {"a": 1, "b": 3}


def test_a_limit_below_the_quota_counts() -> None:
    assert shares(10, queue("a", 5, request=9, limit=2), queue("b", 0, request=9)) == {"a": 2, "b": 8}


def test_parts_of_cards_are_asked_for_but_never_cut() -> None:
    assert shares(4, queue("a", request=0.5), queue("b", request=9), queue("c", request=9)) == {
        "a": 0.5,
        "b": 2,
        "c": 1.5,
    }


def test_nobody_gets_more_of_the_leftovers_than_it_asks_for() -> None:
    assert shares(3, queue("a", request=1.6, weight=1), queue("b", request=9, weight=1)) == {"a": 1.6, "b": 1.4}


def test_lower_priorities_get_nothing_while_higher_ones_want_it_even_if_it_cannot_be_cut() -> None:
    high = [queue(name, request=9, priority=2, created=name) for name in "abcdef"]
    low = queue("low", request=9, priority=1)
    assert shares(5, *high, low) == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 0, "low": 0}
    assert shares(56, *high, low)["low"] == 2


def test_more_in_total_may_cost_a_small_queue_its_rounded_unit() -> None:
    three = [queue(name, request=100, weight=weight) for name, weight in (("a", 6), ("b", 6), ("c", 2))]
    assert shares(10, *three) == {"a": 4, "b": 4, "c": 2}
    assert shares(11, *three) == {"a": 5, "b": 5, "c": 1}


def test_what_a_queue_gets_is_divided_among_those_below_it() -> None:
    tree = [
        queue("research", 4, weight=1),
        queue("product", 4, weight=3),
        queue("vision", 2, request=20, parent="research"),
        queue("speech", 2, request=20, parent="research", priority=200),
        queue("search", 1, request=5, parent="product"),
        queue("ads", 1, request=20, parent="product"),
        queue("ads-batch", request=18, parent="ads"),
        queue("ads-live", 6, request=2, parent="ads"),
    ]
    assert shares(16, *tree) == {
        "research": 6,
        "product": 10,
        "vision": 2,
        "speech": 4,
        "search": 5,
        "ads": 5,
        "ads-batch": 3,
        "ads-live": 2,
    }


def test_a_parent_asks_for_what_all_below_it_ask_for_up_to_its_limit() -> None:
    tree = [queue("a", limit=3), queue("a1", request=4, parent="a"), queue("a2", request=4, parent="a")]
    assert shares(10, *tree, queue("b", request=20)) == {"a": 3, "a1": 2, "a2": 1, "b": 7}


def test_what_is_asked_for_three_levels_below_counts_at_the_top() -> None:
    tree = [queue("a"), queue("b", parent="a"), queue("c", parent="b"), queue("d", parent="c", request=6)]
    assert shares(8, *tree, queue("other", request=8)) == {"a": 4, "b": 4, "c": 4, "d": 4, "other": 4}


def test_resources_are_divided_one_by_one() -> None:
    dimensions = [Dimension("gpu", 1000), Dimension("cpu"), Dimension("memory")]
    table = QueueTable(
        dimensions,
        [
            QueueTerms("a", weight=(1, 1, 1), request=(8000, 1000, 10), deserved=(0, 0, -1)),
            QueueTerms("b", weight=(3, 1, 1), request=(8000, 9000, 10), deserved=(0, 0, 3)),
        ],
    )
    assert divide(table, (8000, 5001, 12)).tolist() == [[2000, 6000], [1000, 4001], [10, 3]]


def test_no_queues_and_no_cluster() -> None:
    assert shares(10) == {}
    assert shares(0, queue("a", request=3), queue("b", request=3)) == {"a": 0, "b": 0}


def test_absurd_amounts_and_thousands_of_queues_break_nothing() -> None:
    absurd = 2**61
    table = QueueTable(
        [Dimension("memory")],
        [
            QueueTerms(f"q{n:04}", weight=(absurd,), request=(absurd,), deserved=(absurd * (n % 2),), limit=(-1,))
            for n in range(5000)
        ],
    )
    result = divide(table, (2**62,))
    assert (result >= 0).all()
    assert result[0, 1] == table.request[0, 1] > 0
    assert divide(table, (-5,))[0, 0] == 0


def test_a_cluster_of_petabytes_is_divided_to_the_byte() -> None:
    wants = 2**51 + 1
    queues = [QueueTerms(f"q{n}", weight=(weight,), request=(wants,)) for n, weight in enumerate((7, 11, 13))]
    table = QueueTable([Dimension("memory")], queues)
    total = 2**52 + 3
    assert divide(table, (total,))[0].tolist() == list(naive_division(total, 1, with_zeros(queues), 0).values())


def with_zeros(queues: list[QueueTerms]) -> list[QueueTerms]:
    return [_replace(one, one.name, "", list(one.request), deserved=(0,)) for one in queues]


# -- queues that are no tree


def test_queues_without_a_place_in_the_tree_are_named_and_the_others_make_one() -> None:
    queues = [
        queue("top"),
        queue("leaf", parent="top"),
        queue("lost", parent="nowhere"),
        queue("below-lost", parent="lost"),
        queue("one", parent="two"),
        queue("two", parent="one"),
        queue("below-two", parent="two"),
        queue("own", parent="own"),
        queue("twice"),
        queue("twice", 1),
        queue("below-twice", parent="twice"),
    ]
    wrong = faults(queues)
    assert sorted(wrong) == ["below-lost", "below-twice", "below-two", "lost", "one", "own", "twice", "two"]
    assert wrong["lost"] == "its parent 'nowhere' does not exist"
    assert wrong["below-lost"] == "its parent 'lost' has no place in the tree"
    assert wrong["one"] == "its parents lead back to itself: one → two → one"
    assert wrong["twice"] == "there are two queues 'twice'"
    with pytest.raises(QueueTreeError, match="'below-lost': its parent 'lost' has no place"):
        QueueTable([], queues)
    sound = [one for one in queues if one.name not in wrong]
    assert faults(sound) == {}
    assert list(QueueTable([Dimension("gpu", 1000)], sound).rows) == ["top", "leaf"]


# -- properties

NAMES = [f"q{number}" for number in range(12)]
AMOUNT = st.integers(0, 12).map(lambda number: number * 500)
BOUND = st.one_of(st.just(-1), AMOUNT)


@st.composite
def levels(draw: st.DrawFn, resources: int = 2) -> list[QueueTerms]:
    """Queues beside each other."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    amounts = st.tuples(*[AMOUNT] * resources)
    bounds = st.tuples(*[BOUND] * resources)
    weights = st.tuples(*[st.integers(0, 5)] * resources)
    return [
        QueueTerms(
            name,
            priority=draw(st.integers(0, 2)),
            created=draw(st.sampled_from("123")),
            deserved=draw(bounds),
            limit=draw(bounds),
            weight=draw(weights),
            request=draw(amounts),
        )
        for name in names
    ]


TOTAL = st.tuples(st.integers(0, 40).map(lambda number: number * 500), st.integers(0, 30000))
DIMENSIONS = [Dimension("gpu", 1000), Dimension("cpu")]


def by_name(queues: list[QueueTerms], total: tuple[int, ...]) -> dict[str, list[int]]:
    table = QueueTable(DIMENSIONS, queues)
    result = divide(table, total)
    return {name: result[:, row].tolist() for name, row in table.rows.items()}


@given(levels(), TOTAL)
def test_the_same_as_dividing_by_hand_in_fractions(queues: list[QueueTerms], total: tuple[int, int]) -> None:
    result = by_name(queues, total)
    for place, dimension in enumerate(DIMENSIONS):
        expected = naive_division(total[place], dimension.unit, queues, place)
        assert {name: amounts[place] for name, amounts in result.items()} == expected


@given(levels(), TOTAL)
def test_never_more_than_there_is_or_anybody_wants_and_nothing_idle(
    queues: list[QueueTerms], total: tuple[int, int]
) -> None:
    result = by_name(queues, total)
    for place in range(2):
        quotas = 0
        hungry = False
        for one in queues:
            limit = one.limit[place] if one.limit[place] >= 0 else 10**9
            wanted = min(one.request[place], limit)
            share = result[one.name][place]
            assert share <= wanted
            right = total[place] if one.deserved[place] < 0 else one.deserved[place]
            assert share >= min(right, wanted)
            quotas += min(right, wanted)
            hungry |= share < wanted and one.weight[place] > 0
        given_out = sum(share[place] for share in result.values())
        assert given_out <= max(total[place], quotas)
        assert given_out == quotas or given_out >= quotas
        if hungry:
            assert given_out == max(total[place], quotas)


@given(levels(), TOTAL, st.randoms(use_true_random=False))
def test_the_order_in_which_queues_are_given_makes_no_difference(
    queues: list[QueueTerms], total: tuple[int, int], random: Random
) -> None:
    shuffled = list(queues)
    random.shuffle(shuffled)
    assert by_name(queues, total) == by_name(shuffled, total)


@given(levels(), TOTAL, st.integers(0, 5000))
def test_more_in_total_is_more_for_all_together(queues: list[QueueTerms], total: tuple[int, int], more: int) -> None:
    less, result = by_name(queues, total), by_name(queues, (total[0] + more, total[1] + more))
    for place in range(2):
        assert sum(share[place] for share in result.values()) >= sum(share[place] for share in less.values())


@given(st.lists(levels(), min_size=1, max_size=4), TOTAL)
def test_a_tree_is_divided_level_by_level(groups: list[list[QueueTerms]], total: tuple[int, int]) -> None:
    """The first group is at the top, each further one below one queue of the group before."""
    queues: list[QueueTerms] = []
    parent = ""
    for depth, group in enumerate(groups):
        named = {one.name: f"{depth}-{one.name}" for one in group}
        queues += [_replace(one, named[one.name], parent) for one in group]
        parent = named[sorted(named)[0]]
    result = by_name(queues, total)
    asked: dict[str, list[int]] = {}
    for one in reversed(queues):
        asked[one.name] = [a + b for a, b in zip(one.request, asked.get(one.name, [0, 0]), strict=True)]
        above = asked.setdefault(one.parent, [0, 0])
        asked[one.parent] = [a + b for a, b in zip(above, asked[one.name], strict=True)]
    for parent in {one.parent for one in queues}:
        children = [_replace(one, one.name, "", asked[one.name]) for one in queues if one.parent == parent]
        pool = total if not parent else result[parent]
        for place, dimension in enumerate(DIMENSIONS):
            expected = naive_division(pool[place], dimension.unit, children, place)
            assert {one.name: result[one.name][place] for one in children} == expected


def _replace(
    one: QueueTerms, name: str, parent: str, request: list[int] | None = None, deserved: tuple[int, ...] = ()
) -> QueueTerms:
    return QueueTerms(
        name,
        parent,
        one.priority,
        one.created,
        deserved or one.deserved,
        one.limit,
        one.weight,
        request=request or one.request,
    )


@given(
    st.lists(st.tuples(st.integers(0, 2**56), st.integers(1, HEAVIEST)), min_size=1, max_size=50),
    st.integers(0, 2**41),
)
def test_dividing_is_exact_for_the_largest_clusters(cells: list[tuple[int, int]], others: int) -> None:
    weights = sum(weight for _, weight in cells) + others
    amount = np.array([amount for amount, _ in cells], np.int64)
    weight = np.array([weight for _, weight in cells], np.int64)
    quotients, remainders = times_over(amount, weight, np.full(len(cells), weights, np.int64))
    exact = [divmod(a * w, weights) for a, w in cells]
    assert list(zip(quotients.tolist(), remainders.tolist(), strict=True)) == exact
    assert all(
        Fraction(a * w, weights) == q + Fraction(r, weights) for (a, w), (q, r) in zip(cells, exact, strict=True)
    )

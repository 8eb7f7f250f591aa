"""Sets of Kunlun XPUs, over every state that a node of eight can be in."""

from itertools import combinations

import pytest

from tonnage.devices.base import Device
from tonnage.devices.kunlun import QUADS, linked

HALVES = (0, 1, 2, 3), (4, 5, 6, 7)
STATES = [free for size in range(9) for free in combinations(range(8), size)]
SETS = {
    1: [{index} for index in range(8)],
    2: [{*pair} for half in HALVES for pair in combinations(half, 2)] + [{i, i + 4} for i in range(4)],
    4: [{*half} for half in HALVES] + [{*quad} for quad in QUADS],
    8: [{*range(8)}],
}
"""All sets of cards that are linked to each other."""


def cards(*indexes):
    return [Device(f"xpu-{index}", index, 1, 98304, 100, "") for index in indexes]


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_linked_set_is_given_exactly_where_there_is_one(count):
    for free in STATES:
        chosen = {free[position] for position in linked(count, cards(*free))}
        possible = [group for group in SETS[count] if group <= {*free}]
        assert chosen in possible if possible else chosen == set(), free


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_the_order_of_preference_does_not_matter(count):
    for free in STATES:
        forwards, backwards = cards(*free), cards(*free)[::-1]
        given = [forwards[position].uuid for position in linked(count, forwards)]
        assert given == [backwards[position].uuid for position in linked(count, backwards)]


def test_a_single_card_is_taken_where_it_breaks_up_no_pair():
    def taken(*free):
        (position,) = linked(1, cards(*free))
        return free[position]

    assert taken(0, 1, 4) == 4
    assert taken(0, 1, 4, 5, 6) == 4
    assert taken(0, 1, 2, 3, 6, 7) == 6


def test_cards_beyond_the_eighth_are_linked_to_none():
    assert linked(2, cards(3, 8)) == []

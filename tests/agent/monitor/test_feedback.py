"""Feedback: who shares a card is limited, who has a lower priority waits, whichever HAMi-core writes the regions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.scenes import uuid
from tonnage.agent.monitor.feedback import Feedback, RegionWords, feedback
from tonnage.agent.monitor.layouts import LAYOUTS
from tonnage.agent.monitor.regions import SharedRegion

NOW = 1_800_000_000.0


def region(*cards: int, recent: int = 0, switch: int = 1, priority: int = 1, idle: float | None = None) -> SharedRegion:
    """A region of a container on these cards, idle for so many seconds since its last kernel."""
    last = 0 if idle is None else int(NOW - idle)
    uuids = tuple(uuid(card) for card in cards or (0,))
    return SharedRegion(LAYOUTS[2], uuids, (0,) * len(uuids), 0, switch, recent, priority, last)


def after(said: Feedback, name: str, before: SharedRegion) -> tuple[int, int]:
    words = said.words.get(name, RegionWords(before.recent, before.switch))
    return words.recent, words.switch


def test_a_container_that_is_alone_runs_without_a_limit() -> None:
    said = feedback({"a": region(recent=2)}, NOW)
    assert said.words == {"a": RegionWords(1, 0)}


def test_two_active_containers_of_one_priority_are_limited() -> None:
    said = feedback({"a": region(recent=2), "b": region(recent=2, switch=0)}, NOW)
    assert said.words == {"a": RegionWords(1, 1), "b": RegionWords(1, 1)}
    assert said.limited == {"a", "b"}
    assert not said.blocked


def test_containers_on_different_cards_do_not_concern_each_other() -> None:
    said = feedback({"a": region(0, recent=2), "b": region(1, recent=2)}, NOW)
    assert {name: words.switch for name, words in said.words.items()} == {"a": 0, "b": 0}


def test_an_active_container_of_higher_priority_holds_up_the_others() -> None:
    first, second = region(0, recent=2, priority=0), region(0, 1, recent=2)
    said = feedback({"a": first, "b": second}, NOW)
    assert after(said, "a", first) == (1, 0)
    assert after(said, "b", second) == (-1, 1)
    assert said.blocked == {"b"}


def test_who_was_held_up_is_let_go_when_the_other_is_idle() -> None:
    said = feedback({"a": region(recent=0, priority=0), "b": region(recent=-1)}, NOW)
    assert said.words["b"] == RegionWords(0, 0)
    assert not said.blocked


def test_without_launches_a_mark_counts_down_and_ends() -> None:
    marks, found = region(recent=2), []
    for _ in range(3):
        said = feedback({"a": marks, "b": region(recent=2, switch=0)}, NOW)
        recent, switch = after(said, "a", marks)
        marks = region(recent=recent, switch=switch)
        found.append((recent, after(said, "b", region(recent=2, switch=0))[1]))
    assert found == [(1, 1), (0, 0), (0, 0)]


@pytest.mark.parametrize("marked", [True, False], ids=["before March 2026", "since March 2026"])
def test_containers_that_started_at_different_times_limit_each_other(marked: bool) -> None:
    # The first was alone: its limit is off, so that the present HAMi-core does not mark its launches.
    first = region(recent=2 if marked else 0, switch=0, idle=1)
    second = region(recent=2, switch=1, idle=0)
    said = feedback({"a": first, "b": second}, NOW)
    assert after(said, "a", first)[1] == after(said, "b", second)[1] == 1


def test_a_container_without_marks_holds_up_lower_priorities_by_the_time_of_its_kernels() -> None:
    said = feedback({"a": region(priority=0, switch=0, idle=9), "b": region(recent=2)}, NOW)
    assert said.blocked == {"b"}
    said = feedback({"a": region(priority=0, switch=0, idle=11), "b": region(recent=2)}, NOW)
    assert not said.blocked


def test_a_kernel_from_the_future_counts_for_nothing() -> None:
    said = feedback({"a": region(priority=0, switch=0, idle=-3600), "b": region(recent=2)}, NOW)
    assert not said.blocked


def test_nothing_is_written_where_nothing_changes() -> None:
    held_up, first = region(recent=-1, priority=2), region(priority=0, idle=1, switch=0)
    assert feedback({"a": region(1, switch=0), "b": held_up, "c": first}, NOW).words == {}


_regions = st.builds(
    lambda cards, recent, switch, priority, idle: region(
        *sorted(cards), recent=recent, switch=switch, priority=priority, idle=idle
    ),
    st.sets(st.integers(0, 3), min_size=1),
    st.integers(-1, 2),
    st.integers(0, 1),
    st.integers(0, 2),
    st.none() | st.integers(0, 20),
)


@given(st.lists(_regions, max_size=8))
def test_somebody_always_runs_on_every_card_and_who_runs_alone_is_free(found: list[SharedRegion]) -> None:
    regions = {str(number): one for number, one in enumerate(found)}
    said = feedback(regions, NOW)
    assert said.blocked <= said.limited
    for card in range(4):
        here = {name: one for name, one in regions.items() if uuid(card) in one.uuids}
        best = min((one.priority for one in here.values()), default=0)
        elsewhere = [name for name, one in here.items() if one.priority == best and len(one.uuids) == 1]
        assert not said.blocked & set(elsewhere)
    for name, one in regions.items():
        recent, switch = after(said, name, one)
        assert (recent == -1) == (name in said.blocked)
        assert switch == int(name in said.limited)
        if not any(other is not one and set(other.uuids) & set(one.uuids) for other in regions.values()):
            assert (switch, recent >= 0) == (0, True)

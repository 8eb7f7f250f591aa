from hypothesis import given
from hypothesis import strategies as st

from tonnage.report.pages.scale import around, number_axis, time_axis

numbers = st.floats(0, 1e7, allow_subnormal=False).map(lambda value: round(value, 3))


def test_ticks_are_round_and_have_units():
    axis = number_axis("demand", 0, 130, 7, "%")
    assert axis.labels == ("0%", "20%", "40%", "60%", "80%", "100%", "120%")


def test_small_differences_keep_their_digits():
    assert number_axis("", 94.9, 95.3, 4).labels == ("94.9", "95.0", "95.1", "95.2", "95.3")


def test_times_have_one_unit():
    assert time_axis("time", 0, 2 * 86400, 5).labels == tuple(f"{n}h" for n in (0, 12, 24, 36, 48))
    assert time_axis("time", 0, 30 * 86400, 6).labels[:3] == tuple(f"{n}d" for n in (0, 5, 10))
    assert time_axis("time", 0, 600, 5).labels == tuple(f"{n}m" for n in (0, 2, 4, 6, 8, 10))


def test_a_single_value_still_has_an_axis():
    assert number_axis("", 5, 5).low < 5 < number_axis("", 5, 5).high
    assert number_axis("", 0, 0).high > 0


def test_a_place_is_in_proportion():
    axis = number_axis("", 0, 10)
    assert [axis.place(value, 100, 200) for value in (0, 5, 10)] == [100, 150, 200]


@given(numbers, numbers, st.integers(3, 10))
def test_ticks_lie_inside_and_are_few(one: float, other: float, ticks: int):
    low, high = around([one, other])
    for axis in (number_axis("", low, high, ticks), time_axis("", low, high, ticks)):
        room = (axis.high - axis.low) * 1e-6
        assert all(axis.low - room <= tick <= axis.high + room for tick in axis.ticks)
        assert len(axis.ticks) <= ticks + 1
        assert len(set(axis.labels)) == len(axis.labels)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.duration import format_seconds, seconds


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0s"),
        (0.25, "0.2s"),
        (1.5, "1.5s"),
        (59.4, "59s"),
        (60, "1m"),
        (75, "1m15s"),
        (3599, "59m"),
        (5400, "1h30m"),
        (90000, "1d1h"),
        (24981892, "289d"),
        (-90, "-1m30s"),
        (float("inf"), "for ever"),
    ],
)
def test_durations_are_shown_as_people_write_them(length, text):
    assert format_seconds(length) == text


@given(st.floats(0, 86399))
def test_what_is_shown_below_a_day_can_be_read_and_is_at_most_a_tenth_off(length):
    read = seconds(format_seconds(length))
    assert abs(read - length) <= max(0.1 * length, 0.06)

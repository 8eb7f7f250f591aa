"""Timestamps as Kubernetes writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.timestamp import TimestampError, known_timestamp, rfc3339, timestamp


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T12:00:00Z", 1769860800),
        ("2026-01-31T12:00:00.5Z", 1769860800.5),
        ("2026-01-31T12:00:00.123456789Z", 1769860800.123456),
        ("2026-01-31t12:00:00z", 1769860800),
        ("2026-01-31T14:00:00+02:00", 1769860800),
        ("2024-02-29T00:00:00Z", 1709164800),
    ],
)
def test_a_time_is_so_many_seconds_after_1970(text, seconds):
    assert timestamp(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-02-30T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "20260131T120000Z",
        "2026-W05-6T12:00:00Z",
        "1769860800",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "２026-01-31T12:00:00Z",
    ],
)
def test_what_is_no_time_is_said_with_an_example_of_one(text):
    with pytest.raises(TimestampError, match=r"is no time; expected such as 2026-01-31T12:00:00Z"):
        timestamp(text)
    assert known_timestamp(text) is None


def test_no_text_is_no_time():
    assert known_timestamp(None) is None


@given(st.integers(-62135596800, 253402300799))
def test_a_time_that_was_written_can_be_read(seconds):
    assert timestamp(rfc3339(seconds)) == seconds

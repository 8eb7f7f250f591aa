"""Numbers and times that users write: bounded in length and range, and cheap whatever their length."""

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.devices._kai import FRACTION, shared_request
from tonnage.devices.base import RequestError
from tonnage.model.duration import DurationError, seconds
from tonnage.model.meta import ObjectMeta
from tonnage.model.number import decimal_number, whole_number
from tonnage.model.pod import Container, Pod, PodSpec
from tonnage.model.quantity import QuantityError, nano
from tonnage.model.timestamp import known_timestamp, past_timestamp, rfc3339, rfc3339_micro, timestamp

HUGE = 262_144
"""The length of an annotation that the API server still takes."""


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("+7", 7), ("-3", -3), ("0007", 7)])
def test_whole_numbers(text, number):
    assert whole_number(text, -10, 10) == number


@pytest.mark.parametrize("text", ["", "-", "1.5", "1_0", "²", "11", "-11", "many", " 7", "0" * 4999 + "1", "9" * HUGE])
def test_what_is_no_whole_number_in_range_is_nothing(text):
    assert whole_number(text, -10, 10) is None


def test_decimal_numbers():
    assert [decimal_number(text) for text in ("0.5", " 5e-1 ")] == [Decimal("0.5")] * 2
    for text in ("", "nan", "inf", "1_0", "half", "0." + "5" * HUGE):
        assert decimal_number(text) is None


@pytest.mark.parametrize("digits", ["5" * 200_000, "0" * 200_000 + "5", "5e-" + "9" * 200_000])
def test_numbers_of_any_length_cost_next_to_nothing(digits):
    pod = Pod(ObjectMeta("p", annotations={FRACTION: f"0.{digits}"}), PodSpec([Container("main")]))
    began = time.process_time()
    with pytest.raises(RequestError, match=r"gpu-fraction: .{1,60} is not a number above 0 and below 1"):
        shared_request(pod, "NVIDIA")
    for read, error in ((nano, QuantityError), (seconds, DurationError)):
        with pytest.raises(error) as refusal:
            read(digits + "s")
        assert len(str(refusal.value)) < 200
    assert known_timestamp(f"2026-01-31T12:00:00.{digits}Z") is None
    assert time.process_time() - began < 0.1


def test_exponents_cost_next_to_nothing():
    began = time.process_time()
    assert nano("1e999999") == nano("1e99")
    assert nano("1e-999999") == 1
    assert time.process_time() - began < 0.1


def test_durations_beyond_gos_range_are_none():
    for text in ("9" * 30 + "h", "293000h" * 9):
        with pytest.raises(DurationError):
            seconds(text)


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31T23:59:59.9999999Z",
        "9999-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.9Z",
    ],
)
def test_the_first_and_last_times_can_be_written_again(text):
    assert rfc3339(timestamp(text))[:4] in (text[:4], "1970")
    assert rfc3339_micro(timestamp(text))[:4] == text[:4]


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "0000-01-01T00:00:00Z"])
def test_times_that_cannot_be_written_are_none(text):
    assert known_timestamp(text) is None


@given(
    text=st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,12})?(Z|[+-][01][0-9]:[0-5][0-9])",
        fullmatch=True,
    )
)
def test_every_time_that_is_read_can_be_written_again(text):
    when = known_timestamp(text)
    if when is not None:
        assert abs(timestamp(rfc3339(when)) - when) <= 1
        assert abs(timestamp(rfc3339_micro(when)) - when) < 0.001


def test_a_time_in_the_future_does_not_count():
    now = timestamp("2026-01-31T12:00:00Z")
    assert past_timestamp("2026-01-31T12:00:00Z", now) == now
    assert past_timestamp("2026-01-31T12:00:01Z", now) is None
    assert past_timestamp("2999-01-01T00:00:00Z", now) is None
    assert past_timestamp(None, now) is None

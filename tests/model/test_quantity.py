from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.quantity import (
    LARGEST,
    NANO,
    QuantityError,
    exact,
    format_bytes,
    format_milli,
    milli,
    nano,
    whole,
)

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** (i + 1) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")},
}


def away_from_zero(value: Fraction) -> int:
    rounded = -((-abs(value)) // 1)
    return int(rounded if value >= 0 else -rounded)


def in_nano(value: Fraction) -> int:
    """The oracle: exact arithmetic, capped, then rounded away from zero."""
    return away_from_zero(max(Fraction(-LARGEST), min(Fraction(LARGEST), value)) * NANO)


def in_units(value: Fraction, per_unit: int) -> int:
    return max(-LARGEST, min(LARGEST, away_from_zero(Fraction(in_nano(value) * per_unit, NANO))))


@pytest.mark.parametrize(("suffix", "factor"), FACTORS.items())
def test_every_suffix_multiplies(suffix, factor):
    assert nano(f"3{suffix}") == min(3 * factor, LARGEST) * NANO


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(12, 10)),
        ("1e+2", 100),
        ("1E", 10**18),
        ("+5", 5),
        ("-5", -5),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1.5Gi", 1536 * 2**20),
        ("0e99999999999999999999", 0),
        ("1e-99999999999999999999", Fraction(1, NANO)),
        ("2e+00000000000000000003", 2000),
        ("0" * 500 + "7", 7),
        ("7." + "0" * 500, 7),
    ],
)
def test_forms_of_numbers(text, amount):
    assert nano(text) == amount * NANO


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        ".",
        "m",
        "1 Gi",
        " 1",
        "1\n",
        "1e",
        "1e+",
        "1gi",
        "1KiB",
        "1K",
        "0x10",
        "1,5",
        "1.2.3",
        "--1",
        "inf",
        "nan",
        "1_000",
        "١",
        "1e3Gi",
        "9" * 5000,
    ],
)
def test_texts_that_are_no_quantity(text):
    with pytest.raises(QuantityError, match="is not a quantity; expected"):
        nano(text)


@pytest.mark.parametrize(
    ("value", "in_milli", "in_whole"),
    [
        ("1m", 1, 1),
        ("1n", 1, 1),
        ("0.1m", 1, 1),
        ("1500m", 1500, 2),
        ("-1500m", -1500, -2),
        ("-1n", -1, -1),
        ("2", 2000, 2),
        (0.5, 500, 1),
        (3, 3000, 3),
        ("1e-30", 1, 1),
        ("-1e-30", -1, -1),
    ],
)
def test_rounding_is_away_from_zero(value, in_milli, in_whole):
    assert (milli(value), whole(value)) == (in_milli, in_whole)


@pytest.mark.parametrize("huge", ["1e30", "9" * 40, "100Ei", "1e1000000", 10**40, 1e300])
def test_values_are_capped_at_64_bits(huge):
    assert whole(huge) == milli(huge) == LARGEST
    assert whole(f"-{huge}" if isinstance(huge, str) else -huge) == -LARGEST


def test_exact_is_nothing_for_a_part_of_a_unit():
    assert exact("1500m") is None
    assert exact("-500m") is None
    assert exact("2000m") == 2
    assert exact("4k") == 4000


@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf")])
def test_values_of_other_types_are_refused(value):
    with pytest.raises(QuantityError):
        nano(value)


def test_a_long_text_is_shortened_in_the_message():
    with pytest.raises(QuantityError) as caught:
        nano("x" * 500)
    assert len(str(caught.value)) < 150


digits = st.text("0123456789", min_size=1, max_size=25)


@given(st.sampled_from(["", "+", "-"]), digits, st.none() | digits, st.sampled_from(sorted(FACTORS)))
def test_suffixes_agree_with_exact_arithmetic(sign, before, after, suffix):
    number = before if after is None else f"{before}.{after}"
    value = Fraction(sign + number) * FACTORS[suffix]
    text = f"{sign}{number}{suffix}"
    assert nano(text) == in_nano(value)
    assert milli(text) == in_units(value, 1000)
    assert whole(text) == in_units(value, 1)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None), st.integers(-40, 40))
def test_exponents_agree_with_decimal(number, exponent):
    text = f"{number:f}e{exponent}" if len(f"{number:f}") < 60 else f"1e{exponent}"
    value = Fraction(Decimal(text))
    assert milli(text) == in_units(value, 1000)
    assert whole(text) == in_units(value, 1)


@given(st.integers(-(2**70), 2**70))
def test_integers_are_themselves_up_to_the_cap(number):
    assert whole(number) == whole(str(number)) == max(-LARGEST, min(LARGEST, number))


@given(st.text(max_size=30) | st.text("0123456789.+-eEinmkKMG", max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text):
    try:
        amount = nano(text)
    except QuantityError:
        return
    assert abs(amount) <= LARGEST * NANO


@given(st.integers(-(2**62), 2**62))
def test_formatted_milli_reads_back(amount):
    assert milli(format_milli(amount)) == max(-LARGEST, min(LARGEST, amount))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (-(2**30), "-1Gi"),
        (2**20 - 1, "1Mi"),
        (LARGEST, "8192Pi"),
    ],
)
def test_bytes_for_people(amount, text):
    assert format_bytes(amount) == text

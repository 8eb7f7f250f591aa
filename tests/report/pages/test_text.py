import pytest

from tonnage.report.pages import text


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        (6212, 0, "6,212"),
        (95.234, 1, "95.2"),
        (-3, 0, "−3"),
        (-0.004, 2, "0.00"),
        (0, 0, "0"),
        (-1234.5, 1, "−1,234.5"),
    ],
)
def test_numbers(value: float, digits: int, written: str):
    assert text.number(value, digits) == written


def test_differences_have_a_sign_unless_they_round_to_nothing():
    assert [text.signed(value, 1) for value in (2.0, -2.0, 0.04, -0.04)] == ["+2.0", "−2.0", "0.0", "0.0"]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0s"), (45, "45s"), (90, "1m30s"), (3600, "1h"), (5400, "1h30m"), (216000, "2d12h")],
)
def test_times_are_in_the_largest_unit(seconds: float, written: str):
    assert text.duration(seconds).replace(text.NARROW, " ") == written


def test_one_is_not_many():
    assert [text.counted(count, "node") for count in (0, 1, 1.2, 2)] == ["0 nodes", "1 node", "1 node", "2 nodes"]


def test_lists():
    assert [text.listed("abc"[:length]) for length in (1, 2, 3)] == ["a", "a and b", "a, b and c"]

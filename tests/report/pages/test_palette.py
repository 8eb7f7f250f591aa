"""Colours stand out from the page, and people who see few colours can tell lines apart."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tonnage.report.pages.palette import COLOURS, HEAT_STEPS, LINE_COLOURS, heat, line_colour, line_dash

SCHEMES = pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
# How linear red, green and blue are seen without one kind of cone (Machado, Oliveira and Fernandes 2009).
SEEN = {
    "all": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no blue": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
TO_XYZ = np.array([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8730]])
"""Relative to white."""


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def lab(colour: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ np.clip(colour, 0, 1), 0.008856, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@SCHEMES
@pytest.mark.parametrize("name", ["ink", "quiet", "accent"])
@pytest.mark.parametrize("behind", ["page", "raised"])
def test_text_can_be_read(name: str, behind: str, scheme: int):
    assert contrast(COLOURS[name][scheme], COLOURS[behind][scheme]) >= 4.5


@SCHEMES
@pytest.mark.parametrize("number", range(LINE_COLOURS))
def test_lines_stand_out(number: int, scheme: int):
    assert contrast(COLOURS[f"line-{number}"][scheme], COLOURS["page"][scheme]) >= 3


@SCHEMES
@pytest.mark.parametrize("seen", SEEN)
def test_lines_can_be_told_apart(seen: str, scheme: int):
    colours = [lab(SEEN[seen] @ linear(COLOURS[f"line-{number}"][scheme])) for number in range(LINE_COLOURS)]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(colours, 2)) > 12


@SCHEMES
def test_the_scale_goes_one_way(scheme: int):
    steps = [float(lab(linear(COLOURS[f"heat-{step}"][scheme]))[0]) for step in range(HEAT_STEPS)]
    assert steps == sorted(steps, reverse=scheme == 0)
    assert min(abs(after - before) for before, after in pairwise(steps)) > 5


def test_many_lines_differ_in_colour_or_dash():
    looks = [(line_colour(number), line_dash(number)) for number in range(4 * LINE_COLOURS)]
    assert len(set(looks)) == len(looks)


def test_only_nothing_is_free_and_only_all_is_full():
    assert [heat(share) for share in (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)] == [0, 1, 2, 3, 4, 4, 5]

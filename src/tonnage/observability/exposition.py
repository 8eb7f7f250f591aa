"""Prometheus' text format, written directly: a cluster's cards come to hundreds of thousands of lines.

Text is made in slices of a fraction of a millisecond, so that decisions are not kept waiting behind it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

ZONE = "vGPU"
"""The value of the label `zone`, which all of HAMi's metrics have."""
SLICE = 256
"""Lines made in one go."""


class Family(NamedTuple):
    """A metric: its name, its labels and what it says."""

    name: str
    labels: tuple[str, ...]
    help: str


def samples(family: Family, pairs: Iterable[tuple[str, float]]) -> Iterator[str]:
    """A metric in parts: its head, then a line for each pair of labels, as they stand between the braces, and value."""
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} gauge\n"
    name, rest = family.name, iter(pairs)
    while part := "".join([f"{name}{{{labels}}} {value}\n" for labels, value in islice(rest, SLICE)]):
        yield part


def escaped(value: str) -> str:
    """The value of a label, as it stands between the quotation marks."""
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels as they stand between the braces."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)])

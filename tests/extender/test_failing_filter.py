"""Filter calls that raise: the pod has no place afterwards, and nobody else has lost one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extender.asking import asked, named, reservations
from tests.injecting import InjectedError, raising_at
from tests.recounting import differences
from tests.scenario import node, running, scenario
from tonnage.extender.reservations import Reservations

NAMES = ["a", "b"]


def kept() -> Reservations:
    """Two nodes; one pod runs, one has a place, and one whose turn it is had a place before."""
    cluster = scenario(node("a", gpus=2), node("b", gpus=2), running("x", on="a", gpu=0, memory=1000))
    made = reservations(cluster)
    for wanted in (named("other", gpus=1, memory=4000), named("again", gpus=2, memory=1000)):
        cluster.upsert_pod(wanted)
        assert made.filter(asked(wanted, *NAMES), 0.0).result.node_names
    return made


def lines_of_a_filter() -> int:
    made = kept()
    with raising_at(-1) as seen:
        made.filter(asked(named("again", gpus=2, memory=1000), *NAMES), 1.0)
    return seen[0]


@given(line=st.integers(1, lines_of_a_filter()), is_known=st.booleans())
@settings(max_examples=100, deadline=None)
def test_after_a_raise_at_any_line_nothing_is_half_reserved(line: int, is_known: bool) -> None:
    made, name = kept(), "again" if is_known else "new"
    cluster = made._cluster
    try:
        with raising_at(line):
            made.filter(asked(named(name, gpus=2, memory=1000), *NAMES), 1.0)
    except InjectedError:
        assert f"default/{name}" not in cluster.reserved or made.reservation(f"default/{name}", None) is not None
    assert differences(cluster) == []
    assert cluster.reserved.keys() == {one.task.key for one in made.kept()}, "a place is kept that never expires"
    assert "default/other" in cluster.reserved
    assert "default/new" not in cluster.waiting, "the watch has not shown it"
    assert made.filter(asked(named(name, gpus=2, memory=1000), *NAMES), 2.0).result.node_names


def test_the_caller_hears_of_it() -> None:
    made = kept()
    with pytest.raises(InjectedError), raising_at(10):
        made.filter(asked(named("again", gpus=2, memory=1000), *NAMES), 1.0)

"""The registry of reasons is complete, and says what the extender and the simulator rely on."""

import pytest

from tests.reasons import reasons_in_code
from tonnage.framework.reasons import KNOWN_REASONS, PLUGIN_FAILED, Remedy, is_lasting, is_resolvable, known_reason


def test_every_reason_in_the_code_is_registered_and_no_other() -> None:
    assert {name for _, name in reasons_in_code()} | {PLUGIN_FAILED} == KNOWN_REASONS.keys()


@pytest.mark.parametrize("name", KNOWN_REASONS)
def test_every_reason_says_what_it_means_in_one_sentence(name: str) -> None:
    means = KNOWN_REASONS[name].means
    assert means[0].isupper()
    assert means.endswith(".")
    assert means.count(". ") == 0


def test_a_reason_that_lasts_is_not_resolved_by_evictions() -> None:
    assert is_lasting("NodeUnschedulable")
    assert not is_resolvable("NodeUnschedulable")
    assert is_resolvable("CardInsufficientMemory")
    assert not is_lasting("CardInsufficientMemory")
    assert known_reason("PodAffinityMismatch").remedy is Remedy.TIME


def test_the_reason_of_somebody_elses_plugin_counts_as_one_that_evictions_resolve() -> None:
    assert "SpotInstance" not in KNOWN_REASONS
    assert is_resolvable("SpotInstance")
    assert not is_lasting("SpotInstance")

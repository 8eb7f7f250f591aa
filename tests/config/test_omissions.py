"""A configuration that leaves out the usual rules about jobs is told what then happens."""

from pathlib import Path

import pytest

from tests.config.texts import KAI_DEFAULT, VOLCANO_BUILT_IN, warnings, with_plugin
from tests.paths import ROOT
from tonnage.api import Job, Plugin, Session
from tonnage.config import finder
from tonnage.config.load import load_file

EXAMPLES = [file for file in sorted((ROOT / "examples").glob("*.yaml")) if "\ntiers:" in file.read_text()]


def about(word: str, text: str) -> list[str]:
    return [line for line in warnings(text) if word in line]


# -- the order of jobs


def test_jobs_without_an_order_by_priority_are_warned_of() -> None:
    (said,) = about("by priority", "actions: allocate\ntiers:\n- plugins:\n  - name: fragmentation\n")
    assert said.startswith("FILE:3:1: no plugin orders jobs by priority, so that an older pod is placed before")
    assert "name priority too" in said


def test_another_order_of_jobs_is_no_order_by_priority() -> None:
    assert about("by priority", "actions: allocate\ntiers: [plugins: [name: drf, name: elastic, name: binpack]]\n")
    assert about("by priority", with_plugin("priority", "enableJobOrder: false"))


@pytest.mark.parametrize("text", [VOLCANO_BUILT_IN, KAI_DEFAULT, with_plugin("binpack"), "actions: allocate\n"])
def test_an_order_by_priority_is_not_warned_of(text: str) -> None:
    assert about("by priority", text) == []


class Urgency(Plugin):
    """Orders jobs by a rule of its own."""

    name = "urgency"

    def on_session_open(self, session: Session) -> None:
        session.add_job_order(self.order)

    def order(self, one: Job, other: Job) -> int:
        return other.priority - one.priority


class Silent(Plugin):
    """Has no say about jobs."""

    name = "silent"

    def on_session_open(self, session: Session) -> None:
        pass


def test_a_third_partys_order_of_jobs_may_be_by_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "_registered", {"urgency": Urgency, "silent": Silent})
    assert about("by priority", "actions: allocate\ntiers: [plugins: [name: urgency]]\n") == []
    assert about("by priority", "actions: allocate\ntiers: [plugins: [name: silent]]\n")


# -- gangs


def test_gangs_that_start_in_parts_are_warned_of_at_their_plugin() -> None:
    (said,) = about("gangs", with_plugin("gang", "enableJobReady: false"))
    assert said == "FILE:4:11: gangs are not kept whole: with enableJobReady: false their pods start one by one"


def test_gangs_that_may_be_stopped_are_warned_of_with_the_actions_that_may() -> None:
    (said,) = about("gang", "actions: allocate, preempt\ntiers: [plugins: [name: binpack, name: priority]]\n")
    assert said.startswith("FILE:2:8: gang is not named: gangs start whole all the same, but preempt may stop")
    (said,) = about("gang is not named", KAI_DEFAULT)
    assert "preempt and reclaim may stop a running one, as in KAI" in said


def test_gangs_start_whole_without_a_word_where_nothing_stops_pods() -> None:
    assert about("gang", with_plugin("binpack")) == []
    assert about("gang", "actions: allocate, preempt\ntiers: [plugins: [name: gang, name: binpack]]\n") == []


# -- what comes with Tonnage


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_example_configurations_leave_nothing_to_say(file: Path) -> None:
    assert load_file(str(file)).warnings == []

"""Volcano's sla: who is due is served and admitted."""

import pytest

from tests.config.texts import load
from tests.groups import add, cycle, group, members
from tests.kai_cases import NOW
from tests.scenario import node, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import SLA_WAITING_TIMES
from tonnage.config.notes import ConfigError
from tonnage.model.timestamp import rfc3339

CONFIG = """
actions: enqueue, allocate
tiers:
- plugins: [{name: sla, arguments: {sla-waiting-time: 10m}}]
- plugins: [{name: priority}, {name: gang}, {name: overcommit}]
"""
ACTIONS = ("enqueue", "allocate")


def world(*groups: tuple[str, float, str | None], phase: str = "Inqueue", cpus: int = 1, **spec: object) -> Cluster:
    """Groups of one pod with their age in seconds and how long they may wait, on a node of one CPU."""
    pods = [pod for name, *_ in groups for pod in members(name, 1, cpu="1")]
    cluster = scenario(node("a", cpu=str(cpus)), *pods)
    cluster.now = NOW
    for name, age, limit in groups:
        notes = {} if limit is None else {SLA_WAITING_TIMES[1]: limit}
        add(cluster, group(name, 1, created=rfc3339(NOW - age), annotations=notes, phase=phase, **spec))
    return cluster


def placed(cluster: Cluster, text: str = CONFIG) -> list[str]:
    return sorted(cycle(cluster, actions=ACTIONS, plugins=load(text).plugins).placed)


def test_the_job_whose_time_ends_first_is_served_first_and_those_without_a_limit_last():
    assert placed(world(("old", 100, None), ("hasty", 10, "1m"))) == ["hasty-0"]
    assert placed(world(("old", 100, None), ("young", 10, None))) == ["old-0"]
    without = CONFIG.replace(", arguments: {sla-waiting-time: 10m}", "")
    assert placed(world(("old", 9999, None), ("patient", 10, "100h")), without) == ["patient-0"]
    assert placed(world(("old", 100, None), ("broken", 10, "soon"), ("none", 9, "0s")), without) == ["old-0"]


@pytest.mark.parametrize(("age", "admitted"), [(599, []), (600, ["late-0"])])
def test_a_job_that_has_waited_long_enough_is_admitted_although_there_is_too_little(age, admitted):
    cluster = world(("late", age, None), phase="Pending", cpus=2, minResources={"cpu": 9})
    outcome = cycle(cluster, actions=ACTIONS, plugins=load(CONFIG).plugins)
    assert sorted(outcome.placed) == admitted
    assert outcome.session.next_change == (None if admitted else NOW + 1)


def test_without_a_time_nobody_is_due():
    cluster = world(("late", 9999, None), phase="Pending", minResources={"cpu": 9})
    cluster.now = None
    assert placed(cluster) == []


def test_a_job_that_is_due_keeps_the_places_that_it_finds():
    """In a tier before that of gang, as in Volcano: others do not take them, and nobody starts."""
    cluster = scenario(node("a", cpu="2"), *members("late", 3, cpu="1"), *members("small", 1, cpu="1"))
    cluster.now = NOW
    add(cluster, group("late", 3, created=rfc3339(NOW - 600)), group("small", 1, created=rfc3339(NOW - 1)))
    outcome = cycle(cluster, actions=ACTIONS, plugins=load(CONFIG).plugins)
    assert outcome.placed == {}
    assert len(cluster.pipelined) == 2


def test_a_waiting_time_that_is_no_duration_is_an_error():
    with pytest.raises(ConfigError, match="soon"):
        load(CONFIG.replace("10m", "soon"))

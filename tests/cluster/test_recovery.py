"""Bugs that one object shows again and again: the others are served, and the pod's cards are not free."""

from contextlib import suppress
from typing import Any

import pytest

from tests.groups import member, members
from tests.scenario import node, part, plain, pod, running, usage
from tonnage.cluster import task as tasks
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.cluster.jobs.index import JobIndex
from tonnage.cluster.jobs.job import PodStatus
from tonnage.devices.catalog import default_vendors
from tonnage.devices.nvidia import Nvidia
from tonnage.model.pod import Pod


class BugError(Exception):
    """A mistake of ours."""


def break_for_odd_pods(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
    real = getattr(where, name)

    def broken(*arguments: Any) -> Any:
        pods = [one for one in arguments if isinstance(one, Pod | tasks.Task)]
        if any("odd" in one.key for one in pods):
            raise BugError
        return real(*arguments)

    monkeypatch.setattr(where, name, broken)


def world(*things: object) -> Cluster:
    cluster = Cluster(default_vendors())
    for thing in (node("a", gpus=2), plain("c", 2), *members("train", 2), *things):
        HANDLERS[type(thing)].put(cluster, thing)
    return cluster


def put(cluster: Cluster, thing: Pod) -> None:
    with pytest.raises(BugError):
        HANDLERS[Pod].put(cluster, thing)


IN_RULES, IN_REQUESTS, IN_CARDS = (tasks, "pod_rules"), (tasks, "_demands"), (Nvidia, "decode_pod")
IN_JOBS = (JobIndex, "put")
BUGS = [IN_RULES, IN_REQUESTS, IN_CARDS, IN_JOBS]


@pytest.mark.parametrize("bug", BUGS)
def test_a_pod_on_a_node_holds_the_cards_that_it_names_or_as_many_as_it_requests(monkeypatch, bug):
    cluster = world()
    break_for_odd_pods(monkeypatch, *bug)
    put(cluster, running("odd", on="a", gpu=1, memory=8000))
    named = [(0, 0, 0), (1, 8000, 0)] if bug in (IN_RULES, IN_JOBS) else [(0, 0, 0), (0, 0, 0)]
    assert usage(cluster, "a") == named
    assert cluster.columns.foreign_total == (0 if bug in (IN_RULES, IN_JOBS) else 1)
    assert cluster.holders == {"default/odd": "a"}
    assert any("BugError" in str(problem) for problem in cluster.problems()) or bug is IN_JOBS
    with suppress(BugError):
        HANDLERS[Pod].drop(cluster, "default/odd", None)
    assert usage(cluster, "a") == [(0, 0, 0), (0, 0, 0)]
    assert not cluster.holders


@pytest.mark.parametrize("wanted", [pod("odd", 1, on="c"), part("odd", 0.5, on="c", group="g")])
def test_a_pod_on_a_node_that_names_no_card_has_one(monkeypatch, wanted):
    cluster = world()
    break_for_odd_pods(monkeypatch, *IN_REQUESTS)
    put(cluster, wanted)
    assert [slots for slots, _, _ in usage(cluster, "c")] == [1, 0]


@pytest.mark.parametrize("bug", [IN_RULES, IN_REQUESTS, IN_CARDS])
def test_a_pod_that_is_known_keeps_what_it_held(monkeypatch, bug):
    cluster = world(running("odd", on="a", gpu=1, memory=8000))
    held = cluster.held("default/odd")
    break_for_odd_pods(monkeypatch, *bug)
    put(cluster, running("odd", on="a", gpu=0, memory=1, terminating=True))
    assert cluster.held("default/odd") == held
    assert usage(cluster, "a") == [(0, 0, 0), (1, 8000, 0)]
    assert cluster.status("default/odd") == PodStatus.LEAVING


@pytest.mark.parametrize("bug", [IN_RULES, IN_REQUESTS, IN_JOBS])
def test_a_pod_without_a_node_waits_with_a_fault_and_the_others_have_their_jobs(monkeypatch, bug):
    cluster = world()
    break_for_odd_pods(monkeypatch, *bug)
    put(cluster, member("odd", "train", 1))
    assert "BugError" in cluster.waiting["default/odd"].fault
    assert cluster.groups.jobs["default/train"].tasks.keys() >= {"default/train-0", "default/train-1"}

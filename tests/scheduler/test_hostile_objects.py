"""Tenants who write what they like on their own pods and PodGroups: nobody else notices, and no cycle raises."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import group, kai_group, member, members
from tests.scenario import node, pod, running, usage
from tests.scheduler.watching import NOW, Watching, said
from tonnage.cluster.jobs.group import LAST_EVICTION, LAST_START, STALE_SINCE
from tonnage.model.annotations import MAX_MEMBERS, MIN_MEMBERS, QUEUE, TOPOLOGY_REQUIRED
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.gpus.gpupolicy import ANNOTATION, WEIGHTS_ANNOTATION
from tonnage.plugins.jobs.minruntime import MinRuntime
from tonnage.plugins.jobs.priority import Priority

ACTIONS = ("allocate", "preempt", "reclaim", "consolidation", "stalegangeviction")
MANY_DIGITS = "0" * 11 + "1" + "9" * 5000
HUGE = "9" * 200_000
VALUES = (
    *(
        "",
        " ",
        "0",
        "-1",
        "+1",
        "1.5",
        "1e9",
        "1e999999",
        "nan",
        "inf",
        "²",
        "٠.٥",
        "\x00",
        "\ud800",
        "a,b",
        "😀" * 1000,
    ),
    *(MANY_DIGITS, HUGE, f"0.{HUGE}", "[" * 100_000, "{" * 100_000, "a,NVIDIA,1,1:" * 5000, "binpack," * 30_000),
    *("2999-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00Z", f"2026-01-31T12:00:00.{HUGE}Z"),
)
POD_KEYS = (
    *(MIN_MEMBERS, MAX_MEMBERS, QUEUE, TOPOLOGY_REQUIRED, ANNOTATION, WEIGHTS_ANNOTATION, LAST_START),
    *("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name", "nvidia.com/vgpu-mode"),
    *("scheduling.k8s.io/group-name", "pod-group-name", "volcano.sh/preemptable", "kai.scheduler/topology"),
    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "hami.io/bind-time"),
)
GROUP_KEYS = (MAX_MEMBERS, TOPOLOGY_REQUIRED, LAST_START, LAST_EVICTION, STALE_SINCE)


def with_annotations(one: Pod, **annotations: str) -> Pod:
    metadata = msgspec.structs.replace(one.metadata, annotations={**one.annotations, **annotations})
    return msgspec.structs.replace(one, metadata=metadata)


def world(*things: Any, actions: tuple[str, ...] = ACTIONS) -> Watching:
    return Watching([*default_plugins(), Priority(), MinRuntime()], actions, things)


def on_card(name: str) -> Pod:
    """A pod that runs and holds the only card whole."""
    return running(name, on="a", gpu=0, memory=8000, cores=100)


@pytest.mark.parametrize("text", [MANY_DIGITS, HUGE, "-1", "many"])
def test_a_pod_that_writes_numbers_of_any_length_keeps_its_card(text: str) -> None:
    live = world(node("a", gpus=1, slots=1), on_card("x"))
    live.tell(with_annotations(on_card("x"), **{MIN_MEMBERS: text}), pod("p", 1))
    assert usage(live.cluster, "a") == [(1, 8000, 100)]
    (decision,) = live.decide()
    assert (decision.task.name, decision.node) == ("p", None)
    assert "expected a whole number from 1 up" in " ".join(map(str, live.cluster.problems()))


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.9999999Z", "2999-01-01T00:00:00Z", HUGE])
def test_a_gang_that_writes_times_to_come_disturbs_no_cycle(text: str) -> None:
    live = world(
        node("a", gpus=1, slots=1),
        kai_group("stale", 2, annotations={STALE_SINCE: text, LAST_START: text, LAST_EVICTION: text}),
        member("stale-0", "stale", on="a"),
        pod("p", 1),
    )
    assert said(live.decide())["default/p"][:2] == ("placed", "a")
    cycle = live.cycle_runner.run(frozenset(), NOW)
    assert [gang.since for gang in cycle.stale or ()] in ([rfc3339(NOW)], [])


def test_a_fraction_of_any_length_costs_next_to_nothing() -> None:
    live = world(node("a", gpus=1))
    began = time.process_time()
    for _ in range(20):
        live.tell(pod("p", annotations={"gpu-fraction": f"0.{HUGE}"}))
    assert time.process_time() - began < 0.5
    (decision,) = live.decide()
    assert "is not a number above 0 and below 1" in decision.task.fault
    assert len(decision.task.fault) < 200


@pytest.mark.parametrize("make", [group, kai_group])
def test_a_group_that_names_a_class_of_the_system_preempts_nobody(make: Any) -> None:
    live = world(node("a", gpus=1, slots=1), on_card("x"))
    live.tell(make("greedy", 1, priorityClassName="system-node-critical"), *members("greedy", 1, 1))
    cycle = live.cycle_runner.run(frozenset(), NOW)
    assert not cycle.plans
    assert not live.cluster.leaving
    live.tell(pod("urgent", 1, priority=50))
    assert [one.task.name for plan in live.cycle_runner.run(frozenset(), NOW).plans for one in plan.victims] == ["x"]


@settings(deadline=None)
@given(
    on_pod=st.dictionaries(st.sampled_from(POD_KEYS), st.sampled_from(VALUES) | st.text(), max_size=4),
    on_group=st.dictionaries(st.sampled_from(GROUP_KEYS), st.sampled_from(VALUES) | st.text(), max_size=3),
)
def test_nothing_that_a_tenant_writes_frees_a_card_or_stops_a_cycle(
    on_pod: dict[str, str], on_group: dict[str, str]
) -> None:
    live = world(node("a", gpus=1, slots=1), node("b", gpus=1, slots=1), on_card("x"), kai_group("g", 1))
    live.tell(with_annotations(on_card("x"), **on_pod), kai_group("g", 1, annotations=on_group))
    live.tell(pod("hostile", 1, annotations=on_pod), member("g-0", "g", on="b", annotations=on_pod), pod("honest", 1))
    assert usage(live.cluster, "a") == [(1, 8000, 100)]
    assert "default/x" in live.cluster.running
    began = time.process_time()
    decided = said(live.decide())
    assert time.process_time() - began < 1
    assert decided["default/honest"][1] in ("b", None)
    assert all(str(problem) for problem in live.cluster.problems())


def test_members_are_read_as_the_api_server_shows_them() -> None:
    plain = {"metadata": {"name": "x", "annotations": {MIN_MEMBERS: MANY_DIGITS}}, "spec": {"nodeName": "a"}}
    live = world(node("a"), convert(plain, Pod))
    assert live.cluster.holders == {"default/x": "a"}

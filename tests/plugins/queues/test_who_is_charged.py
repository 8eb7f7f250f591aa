"""Whom queues are charged for: no pods of other schedulers, and no promises to pods that are gated."""

import msgspec
import pytest

from tests.groups import add, cycle, group, member, queue
from tests.scenario import node, pod, scenario
from tonnage.framework.plugin import Plugin
from tonnage.model.pod import Pod, SchedulingGate
from tonnage.plugins.queues.capacity import Capacity
from tonnage.plugins.queues.overcommit import Overcommit
from tonnage.plugins.queues.proportion import Proportion


@pytest.mark.parametrize("plugin", [Proportion(), Capacity()])
@pytest.mark.parametrize("scheduler", ["other", None])
def test_pods_of_other_schedulers_are_charged_to_nobody(plugin: Plugin, scheduler: str | None) -> None:
    cluster = scenario(node("a", cpu="4"), pod("held", cpu=2, on="a", scheduler=scheduler), pod("mine", cpu=1))
    cluster.is_ours = lambda pod: pod.scheduler != "other"
    add(cluster, queue("default", capability={"cpu": "2"}))
    assert bool(cycle(cluster, plugin).placed) == (scheduler == "other")


def test_what_pods_of_other_schedulers_hold_is_not_free_all_the_same() -> None:
    cluster = scenario(node("a", cpu="2"), pod("held", cpu=2, on="a", scheduler="other"), pod("mine", cpu=1))
    cluster.is_ours = lambda pod: pod.scheduler != "other"
    assert not cycle(add(cluster, queue("default")), Proportion()).placed


def test_queues_divide_what_pods_of_other_schedulers_leave() -> None:
    others = [pod(f"other-{n}", cpu=3, on=n, scheduler="other") for n in "ab"]
    mine = [pod(f"mine-{n}", cpu=1, on=n, annotations={"scheduling.volcano.sh/queue-name": "one"}) for n in "ab"]
    late = pod("late", cpu=1, annotations={"scheduling.volcano.sh/queue-name": "two"})
    cluster = scenario(node("a", cpu="4"), node("b", cpu="4"), *others, *mine, late)
    cluster.is_ours = lambda pod: pod.scheduler != "other"
    add(cluster, queue("one"), queue("two"))
    found = cycle(cluster, Proportion(), actions=("allocate", "reclaim"))
    assert len(found.session.evictions) == 1


def gated(made: Pod) -> Pod:
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulingGates=[SchedulingGate("x")]))


@pytest.mark.parametrize("plugin", [Overcommit(), Proportion(), Capacity()])
@pytest.mark.parametrize("is_gated", [True, False])
def test_gated_pods_do_not_keep_what_was_promised_to_their_group(plugin: Plugin, is_gated: bool) -> None:
    first = [member(f"first-{number}", "first", cpu=2) for number in (0, 1)]
    cluster = scenario(node("a", cpu="4"), *(map(gated, first) if is_gated else first), member("late", "second", cpu=3))
    add(
        cluster,
        queue("default", capability={"cpu": "4"}),
        group("first", 3, phase="Inqueue", minResources={"cpu": "4"}),
    )
    add(cluster, group("second", 1, phase="Pending", minResources={"cpu": "3"}))
    found = cycle(cluster, plugin, actions=("enqueue", "allocate"))
    assert [job.key for job in found.session.enqueued] == (["default/second"] if is_gated else [])

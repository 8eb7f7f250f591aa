"""What is a reason for a cycle, and for whom."""

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tests.groups import group, kai_group, queue
from tests.scenario import ALLOCATED, container, node, pod
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.devices.catalog import default_vendors
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import WatchedKind, batch_kinds
from tonnage.kube.resource import Change
from tonnage.kube.watch import Backoff
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quota import BudgetSpec, BudgetStatus, PodDisruptionBudget
from tonnage.model.selection import LabelSelector
from tonnage.scheduler.triggers import Triggers
from tonnage.scheduler.unschedulable import UnschedulablePods


class World:
    """A cluster that is told of changes as the watch tells them."""

    def __init__(self, *things: Node | Pod) -> None:
        self.cluster = Cluster(default_vendors())
        self.unschedulable = UnschedulablePods(lambda: 0.0)
        self.woken = 0
        triggers = Triggers("tonnage", self.unschedulable, self._wake)
        kinds = batch_kinds(triggers.is_ours)
        self.informer = ClusterInformer(Mock(), self.cluster, Backoff(draw=lambda: 0.5), kinds)
        triggers.listen(self.informer)
        self.kinds = {kind.resource.type: kind for kind in kinds}
        for thing in things:
            self.wakes(thing)

    def _wake(self) -> None:
        self.woken += 1

    def wakes(self, thing: Any) -> bool:
        """Whether it is a reason for a cycle that a thing is so."""
        kind = self.kinds[type(thing)]
        return self._wakes(kind, Change(kind.resource.key(thing.metadata), thing))

    def wakes_without(self, gone: Pod) -> bool:
        return self._wakes(self.kinds[Pod], Change(gone.key, gone, is_gone=True))

    def _wakes(self, kind: WatchedKind, change: Change) -> bool:
        before = self.woken
        self.informer.take(kind, change)
        assert not self.informer.problems
        return self.woken > before


def ours(name: str, scheduler: str = "tonnage", **more: object) -> Pod:
    made = pod(name, **{"cpu": "1", **more})  # type: ignore[arg-type]
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedulerName=scheduler))


def test_a_pod_of_ours_is_a_reason_once() -> None:
    world = World(node("a"))
    assert world.wakes(ours("p"))
    assert not world.wakes(ours("p")), "the same again, as after our own condition"
    assert world.wakes(ours("p", cpu="2"))


def test_pods_of_others_are_left_alone_until_they_hold_something() -> None:
    world = World(node("a"))
    assert not world.wakes(ours("p", scheduler="another"))
    assert not world.cluster.waiting
    world.wakes(ours("p", scheduler="another", on="a"))
    assert world.cluster.holders == {"default/p": "a"}


def test_a_running_pod_that_still_runs_is_no_reason_and_its_end_is() -> None:
    world = World(node("a"), ours("p", on="a", phase="Pending"))
    assert not world.wakes(ours("p", on="a", phase="Running"))
    assert world.wakes(ours("p", on="a", phase="Succeeded"))
    assert not world.wakes_without(ours("p", on="a")), "it held nothing any more"


def test_news_of_a_pod_on_its_way_to_its_node_is_no_reason() -> None:
    world = World(node("a"), node("b"), ours("p"))
    world.cluster.reserve(world.cluster.waiting["default/p"], "a", ())
    assert not world.wakes(ours("p", labels={"written": "by us"}))
    assert "default/p" in world.cluster.reserved
    assert not world.wakes(ours("p", on="a"))
    assert "default/p" in world.cluster.running


def test_a_pod_that_somebody_else_bound_elsewhere_frees_its_place() -> None:
    world = World(node("a"), node("b"), ours("p"))
    world.cluster.reserve(world.cluster.waiting["default/p"], "a", ())
    assert world.wakes(ours("p", on="b"))


def test_a_foreign_pod_takes_the_name_of_one_that_is_gone() -> None:
    world = World(node("a"), ours("p", on="a"))
    assert world.wakes(ours("p", scheduler="another")), "a list does not tell that the first one went"
    assert not world.cluster.pods()


def test_a_deleted_pod_is_a_reason() -> None:
    world = World(node("a"), ours("p", on="a"))
    assert world.wakes_without(ours("p", on="a"))


def test_an_init_container_that_gives_its_card_back_is_a_reason() -> None:
    parts = {"init": [container("load", gpus=1, memory=7000)], "containers": [container(gpus=1, memory=1000)]}
    notes = {ALLOCATED: "a/0,NVIDIA,7000,0:;a/0,NVIDIA,1000,0:;"}
    world = World(node("a", gpus=1), ours("p", on="a", annotations=notes, **parts))
    assert not world.wakes(ours("p", on="a", annotations=notes, started="2026-01-01T00:00:00Z", **parts))
    assert world.wakes(ours("p", on="a", annotations=notes, ended=["load"], **parts))


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"annotations": {"hami.io/node-handshake": "Reported 2026.01.02"}}, False),
        ({"annotations": {"hami.io/node-handshake": "Deleted_2026"}}, True),
        ({"annotations": {"hami.io/node-handshake": "Requesting", "hami.io/mutex.lock": "somebody"}}, False),
        ({"annotations": {"hami.io/node-handshake": "Requesting", "cambricon.com/dsmlu.lock": "now"}}, False),
        ({"labels": {"zone": "b"}}, True),
        ({"unschedulable": True}, True),
        ({"cpu": "65"}, True),
    ],
)
def test_a_node_that_lives_is_no_reason_and_one_that_changes_is(change: dict[str, object], matters: bool) -> None:
    world = World(node("a", annotations={"hami.io/node-handshake": "Reported 2026.01.01"}))
    assert world.wakes(node("a", **{"annotations": {"hami.io/node-handshake": "Requesting"}, **change})) == matters  # type: ignore[arg-type]


def test_a_queue_is_a_reason_only_when_it_changes() -> None:
    world = World()
    assert world.wakes(queue("q", weight=1))
    assert not world.wakes(queue("q", weight=1))
    assert world.wakes(queue("q", weight=2))


@pytest.mark.parametrize("on", [None, "a"])
def test_annotations_of_a_group_that_holds_nothing_retry_its_own_pods_only(on: str | None) -> None:
    notes = {"annotations": {"pod-group-name": "k"}}
    world = World(node("a"), ours("first", on=on, **notes), ours("mine", **notes), ours("other"))
    world.wakes(kai_group("k", 2))
    tasks = [world.cluster.waiting[key] for key in ("default/mine", "default/other")]
    world.unschedulable.add([Mock(task=task, job=world.cluster.groups.job_of(task)) for task in tasks])
    assert world.wakes(kai_group("k", 2, annotations={"a": "b"}))
    assert "default/mine" not in world.unschedulable
    assert ("default/other" in world.unschedulable) == (on is None)


def test_what_schedulers_write_about_groups_and_queues_is_no_reason() -> None:
    world = World()
    assert world.wakes(group("g", 2, phase=""))
    world.cluster.groups.let_in("default/g")
    assert not world.wakes(group("g", 2, phase="Inqueue"))
    assert world.cluster.groups.groups["default/g"].phase == "Inqueue", "but it is taken over"
    assert world.wakes(group("g", 3, phase="Inqueue"))
    assert world.wakes(kai_group("k", 2))
    stale = "kai.scheduler/stale-podgroup-timestamp"
    assert not world.wakes(kai_group("k", 2, annotations={stale: "2026-01-01T00:00:00Z"}))
    assert world.cluster.groups.groups["default/k"].times.stale_since is not None
    world.wakes(queue("q"))
    held = queue("q")
    held = msgspec.structs.replace(held, status=msgspec.structs.replace(held.status, allocated={"cpu": "1"}))
    assert not world.wakes(held)
    assert world.wakes(queue("q", state="Closed"))


@pytest.mark.parametrize(("before", "after"), [("Pending", "Inqueue"), ("Inqueue", "Completed")])
def test_a_group_that_somebody_else_lets_in_or_ends_is_a_reason(before: str, after: str) -> None:
    world = World()
    world.wakes(group("g", 2, phase=before))
    assert world.wakes(group("g", 2, phase=after))
    assert not world.wakes(group("g", 2, phase=after))


def test_a_group_that_runs_as_it_was_let_in_is_no_reason() -> None:
    world = World(
        node("a"), *[ours(f"g-{n}", on="a", annotations={"scheduling.k8s.io/group-name": "g"}) for n in (0, 1)]
    )
    world.wakes(group("g", 2, phase="Inqueue"))
    assert not world.wakes(group("g", 2, phase="Running"))


def test_a_finished_pod_of_a_job_that_goes_is_a_reason() -> None:
    notes = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    world = World(node("a"), ours("p", on="a", phase="Succeeded", **notes))
    assert world.wakes_without(ours("p", on="a", phase="Succeeded", **notes))


def test_groups_whose_pods_wait_for_another_scheduler_are_not_ours_to_let_in() -> None:
    notes = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    world = World(node("a"), ours("p", scheduler="another", **notes))
    world.wakes(group("g", 1, phase="Pending"))

    def new() -> list[Job]:
        return world.cluster.groups.new_jobs(lambda pod: pod.spec.schedulerName != "another")

    assert new() == []
    world.wakes_without(ours("p", scheduler="another", **notes))
    assert [job.key for job in new()] == ["default/g"], "nobody's pods are there"
    world.wakes(ours("p", scheduler="another", **notes))
    world.wakes(ours("p", scheduler="another", on="a", **notes))
    assert new() == [], "its pods have nodes"
    world.wakes(group("g", 2, phase="Pending"))
    assert new() == [], "another scheduler's pods lack one"
    world.wakes(ours("q", **notes))
    assert [list(job.tasks) for job in new()] == [["default/p", "default/q"]]


def test_a_list_without_a_foreign_pod_lets_it_be_forgotten() -> None:
    world = World(ours("p", scheduler="another", annotations={"scheduling.k8s.io/group-name": "g"}))
    pods = world.kinds[Pod]
    assert list(pods.handler.known(world.cluster)) == ["default/p"]
    world.informer.take(pods, Change("default/p", is_gone=True))
    assert list(pods.handler.known(world.cluster)) == []


def test_a_budget_that_lets_pods_go_again_is_a_reason_and_other_changes_of_its_status_are_none() -> None:
    def budget(allowed: int, **spec: int) -> PodDisruptionBudget:
        selector = LabelSelector({"app": "web"})
        status = BudgetStatus(disruptionsAllowed=allowed)
        return PodDisruptionBudget(ObjectMeta("keep", "default"), BudgetSpec(selector, **spec), status)

    world = World(node("a"))
    assert world.wakes(budget(1))
    assert not world.wakes(budget(0))
    assert world.wakes(budget(1))
    assert not world.wakes(budget(2))
    assert world.wakes(budget(2, maxUnavailable=3))

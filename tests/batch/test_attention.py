"""What is a reason for a cycle, and for whom."""

import msgspec
import pytest

from tests.groups import queue
from tests.scenario import node, pod
from tonnage.batch.attention import Attention
from tonnage.batch.backlog import Backlog
from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.kube.kinds import BATCH_KINDS, VOLCANO_QUEUES
from tonnage.kube.picture import NODES, PODS
from tonnage.model.node import Node
from tonnage.model.pod import Pod


class World:
    """A cluster that is told of changes as the watch tells them."""

    def __init__(self, *things: Node | Pod) -> None:
        self.cluster = Cluster(default_vendors())
        self.backlog = Backlog(lambda: 0.0)
        self.woken = 0
        attention = Attention("tonnage", self.backlog, self._wake)
        self._kinds = {kind.resource.path: kind for kind in attention.kinds(BATCH_KINDS)}
        for thing in things:
            self.wakes(thing)

    def _wake(self) -> None:
        self.woken += 1

    def wakes(self, thing: object) -> bool:
        """Whether it is a reason for a cycle that a thing is so."""
        kind = NODES if isinstance(thing, Node) else PODS if isinstance(thing, Pod) else VOLCANO_QUEUES
        before = self.woken
        self._kinds[kind.resource.path].put(self.cluster, thing)
        return self.woken > before

    def wakes_without(self, gone: Pod) -> bool:
        before = self.woken
        self._kinds[PODS.resource.path].drop(self.cluster, gone.key, gone)
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


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"annotations": {"hami.io/node-handshake": "Reported 2026.01.02"}}, False),
        ({"annotations": {"hami.io/node-handshake": "Deleted_2026"}}, True),
        ({"annotations": {"hami.io/node-handshake": "Requesting", "hami.io/mutex.lock": "somebody"}}, False),
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

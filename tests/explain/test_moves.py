"""A pod that waits because free cards are scattered is told which pods to move, if that helps and hurts nobody more."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.explain.asking import ask
from tests.groups import add, group
from tests.plan.defrag.planning import NOW, kept
from tests.scenario import node, pod, running, scenario
from tonnage.cli.explain.text import explanation_text
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import VOLCANO_GROUP
from tonnage.explain.record import Suggestion
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.plan.defrag.moves import MOST_MOVES
from tonnage.plugins.defaults import default_plugins
from tonnage.server.redaction import seen_by
from tonnage.server.viewer import Viewer

WHOLE = 8000


def full(name: str, on: str, gpu: int, **more: Any) -> Pod:
    """A pod with a whole card that stays where it is."""
    return running(name, on=on, gpu=gpu, memory=WHOLE, **more)


def movable(name: str = "web", on: str = "a", gpu: int = 0, **more: Any) -> Pod:
    return kept(name, on=on, gpu=gpu, memory=WHOLE, **more)


def at_now(*objects: Node | Pod) -> Cluster:
    cluster = scenario(*objects)
    cluster.now = NOW
    return cluster


def scattered(*pods: Pod) -> Cluster:
    """Two nodes of two cards; one card of `b` is in use by a pod that stays, and a pod waits for two cards."""
    return at_now(node("a", gpus=2), node("b", gpus=2), full("stays", "b", 0), *pods, pod("train", 2, memory=WHOLE))


def moves(cluster: Cluster, name: str = "train", **more: Any) -> list[Suggestion]:
    return [one for one in ask(cluster, name, **more).suggestions if one.kind == "move"]


def test_the_pod_to_move_is_named_with_its_way_its_owner_and_its_price():
    (one,) = moves(scattered(movable(hours=1.5)))
    assert one.sentence == "it fits once 1 pod has moved elsewhere: default/web"
    (moved,) = one.moves
    assert (moved.pod, moved.owner, moved.node, moved.to) == ("default/web", "ReplicaSet/web", "a", "b")
    assert moved.gpu_hours == pytest.approx(1.5 + 2 / 60)
    assert one.places == "a"
    assert one.commands == ["kubectl cordon a", "kubectl -n default delete pod web", "kubectl uncordon a"]
    assert not one.ends


def test_the_move_is_printed_below_the_end_of_pods():
    text = explanation_text(ask(scattered(movable()), "train"))
    assert "default/web: from a to b, of ReplicaSet/web, 1.0 GPU-hours lost" in text
    assert text.index("it fits once 1 pod on") < text.index("it fits once 1 pod has moved elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        {"owner": ""},
        {"owner": "DaemonSet"},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
    ],
)
def test_a_pod_that_a_plan_would_not_move_is_not_named(change):
    assert not moves(scattered(movable(**change)))


def test_a_pod_of_another_scheduler_is_not_named():
    cluster = scattered(movable())
    assert moves(cluster)
    other = replace(movable(), spec=replace(movable().spec, schedulerName="other"))
    cluster = scattered(other)
    cluster.is_ours = lambda one: one.scheduler != "other"
    assert not moves(cluster)


def test_a_pod_that_would_not_run_again_is_not_named():
    assert not moves(at_now(
        node("a", gpus=2), node("b", gpus=2), full("stays", "b", 0), full("too", "b", 1), movable(),
        pod("train", 2, memory=WHOLE),
    ))  # fmt: skip


def test_a_move_is_no_help_if_others_that_wait_would_take_what_comes_free():
    first = pod("first", 2, memory=WHOLE, priority=9)
    assert not moves(scattered(movable(), first))
    assert moves(scattered(movable(), first), "first")


def test_the_cheapest_pod_moves():
    cluster = at_now(
        node("a", gpus=2), node("b", gpus=2), node("c", gpus=2), movable("long", "a", hours=50), full("s", "c", 0),
        movable("short", "b", hours=1), pod("train", 2, memory=WHOLE),
    )  # fmt: skip
    (one,) = moves(cluster)
    assert [(moved.pod, moved.node) for moved in one.moves] == [("default/short", "b")]


def test_among_many_nodes_the_cheapest_pod_is_found():
    nodes = [node(f"n{number:02}", gpus=2) for number in range(70)]
    pods = [movable(f"web-{number}", f"n{number:02}", hours=100 - number) for number in range(70)]
    (one,) = moves(at_now(*nodes, *pods, pod("train", 2, memory=WHOLE)))
    assert [moved.pod for moved in one.moves] == ["default/web-69"]


def test_the_pods_that_stop_with_a_moved_one_are_named_and_what_they_lose_counts():
    notes = {"annotations": {VOLCANO_GROUP: "gang"}}
    cluster = at_now(
        node("a", gpus=2), node("b", gpus=2), node("c", gpus=1), full("stays", "b", 0), movable(**notes),
        movable("mate", "c", **notes), pod("train", 2, memory=WHOLE),
    )  # fmt: skip
    add(cluster, group("gang", 2))
    found = ask(cluster, "train")
    ((moved,),) = (one.moves for one in found.suggestions if one.kind == "move")
    assert (moved.pod, moved.stops) == ("default/web", ["default/mate"])
    assert moved.gpu_hours == pytest.approx(2 * (1 + 2 / 60))
    assert "2.1 GPU-hours lost; 1 other pod of its gang cannot run on without it" in explanation_text(found)


def test_without_the_time_nothing_is_known_of_prices():
    cluster = scattered(movable())
    cluster.now = None
    assert not moves(cluster)


def test_a_pod_that_would_come_back_before_the_waiting_one_is_not_named():
    """Once both cards of its node are free, it would have its turn first and take one of them again."""
    spreading = default_plugins(node_policy="spread")
    assert moves(scattered(movable()), plugins=spreading)
    assert not moves(scattered(movable(priority=9)), plugins=spreading)


def test_a_pod_that_is_made_while_the_old_one_leaves_does_not_take_the_other_card_of_its_node():
    """Without a closed node it would: both nodes have one free card, and the name decides."""
    (one,) = moves(scattered(movable(priority=-1)))
    assert (one.moves[0].to, one.places) == ("b", "a")


def test_no_more_than_a_few_pods_are_moved():
    def packed(cards: int) -> Cluster:
        pods = [movable(f"web-{number}", "a", number) for number in range(cards)]
        return at_now(
            node("a", gpus=cards), *(node(f"b{number}", gpus=1) for number in range(cards)), *pods,
            pod("train", cards, memory=WHOLE),
        )  # fmt: skip

    (one,) = moves(packed(MOST_MOVES))
    assert len(one.moves) == MOST_MOVES
    assert not moves(packed(MOST_MOVES + 1))


def test_a_tenant_sees_a_move_of_pods_that_it_may_see():
    found = ask(scattered(movable()), "train")
    kinds = {
        who: [one.kind for one in seen_by(viewer, found).suggestions]
        for who, viewer in {
            "own": Viewer(frozenset(("default",)), sees_nodes=True),
            "others": Viewer(frozenset(("other",)), sees_nodes=True),
            "no nodes": Viewer(frozenset(("default",)), sees_nodes=False),
        }.items()
    }
    assert {who: "move" in one for who, one in kinds.items()} == {"own": True, "others": False, "no nodes": False}

"""The decision record: the same for every command, complete and readable."""

import json

import msgspec
import pytest

from tests.scenario import container, decide, node, part, place, plain, pod, running, scenario


def record(decision):
    """The record as a program reads it."""
    return json.loads(msgspec.json.encode(decision.record()))


def test_a_placed_pod():
    cluster = scenario(
        node("gpu-1", gpus=1), node("gpu-2", gpus=2), node("cpu-1"), running("x", on="gpu-2", gpu=1, memory=2000)
    )
    wanted = pod("train-0", containers=[container("side", cpu=1), container("main", gpus=1, memory=4096, cores=10)])
    assert record(place(cluster, wanted)) == {
        "pod": "default/train-0",
        "job": "default/train-0",
        "queue": "default",
        "outcome": "placed",
        "node": "gpu-2",
        "devices": [{"container": "main", "vendor": "NVIDIA", "uuid": "gpu-2/0", "memory": 4096, "cores": 10}],
        "scores": {
            "gpu-2": {"total": 1.75, "nodepolicy": 1.75},
            "gpu-1": {"total": 0.0, "nodepolicy": 0.0},
        },
        "rejected": [
            {
                "reason": "NodeUnregistered",
                "plugin": "devices",
                "nodes": 1,
                "example": "cpu-1",
                "message": "cpu-1: no NVIDIA card is registered",
            }
        ],
    }


def test_a_pod_that_cannot_be_placed():
    cluster = scenario(
        node("a", gpus=2),
        node("b", gpus=2),
        node("c", gpus=1, unschedulable=True),
        running("x", on="a", gpu=0, memory=5000),
        running("y", on="a", gpu=1, memory=2000),
        running("z", on="b", gpu=(0, 1), memory=7000),
    )
    decision = decide(cluster, pod("p", 1, memory=7000))
    assert record(decision) == {
        "pod": "default/p",
        "job": "default/p",
        "queue": "default",
        "outcome": "unschedulable",
        "node": None,
        "devices": [],
        "scores": {},
        "rejected": [
            {
                "reason": "NodeUnschedulable",
                "plugin": "nodeselection",
                "nodes": 1,
                "example": "c",
                "message": "c: cordoned (spec.unschedulable)",
            },
            {
                "reason": "CardInsufficientMemory",
                "plugin": "devices",
                "nodes": 2,
                "example": "a",
                "message": (
                    "a: 2/2 CardInsufficientMemory; wants 7000 MiB on a card, at most 6000 of 8000 MiB are free"
                ),
            },
        ],
    }
    assert decision.why_not() == "0 of 3 nodes fit: 2 CardInsufficientMemory, 1 NodeUnschedulable"


def test_scores_of_the_best_ten_nodes_best_first():
    nodes = [node(f"n{i:02}", gpus=1) for i in range(15)]
    busy = [running(f"x{i}", on=f"n{i:02}", memory=100 * i) for i in range(15)]
    scores = decide(scenario(*nodes, *busy), pod("p", 1, memory=10)).scores
    assert list(scores) == [f"n{i:02}" for i in range(14, 4, -1)]
    totals = [parts["total"] for parts in scores.values()]
    assert totals == sorted(totals, reverse=True)


def test_scores_of_equal_nodes_by_name():
    cluster = scenario(*[node(name, gpus=1) for name in ("c", "a", "b")])
    assert list(decide(cluster, pod("p", 1), node_policy="spread").scores) == ["a", "b", "c"]


def test_an_idle_node_scores_zero_and_not_less_than_nothing():
    text = msgspec.json.encode(decide(scenario(node("a", gpus=1)), pod("p", 1), node_policy="spread").record())
    assert b"-0.0" not in text


def test_a_cluster_without_nodes():
    decision = decide(scenario(), pod("p", 1))
    assert record(decision)["rejected"] == []
    assert decision.why_not() == "the cluster has no nodes"


def test_what_is_wrong_with_a_pod_is_said_for_all_nodes():
    decision = decide(scenario(node("b", gpus=1), node("a", gpus=1)), pod("p", 1, memory="16Gi"))
    (rejection,) = record(decision)["rejected"]
    assert (rejection["reason"], rejection["nodes"], rejection["example"]) == ("InvalidRequest", 2, "a")
    assert "nvidia.com/gpumem: 16Gi" in rejection["message"]


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        (
            [container("small", gpus=1, memory=10), container("big", gpus=1, memory=9000)],
            "wants 9000 MiB on a card, at most 8000 of 8000 MiB are free",
        ),
        (
            [container("two", gpus=2, memory=8000), container("one", gpus=1, memory=8000)],
            "wants 8000 MiB on a card, at most 0 of 8000 MiB are free",
        ),
        (
            [container("idle", gpus=1, memory=10), container("busy", gpus=3, memory=10)],
            "wants 3 NVIDIA cards, the node has 2",
        ),
    ],
)
def test_the_message_is_about_the_container_that_does_not_fit(containers, message):
    decision = decide(scenario(node("a", gpus=2)), pod("p", containers=containers))
    assert message in decision.rejected[0].message


def test_the_record_keeps_what_was_true_when_the_decision_was_made():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=5000))
    decision = decide(cluster, pod("p", 1, memory=4000))
    cluster.remove_pod("default/x")
    cluster.upsert_node(node("a", gpus=3, gpu_memory=100))
    cluster.remove_node("a")
    decide(cluster, pod("q", 1))
    assert "wants 4000 MiB on a card, at most 3000 of 8000 MiB are free" in decision.rejected[0].message
    assert decision.rejected[0].example == "a"


def test_cards_whose_memory_is_not_known_are_given_whole_or_in_shares():
    cluster = scenario(plain("a", 2))
    whole = record(place(cluster, pod("w", 1)))["devices"]
    assert whole == [
        {"container": "main", "vendor": "NVIDIA", "uuid": "a/1", "memory": None, "cores": 100, "share": 1.0}
    ]
    shared = record(place(cluster, part("p", 0.25)))["devices"]
    assert [(device["memory"], device["share"]) for device in shared] == [(None, 0.25)]
    asked = decide(cluster, pod("m", annotations={"gpu-memory": "4000"}))
    assert "wants 4000 MiB on a card, and how much memory the cards have is not known" in asked.rejected[0].message
    labelled = record(place(scenario(plain("b", 1, gpu_memory=8000)), part("p", 0.25)))["devices"]
    assert [(device["memory"], "share" in device) for device in labelled] == [(2000, False)]

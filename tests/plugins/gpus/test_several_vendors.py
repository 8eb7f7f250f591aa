"""Several vendors in one cluster, one node and one container: none leaks into another."""

import json

from tests.scenario import (
    ALLOCATED,
    Container,
    ResourceRequirements,
    cards,
    decide,
    node,
    place,
    pod,
    reasons,
    scenario,
)

DCU = "hami.io/node-dcu-register"
TWO_DCUS = "dcu-0,4,16000,100,DCU-Z100,0,true:dcu-1,4,16000,100,DCU-Z100,0,true:"
NPU = "hami.io/node-register-Ascend910B3"
ONE_NPU = json.dumps(
    [{"id": "npu-0", "count": 3, "devmem": 65536, "devcore": 100, "type": "Ascend910B3", "health": True}]
)


def asking(name, *limits):
    """A pod with one container for each set of limits."""
    return pod(
        name, containers=[Container(f"c{i}", ResourceRequirements(limits=asked)) for i, asked in enumerate(limits)]
    )


def test_two_vendors_in_one_container_keep_apart():
    cluster = scenario(node("a", gpus=1, annotations={DCU: TWO_DCUS}))
    wanted = asking("p", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "hygon.com/dcunum": 2})
    decision = place(cluster, wanted)
    assert [(d.vendor, d.uuid, d.memory, d.cores) for d in decision.devices] == [
        ("NVIDIA", "a/0", 1000, 0),
        ("DCU", "dcu-1", 16000, 100),
        ("DCU", "dcu-0", 16000, 100),
    ]
    assert [number for number, _ in decision.grant] == sorted(number for number, _ in decision.grant)


def test_each_vendor_must_fit():
    cluster = scenario(node("a", gpus=2), node("b", annotations={DCU: TWO_DCUS}))
    wanted = asking("p", {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000, "hygon.com/dcunum": 1})
    decision = decide(cluster, wanted)
    assert reasons(decision) == {"NodeUnregistered": 2}
    assert decision.rejected[0].message == "a: no DCU card is registered"


def test_another_vendors_cards_do_not_count():
    cluster = scenario(node("a", gpus=1, annotations={DCU: TWO_DCUS}))
    assert reasons(decide(cluster, asking("p", {"nvidia.com/gpu": 2}))) == {"NodeInsufficientDevice": 1}
    assert reasons(decide(cluster, asking("p", {"huawei.com/Ascend910B3": 1}))) == {"NodeUnregistered": 1}


def test_containers_may_ask_different_vendors():
    cluster = scenario(node("a", gpus=1, annotations={DCU: TWO_DCUS, NPU: ONE_NPU}))
    decision = place(
        cluster,
        asking("p", {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16000}, {"nvidia.com/gpu": 1}),
    )
    assert [(d.container, d.uuid, d.memory) for d in decision.devices] == [("c0", "npu-0", 16384), ("c1", "a/0", 8000)]


def test_a_dcu_is_whole_unless_cores_are_given():
    cluster = scenario(node("a", annotations={DCU: TWO_DCUS}))
    place(cluster, asking("x", {"hygon.com/dcunum": 1, "hygon.com/dcumem": 1000}))
    place(cluster, asking("y", {"hygon.com/dcunum": 1, "hygon.com/dcumem": 1000}))
    third = asking("z", {"hygon.com/dcunum": 1, "hygon.com/dcumem": 1000, "hygon.com/dcucores": 10})
    assert reasons(decide(cluster, third)) == {"CardInsufficientCore": 1}


def test_the_model_lists_of_one_vendor_do_not_concern_another():
    cluster = scenario(node("a", annotations={DCU: TWO_DCUS}))
    wanted = asking("p", {"hygon.com/dcunum": 1})
    wish = {"nvidia.com/use-gputype": "A100", "nvidia.com/use-gpuuuid": "nobody", "nvidia.com/numa-bind": "true"}
    assert decide(cluster, pod("p", containers=wanted.spec.containers, annotations=wish)).node == "a"
    refused = pod("p", containers=wanted.spec.containers, annotations={"hygon.com/nouse-dcutype": "z100"})
    assert reasons(decide(cluster, refused)) == {"CardTypeMismatch": 1}


def test_mlus_follow_from_what_the_node_offers():
    offers = {"cambricon.com/mlu.smlu.vcore": 200, "cambricon.com/mlu.smlu.vmemory": 64}
    cluster = scenario(node("a", capacity=offers))
    wanted = {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 8, "cambricon.com/mlu.smlu.vcore": 20}
    (device,) = place(cluster, asking("p", wanted)).devices
    assert (device.vendor, device.uuid, device.memory, device.cores) == ("MLU", "a-cambricon-mlu-1", 2048, 20)


def test_the_score_of_a_node_is_over_the_cards_of_all_vendors():
    cluster = scenario(
        node("a", gpus=1, annotations={DCU: TWO_DCUS}),
        pod("x", 1, on="a", annotations={ALLOCATED: "a/0,NVIDIA,4000,60:;"}),
    )
    scores = decide(cluster, asking("p", {"hygon.com/dcunum": 1})).scores
    assert round(scores["a"]["total"], 4) == round(10 * (1 / 18 + 60 / 300 + 4000 / 40000), 4)


def test_a_registration_that_cannot_be_read_hides_that_vendor_on_that_node_only():
    cluster = scenario(
        node("a", gpus=1, annotations={DCU: "dcu-0,4,lots,100,DCU-Z100,0,true:"}),
        node("b", annotations={DCU: TWO_DCUS}),
    )
    assert cards(decide(cluster, pod("p", 1))) == ["a/0"]
    decision = decide(cluster, asking("q", {"hygon.com/dcunum": 1}))
    assert decision.node == "b"
    assert reasons(decision) == {"NodeUnregistered": 1}
    (problem,) = cluster.problems()
    assert (problem.object, problem.field) == ("Node/a", f"metadata.annotations[{DCU}]")
    assert "device 1, field 3 (memory)" in problem.position
    assert "whole number" in problem.expected
    cluster.upsert_node(node("a", gpus=1, annotations={DCU: TWO_DCUS}))
    assert not list(cluster.problems()) or all("registered on" in problem.message for problem in cluster.problems())

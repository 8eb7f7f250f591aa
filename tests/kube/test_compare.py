"""The comparison of two clusters finds whatever was tampered with, and nothing where there is nothing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.scenario import node, part, plain, pod, running, scenario, usage
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import COUNTED, CardModel
from tonnage.cluster.task import make_task
from tonnage.kube.compare import compare
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.model.selection import Taint

OBJECTS = (
    node("a", gpus=2, taints=[Taint("k", "v", "NoSchedule")], rdma=4),
    node("b", gpus=3),
    node("c"),
    running("x", on="a", gpu=0, memory=500),
    pod("unknown", 2, on="b"),
    pod("aside", 1, on="nowhere"),
    pod("w", 1),
)


def informer() -> Cluster:
    cluster = scenario(*OBJECTS)
    cluster.settle()
    return cluster


def other_order() -> Cluster:
    """The same world, seen in another order, with things that were there and went."""
    cluster = scenario(node("wide", gpus=9, gone=5), node("d", taints=[Taint("other", "", "NoExecute")]))
    cluster.upsert_pod(pod("past", 1, on="wide"))
    for thing in reversed(OBJECTS):
        (cluster.upsert_node if thing.__class__.__name__ == "Node" else cluster.upsert_pod)(thing)  # type: ignore[arg-type]
    cluster.remove_node("wide")
    cluster.remove_node("d")
    cluster.remove_pod("default/past")
    return cluster


def test_the_same_world_is_the_same_however_it_was_learned() -> None:
    assert compare(other_order(), informer()) == []
    assert compare(informer(), other_order()) == []


def add_to(name: str, *position: int) -> Callable[[Cluster], None]:
    def tamper(cluster: Cluster) -> None:
        getattr(cluster.columns, name)[position] += 1

    return tamper


def change_model(cluster: Cluster) -> None:
    cluster.columns.model[0, 0] = cluster.columns.model_id(CardModel(0, "other", ""))


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (lambda cluster: cluster.remove_pod("default/x"), "Pod/default/x: state is absent, a fresh list says on a"),
        (lambda cluster: cluster.remove_pod("default/w"), "Pod/default/w: state is absent, a fresh list says waiting"),
        (lambda cluster: cluster.remove_pod("default/aside"), "Pod/default/aside: state is absent"),
        (lambda cluster: cluster.upsert_pod(pod("more")), "Pod/default/more: state is waiting"),
        (lambda cluster: cluster.upsert_pod(pod("w", 2)), "Pod/default/w: pod is"),
        (lambda cluster: cluster.upsert_pod(running("x", on="a", gpu=1)), "Pod/default/x: what it holds is"),
        (lambda cluster: cluster.remove_node("c"), "Node/c: node is absent, a fresh list says present"),
        (lambda cluster: cluster.upsert_node(node("c", cpu=1)), "Node/c: node is"),
        (add_to("free", 0, 1), "Node/b: free[cpu] is"),
        (add_to("amounts", COUNTED, 1, 2), "Node/c: counted[memory] is"),
        (add_to("allocatable", 1, 2), "Node/c: allocatable[memory] is"),
        (add_to("card_free", 0, 1, 0), "Node/a: card_free is"),
        (add_to("card_total", 2, 0, 1), "Node/b: card_total is"),
        (add_to("foreign", 0, 1), "Node/b: foreign is"),
        (add_to("node_used", 1, 0), "Node/a: node_used is"),
        (change_model, "Node/a: card models"),
        (add_to("taints", 1), "Node/b: card models, taints"),
    ],
)
def test_every_difference_is_found(tamper: Callable[[Cluster], None], found: str) -> None:
    cluster = other_order()
    cluster.settle()
    tamper(cluster)
    differences = [str(difference) for difference in compare(cluster, informer())]
    assert any(text.startswith(found) for text in differences), differences


def test_who_sits_on_which_plain_card_is_no_difference() -> None:
    last = [pod("y", 1, on="p"), part("z", 0.5, on="p", group="g")]
    live, fresh = scenario(plain("p", 3), pod("x", 1, on="p"), *last), scenario(plain("p", 3), *last)
    live.remove_pod("default/x")
    assert live.columns.card_free.tolist() != fresh.columns.card_free.tolist()
    assert compare(live, fresh) == []
    live.upsert_pod(pod("y", 2, on="p"))
    assert compare(live, fresh) != []


def test_what_is_only_reserved_is_no_difference() -> None:
    cluster = informer()
    cluster.reserve(make_task(pod("w", 1), cluster.vendors), "b", ())
    assert compare(cluster, informer()) == []


def test_quotas_and_what_is_held_of_them_are_compared() -> None:
    one, other = informer(), informer()
    one.quotas.upsert(ResourceQuota(ObjectMeta("q", "default"), QuotaSpec({"limits.nvidia.com/gpumem": 5})))
    assert [(d.object, d.field) for d in compare(one, other)] == [("Namespace/default", "quota on nvidia.com/gpumem")]
    other.quotas.upsert(ResourceQuota(ObjectMeta("q", "default"), QuotaSpec({"limits.nvidia.com/gpumem": 5})))
    assert compare(one, other) == []
    one.quotas.hold("default/x", ())
    assert [(d.live, d.fresh) for d in compare(one, other)] == [
        ("Quota(limit=5, used=0)", "Quota(limit=5, used=500)"),
    ]


def test_what_a_pod_said_about_its_devices_first_is_no_difference() -> None:
    first, later = (running("x", on="a", gpu=number, memory=1000) for number in (0, 1))
    known = [replace(one, metadata=replace(one.metadata, uid="1")) for one in (first, later)]
    live = scenario(node("a", gpus=2), *known)
    assert usage(live, "a") == [(1, 1000, 0), (0, 0, 0)]
    assert compare(live, scenario(node("a", gpus=2), known[1])) == []

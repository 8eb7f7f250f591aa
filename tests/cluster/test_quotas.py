"""Quota usage: what the pods of a namespace hold of cards, as events come in."""

from tests.plugins.gpus.quotas import MEMORY, limited, quota, used
from tests.scenario import node, place, plain, pod, running
from tonnage.cluster.quotas import Quotas
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.nvidia import Nvidia


def test_a_pod_counts_from_its_reservation_until_it_is_gone():
    cluster = limited({MEMORY: 9000}, node("a", gpus=1))
    place(cluster, pod("p", 1, memory=1000))
    assert used(cluster) == 1000
    cluster.confirm("default/p")
    assert used(cluster) == 1000
    cluster.upsert_pod(running("p", on="a", memory=1000, terminating=True))
    assert used(cluster) == 1000
    cluster.upsert_pod(running("p", on="a", memory=1000, phase="Succeeded"))
    assert used(cluster) == 0


def test_a_reservation_that_is_released_or_made_anew_counts_once():
    cluster = limited({MEMORY: 9000}, node("a", gpus=1))
    for memory in (1000, 3000, 2000):
        place(cluster, pod("p", 1, memory=memory))
        assert used(cluster) == memory
    cluster.release("default/p")
    assert used(cluster) == 0


def test_pods_count_whether_or_not_their_node_and_cards_are_known():
    cluster = limited({MEMORY: 9000}, running("x", on="a", gpu=7, memory=1000))
    assert used(cluster) == 1000
    cluster.upsert_pod(running("x", on="a", gpu=7, memory=1500))
    assert used(cluster) == 1500
    for change in (lambda: cluster.upsert_node(node("a", gpus=1)), lambda: cluster.remove_node("a")):
        change()
        assert used(cluster) == 1500
    cluster.remove_pod("default/x")
    assert used(cluster) == 0


def test_a_pod_that_does_not_say_which_cards_it_holds_counts_for_nothing():
    assert used(limited({MEMORY: 9000}, node("a", gpus=1), pod("x", 1, on="a"))) == 0


def test_a_whole_plain_card_counts_while_it_is_known_which():
    cluster = limited({MEMORY: 90000}, plain("a", 1, gpu_memory=8000), pod("x", 1, on="a"), pod("y", 1, on="a"))
    assert used(cluster) == 8000
    cluster.upsert_node(plain("a", 2, gpu_memory=6000))
    assert used(cluster) == 12000
    cluster.remove_pod("default/x")
    assert used(cluster) == 6000
    cluster.remove_node("a")
    assert used(cluster) == 0
    cluster.upsert_node(plain("a", 2, gpu_memory=6000))
    assert used(cluster) == 6000


def test_the_memory_of_a_card_of_unknown_size_counts_from_when_the_size_is_known():
    cluster = limited({MEMORY: 9000}, plain("a", 1), pod("x", 1, on="a"))
    assert used(cluster) == 0
    cluster.upsert_node(plain("a", 1, gpu_memory=6000))
    assert used(cluster) == 6000
    cluster.upsert_node(plain("a", 1))
    assert used(cluster) == 0


def test_a_quota_that_comes_later_finds_everything_counted():
    cluster = limited({}, node("a", gpus=1), running("x", on="a", memory=1000))
    assert cluster.quotas.quota("default", "nvidia.com/gpumem") is None
    cluster.quotas.upsert(quota({MEMORY: 5}))
    assert used(cluster) == 1000


def test_vendors_that_share_a_resource_share_its_quota():
    both = Quotas([Nvidia(), Nvidia(), Cambricon()])
    assert both.numbers[0] == both.numbers[1] != both.numbers[2]


def test_all_quotas_are_listed_in_order_with_their_use():
    cluster = limited({MEMORY: 9000, "limits.nvidia.com/gpucores": 100, "pods": 3}, running("x", on="a", memory=7))
    shown = [(namespace, resource, *quota) for namespace, resource, quota in cluster.quotas.all()]
    assert shown == [("default", "nvidia.com/gpumem", 9000, 7), ("default", "nvidia.com/gpucores", 100, 0)]
    assert cluster.quotas.keys() == ["default/gpus"]

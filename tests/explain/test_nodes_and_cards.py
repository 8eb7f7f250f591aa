"""A node and a card are told with what is free there, who holds the rest, and why nothing new comes."""

from tests.explain.asking import ask
from tests.scenario import gpu, node, pod, running, scenario
from tonnage.model.selection import Taint


def test_a_node_lists_its_cards_and_why_waiting_pods_do_not_fit():
    cluster = scenario(
        node("a", gpus=2, taints=[Taint("gpu", "NoSchedule", "yes")]),
        running("x", on="a", gpu=0, memory=3000, cores=20),
        pod("p", 1, memory=9000),
    )
    found = ask(cluster, "a", "node")
    assert found.sentence == "1 pod on it; 1 of 2 cards are idle"
    first = found.cards[0]
    assert (first.free_memory, first.memory, first.free_cores) == (5000, 8000, 80)
    assert [one.pod for one in first.holders] == ["default/x"]
    assert found.notes == ["taint gpu=yes: NoSchedule", "of the waiting pods, 1 would not fit: UntoleratedTaint"]


def test_a_card_whose_slots_are_taken_says_that_its_memory_is_of_no_use():
    cluster = scenario(node("a", gpus=[gpu("a/0", count=1)]), running("x", on="a", memory=1000))
    found = ask(cluster, "a/0", "gpu")
    assert found.sentence == "NVIDIA A100-SXM4-40GB on a; 1 pod on it; 7,000 of 8,000 MiB and 100 % free"
    assert found.notes == ["all slots are taken, so its free memory is of no use"]


def test_an_unhealthy_card_is_told_as_such_and_a_card_may_be_named_by_its_node_and_index():
    cluster = scenario(node("a", gpus=[gpu("GPU-1"), gpu("GPU-2", index=1, healthy=False)]))
    found = ask(cluster, "a/1", "gpu")
    assert found.name == "GPU-2"
    assert "unhealthy" in found.sentence

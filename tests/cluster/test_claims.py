"""What tenants write about the devices of their pods, and what of it counts."""

import pytest
from msgspec.structs import replace

from tests.scenario import ALLOCATED, container, decide, node, part, place, plain, pod, running, scenario, usage
from tonnage.devices.codec import MOST_ENTRIES

FULL = "a/0,NVIDIA,8000,100:;"


def known(made, uid="1"):
    """The pod with a UID, as every pod of a cluster has one."""
    return replace(made, metadata=replace(made.metadata, uid=uid))


def claiming(text, gpus=None, *, on="a", name="x", **wants):
    return known(pod(name, gpus, on=on, annotations={ALLOCATED: text}, **wants), name)


def live(*objects):
    """A cluster that was listed when these came."""
    cluster = scenario()
    cluster.claims.is_settled = True
    for thing in objects:
        cluster.upsert_pod(thing) if hasattr(thing.spec, "containers") else cluster.upsert_node(thing)
    return cluster


def told(cluster):
    return [problem.message for problem in cluster.problems()]


# -- more than was requested


def test_a_pod_that_asks_for_no_gpu_holds_none_whatever_it_says():
    cluster = scenario(node("a", gpus=1), claiming(FULL, cpu="1"))
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert told(cluster) == ["the pod requests no nvidia.com/gpu, so the cards that it names do not count"]
    assert list(cluster.claims.ignored) == ["default/x"]
    assert place(cluster, pod("p", 1)).node == "a"


def test_a_request_for_none_or_for_another_vendors_cards_is_no_request_either():
    others = claiming(FULL, **{"cambricon.com/vmlu": 8})
    cluster = scenario(node("a", gpus=1), claiming(FULL, 0, name="none"), others)
    assert usage(cluster, "a") == [(0, 0, 0)]


def test_of_too_many_cards_as_many_count_as_were_requested():
    text = "".join(f"a/{number},NVIDIA,8000,0:" for number in range(4)) + ";"
    cluster = scenario(node("a", gpus=4), claiming(text, 1))
    assert usage(cluster, "a") == [(1, 8000, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)]
    assert told(cluster) == ["4 devices are named, but the pod requests 1; no more than that count"]


def test_cards_of_its_node_count_before_others():
    text = "b/0,NVIDIA,8000,0:a/1,NVIDIA,8000,0:;"
    for objects in ((node("a", gpus=2), claiming(text, 1)), (claiming(text, 1), node("a", gpus=2))):
        cluster = scenario(*objects)
        assert usage(cluster, "a") == [(0, 0, 0), (1, 8000, 0)]
        assert cluster.columns.foreign_total == 0


def test_a_card_of_another_node_counts_there_nothing_and_here_as_unknown():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), claiming("b/0,NVIDIA,8000,100:;", 1))
    assert usage(cluster, "a") == usage(cluster, "b") == [(0, 0, 0)]
    assert cluster.columns.foreign_total == 1


def test_cards_come_back_with_a_registration_that_was_unreadable_for_a_while():
    cluster = live(node("a", gpus=2), known(running("x", on="a", gpu=[0, 1], memory=3000)))
    cluster.upsert_node(node("a", annotations={"hami.io/node-nvidia-register": "[garbage"}))
    assert cluster.columns.foreign_total == 2
    cluster.upsert_pod(known(running("x", on="a", gpu=[0, 1], memory=3000, phase="Pending")))
    cluster.upsert_node(node("a", gpus=2))
    assert usage(cluster, "a") == [(1, 3000, 0), (1, 3000, 0)]
    assert cluster.columns.foreign_total == 0


def test_a_record_of_twenty_thousand_cards_is_not_even_read():
    text = "".join(f"invented-{number},NVIDIA,1,1:" for number in range(20_000)) + ";"
    cluster = scenario(node("a", gpus=1), claiming(text, 30_000))
    assert any(f"at most {MOST_ENTRIES}" in str(problem) for problem in cluster.problems())
    assert not cluster.held("default/x").vendors[0].cards


@pytest.mark.parametrize(
    ("wants", "counts"),
    [
        ({"memory": 1000, "cores": 10}, (1, 1000, 10)),
        ({"percentage": 10, "cores": 0}, (1, 800, 0)),
        # What the pod leaves to defaults may have been all of the card.
        ({"memory": 1000}, (1, 1000, 100)),
        ({"cores": 10}, (1, 8000, 10)),
        ({}, (1, 8000, 100)),
    ],
)
def test_of_a_card_no_more_counts_than_the_request_can_give(wants, counts):
    """The pod is placed while this process runs, so the device configuration is the one that it knows."""
    cluster = live(node("a", gpus=1), claiming("a/0,NVIDIA,2000000,100:;", 1, **wants))
    assert usage(cluster, "a") == [counts]
    assert list(cluster.claims.ignored) == ["default/x"]


def test_a_pod_from_before_the_start_counts_with_what_is_written_because_the_configuration_may_have_changed():
    cluster = scenario(node("a", gpus=1), claiming(FULL, 1, memory=1000))
    assert usage(cluster, "a") == [(1, 8000, 100)]


def test_a_part_requested_by_annotations_counts_with_that_part():
    claim = part("x", "0.25", on="a", annotations={ALLOCATED: FULL})
    assert usage(live(node("a", gpus=1), claim), "a") == [(1, 2000, 100)]


def test_a_pod_that_only_bears_the_label_of_a_group_has_no_part_of_its_card():
    cluster = scenario(plain("a", 1), pod("x", on="a", labels={"runai-gpu-group": "g"}))
    assert decide(cluster, pod("p", 1)).node == "a"


# -- less than is held


def test_cards_that_the_record_leaves_out_count_as_unknown():
    cluster = scenario(node("a", gpus=2), claiming("a/0,NVIDIA,8000,100:;", 2))
    assert usage(cluster, "a")[0] == (1, 8000, 100)
    assert cluster.columns.foreign_total == 1


@pytest.mark.parametrize(
    "later",
    [
        {},
        {ALLOCATED: ";"},
        {ALLOCATED: "a/0,NVIDIA,1,0:;"},
        {ALLOCATED: "a/1,NVIDIA,8000,100:;"},
        {ALLOCATED: "nonsense"},
    ],
)
def test_what_is_written_on_a_running_pod_frees_none_of_its_cards_and_takes_no_others(later):
    cluster = live(node("a", gpus=2), claiming(FULL, 1))
    cluster.upsert_pod(known(pod("x", 1, on="a", annotations=later), "x"))
    assert usage(cluster, "a") == [(1, 8000, 100), (0, 0, 0)]
    assert "what it said first counts as long as the pod runs" in "; ".join(told(cluster))
    # Another pod of the same name is another pod.
    cluster.upsert_pod(claiming("a/1,NVIDIA,8000,100:;", 1))
    assert usage(cluster, "a") == [(1, 8000, 100), (0, 0, 0)]
    cluster.remove_pod("default/x")
    cluster.upsert_pod(known(pod("x", 1, on="a", annotations={ALLOCATED: "a/1,NVIDIA,8000,100:;"}), "2"))
    assert usage(cluster, "a") == [(0, 0, 0), (1, 8000, 100)]


def test_a_record_that_was_missing_may_come_later_but_only_once():
    cluster = live(node("a", gpus=2), known(pod("x", 1, on="a"), "x"))
    assert cluster.columns.foreign_total == 1
    cluster.upsert_pod(claiming(FULL, 1))
    assert usage(cluster, "a") == [(1, 8000, 100), (0, 0, 0)]
    cluster.upsert_pod(claiming("a/1,NVIDIA,8000,100:;", 1))
    assert usage(cluster, "a") == [(1, 8000, 100), (0, 0, 0)]


def test_a_running_pod_cannot_come_to_request_a_part_of_a_card():
    cluster = live(node("a", gpus=1), known(pod("x", on="a"), "x"))
    later = pod("x", on="a", annotations={"gpu-fraction": "0.9", ALLOCATED: "a/0,NVIDIA,7200,0:;"})
    cluster.upsert_pod(known(later, "x"))
    assert usage(cluster, "a") == [(0, 0, 0)]


def test_unreadable_requests_hide_no_cards():
    """An annotation that makes the pod's requests invalid must not make its cards free."""
    unreadable = known(pod("x", 1, on="a", annotations={ALLOCATED: FULL, "gpu-memory": "?"}), "x")
    for objects in ((unreadable,), (claiming(FULL, 1), unreadable)):
        assert usage(live(node("a", gpus=1), *objects), "a") == [(1, 8000, 100)]


def test_nonsense_about_instances_hides_no_cards():
    """A tenant writes it before the pod is bound to a card that is not cut into instances."""
    notes = {ALLOCATED: "a/0,NVIDIA,5000,0:;", "hami.io/vgpu-mig-allocations": "nonsense"}
    cluster = live(node("a", gpus=1), known(pod("x", 1, on="a", memory=5000, annotations=notes)))
    assert usage(cluster, "a") == [(1, 5000, 0)]
    assert [problem.field for problem in cluster.problems()] == ["metadata.annotations[hami.io/vgpu-mig-allocations]"]


def test_phases_count_at_their_peak_within_what_was_requested():
    init = [container("load", gpus=1, memory=6000)]
    made = pod("x", containers=[container("main", gpus=1, memory=2000)], init=init, on="a")
    record = {ALLOCATED: "a/0,NVIDIA,8000,0:;a/0,NVIDIA,8000,0:;"}
    cluster = live(node("a", gpus=1), known(replace(made, metadata=replace(made.metadata, annotations=record))))
    assert usage(cluster, "a") == [(1, 6000, 0)]

"""KAI's annotations: parts of cards by fraction or memory, on plain nodes and on HAMi's; groups that share a card."""

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.scenario import (
    ALLOCATED,
    cards,
    container,
    decide,
    node,
    part,
    place,
    plain,
    pod,
    problems,
    reasons,
    running,
    scenario,
    usage,
)
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors


def fault(asked) -> str:
    return make_task(asked, default_vendors()).fault


def given(decision) -> list[tuple[str, str, int, int]]:
    return [(d.container, d.uuid, d.memory, d.cores) for d in decision.devices]


def reservation(group: str, on: str, card: str | None = None):
    """The pod by which KAI's binder keeps a card for a group."""
    notes = {"run.ai/reserve_for_gpu_index": card} if card else None
    labels = {"runai-gpu-group": group}
    name = f"gpu-reservation-{group}"
    return pod(name, 1, on=on, labels=labels, namespace="kai-resource-reservation", annotations=notes)


# -- requests


@pytest.mark.parametrize(
    ("fraction", "memory", "taken"), [("0.5", 8000, 4000), ("0.29", 100, 29), ("0.333", 1000, 333), ("1e-1", 77, 7)]
)
def test_a_fraction_is_that_part_of_the_cards_memory_cut_off(fraction, memory, taken):
    assert given(place(scenario(plain("a", 1, gpu_memory=memory)), part("p", fraction))) == [("main", "a/0", taken, 0)]


def test_on_a_hami_node_a_fraction_is_the_same():
    cluster = scenario(node("a", gpus=1, gpu_memory=8000))
    assert given(place(cluster, part("p", 0.25))) == [("main", "a/0", 2000, 0)]
    assert usage(cluster, "a") == [(1, 2000, 0)]


def test_memory_is_in_mib():
    assert given(place(scenario(plain("a", 1, gpu_memory=8000)), part("p", memory=1234))) == [("main", "a/0", 1234, 0)]


def test_several_devices_are_different_cards():
    asked = part("p", 0.6, annotations={"gpu-fraction-num-devices": "2"})
    assert sorted(cards(place(scenario(plain("a", 2)), asked))) == ["a/0", "a/1"]
    assert reasons(place(scenario(plain("a", 1)), asked)) == {"NodeInsufficientDevice": 1}


def test_the_first_ordinary_container_gets_the_part_unless_another_is_named():
    both = [container("one"), container("two")]
    inits = [container("before")]
    cluster = scenario(plain("a", 1))
    assert given(decide(cluster, part("p", 0.5, containers=both, init=inits)))[0][0] == "one"
    for name in ("two", "before"):
        named = part("p", 0.5, containers=both, init=inits, annotations={"gpu-fraction-container-name": name})
        assert given(decide(cluster, named))[0][0] == name


def test_a_fraction_of_many_digits_is_never_a_whole_card():
    (demand,) = make_task(part("p", "0." + "9" * 60), default_vendors()).demands
    assert demand.requests[0].memory_on(100) == 99


@hypothesis.given(
    st.dictionaries(
        st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name"]),
        st.one_of(st.text(), st.from_regex(r"[-+]?[0-9]*[.]?[0-9]+(e[-+]?[0-9]{1,9})?", fullmatch=True)),
    )
)
def test_whatever_annotations_say_there_is_a_request_a_fault_or_neither(notes):
    task = make_task(part("p", annotations=notes), default_vendors())
    assert not (task.fault and task.demands)
    for demand in task.demands:
        assert 0 <= demand.requests[0].memory_on(1000) <= 1000 or "gpu-memory" in notes


def test_equal_fractions_are_equal_however_they_are_written():
    first, second = (make_task(part("p", text), default_vendors()) for text in ("0.5", "0.50"))
    assert first.demands == second.demands


@pytest.mark.parametrize(
    "text", ["0", "1.5", "half", "-0.5", "1", "NaN", "Infinity", "", "0.5Gi", "1e-30", "1e400", "0_1e-1", "٠.٥"]
)
def test_a_fraction_that_is_none_is_refused_with_what_to_write(text):
    message = fault(part("p", text))
    assert message.startswith("annotation gpu-fraction: ")
    assert reasons(decide(scenario(plain("a", 1)), part("p", text))) == {"InvalidRequest": 1}


@pytest.mark.parametrize("text", ["0", "-1", "1Gi", "many", "", "99999999999", "1.5"])
def test_memory_that_is_no_number_of_mib_is_refused(text):
    expected = "is not a whole number of MiB from 1 to 2147483647"
    assert fault(part("p", memory=text)) == f"annotation gpu-memory: {text!r} {expected}"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (part("p", 0.5, memory=100), "annotations gpu-fraction and gpu-memory both say how much of a card"),
        (part("p", 0.5, gpus=1), "container 'main' asks for NVIDIA cards by its resources"),
        (part("p", 0.5, containers=[container("a"), container("b", memory=10)]), "container 'b' asks for NVIDIA cards"),
        (part("p", annotations={"gpu-fraction-num-devices": "2"}), "neither gpu-fraction nor gpu-memory how much"),
        (part("p", 0.5, annotations={"gpu-fraction-num-devices": "0"}), "annotation gpu-fraction-num-devices: '0'"),
        (part("p", 0.5, annotations={"gpu-fraction-container-name": "x"}), "the pod has no container 'x'"),
    ],
)
def test_annotations_that_do_not_go_together_are_refused(asked, said):
    assert said in fault(asked)


def test_a_container_name_alone_asks_for_nothing():
    task = make_task(part("p", annotations={"gpu-fraction-container-name": "main"}), default_vendors())
    assert (task.fault, task.demands) == ("", ())


def test_beside_another_vendors_cards_a_part_is_fine():
    asked = part("p", 0.5, containers=[container("main", **{"hygon.com/dcunum": 1})])
    (demand,) = make_task(asked, default_vendors()).demands
    assert [request.vendor for request in demand.requests] == ["DCU", "NVIDIA"]


# -- sharing


def test_parts_share_a_plain_card_and_keep_whole_ones_off_it():
    cluster = scenario(plain("a", 1))
    for name in ("p", "q"):
        assert cards(place(cluster, part(name, 0.5))) == ["a/0"]
    assert reasons(decide(cluster, part("r", 0.5))) == {"CardInsufficientMemory": 1}
    assert reasons(decide(cluster, pod("w", 1))) == {"CardInsufficientMemory": 1}
    assert "wants 0.5 of a card, at most 0 of one is free" in decide(cluster, part("r", 0.5)).rejected[0].message
    assert "wants a whole card, at most 0 of one is free" in decide(cluster, pod("w", 1)).rejected[0].message


def test_a_whole_card_is_not_shared_with_the_smallest_part():
    cluster = scenario(plain("a", 1))
    place(cluster, pod("w", 1))
    assert reasons(decide(cluster, part("p", 0.001))) == {"CardComputeUnitsExhausted": 1}


def test_pods_of_one_group_share_one_card():
    pods = [part(name, 0.25, on="a", group="g1") for name in "xyz"] + [part("v", 0.5, on="a", group="g2")]
    cluster = scenario(plain("a", 3), *pods)
    assert usage(cluster, "a") == [(3, 75, 0), (1, 50, 0), (0, 0, 0)]
    assert problems(cluster) == []


def test_a_group_keeps_its_card_until_its_last_pod_goes():
    cluster = scenario(plain("a", 3), part("x", 0.5, on="a", group="g1"), part("y", 0.5, on="a", group="g2"))
    cluster.remove_pod("default/x")
    cluster.upsert_pod(part("z", 0.25, on="a", group="g2"))
    assert usage(cluster, "a") == [(0, 0, 0), (2, 75, 0), (0, 0, 0)]
    cluster.remove_pod("default/y")
    cluster.remove_pod("default/z")
    assert usage(cluster, "a") == [(0, 0, 0)] * 3
    assert not cluster.nodes["a"].assigned


def test_a_pod_of_several_groups_has_a_part_of_each_card():
    x = part("x", 0.5, on="a", group=["g1", "g2"], annotations={"gpu-fraction-num-devices": "2"})
    cluster = scenario(plain("a", 3), x, part("y", 0.25, on="a", group="g2"))
    assert usage(cluster, "a") == [(1, 50, 0), (2, 75, 0), (0, 0, 0)]


def test_a_part_without_a_group_has_a_card_to_itself_until_others_join():
    cluster = scenario(plain("a", 2), part("x", 0.5, on="a"), part("y", 0.5, on="a"))
    assert usage(cluster, "a") == [(1, 50, 0), (1, 50, 0)]


@pytest.mark.parametrize("first", [True, False])
def test_a_reservation_marks_the_groups_card_and_does_not_count_twice(first):
    pods = [reservation("g1", "a"), part("x", 0.5, on="a", group="g1")]
    cluster = scenario(plain("a", 2), *(pods if first else pods[::-1]))
    assert usage(cluster, "a") == [(1, 50, 0), (0, 0, 0)]
    assert cards(decide(cluster, pod("w", 1))) == ["a/1"]
    place(cluster, pod("w", 1))
    # The kubelet counts the reservation, so that there is no third GPU whatever the cards say.
    assert reasons(decide(cluster, pod("v", 1))) == {"InsufficientExtendedResource": 1}
    assert problems(cluster) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_where_the_reservation_names_a_card_the_group_is_there(order):
    things = [reservation("g1", "a", "a/1"), part("x", 0.5, on="a", group="g1"), part("y", 0.25, on="a", group="g1")]
    for kind in (plain("a", 3), node("a", gpus=3, gpu_memory=100)):
        cluster = scenario(kind, *(things[number] for number in order))
        assert usage(cluster, "a") == [(0, 0, 0), (2, 75, 0), (0, 0, 0)]
        assert problems(cluster) == []


def test_on_a_hami_node_a_group_keeps_its_named_card_when_the_node_changes():
    cluster = scenario(node("a", gpus=2), part("x", 0.5, on="a", group="g1"), reservation("g1", "a", "a/1"))
    cluster.upsert_node(node("a", gpus=2, cpu="8"))
    assert usage(cluster, "a") == [(0, 0, 0), (1, 4000, 0)]


def test_on_a_hami_node_a_group_whose_card_nobody_names_is_unknown():
    cluster = scenario(node("a", gpus=2), part("x", 0.5, on="a", group="g1"), reservation("g1", "a", "GPU-elsewhere"))
    assert usage(cluster, "a") == [(0, 0, 0), (0, 0, 0)]
    assert problems(cluster) == [("Pod/default/x", f"metadata.annotations[{ALLOCATED}]")]
    assert reasons(decide(cluster, pod("w", 1))) == {"ExclusiveDeviceAllocateConflict": 1}


def test_a_record_of_cards_beside_the_label_says_where_the_group_is():
    x = part("x", 0.5, on="a", group="g1", annotations={ALLOCATED: "a/1,NVIDIA,50,0:;"})
    for things in ([x, part("y", 0.25, on="a", group="g1")], [part("y", 0.25, on="a", group="g1"), x]):
        assert usage(scenario(plain("a", 3), *things), "a") == [(0, 0, 0), (2, 75, 0), (0, 0, 0)]


def test_a_placed_part_that_joins_a_group_keeps_its_card_and_theirs():
    cluster = scenario(plain("a", 3), running("w", on="a", gpu=0, memory=100), part("x", 0.5, on="a", group="g1"))
    assert usage(cluster, "a")[1] == (1, 50, 0)
    assert cards(place(cluster, part("p", 0.25), gpu_policy="binpack")) == ["a/1"]
    cluster.upsert_pod(part("p", 0.25, on="a", group="g1"))
    cluster.upsert_pod(pod("v", 1, on="a"))
    assert usage(cluster, "a") == [(1, 100, 0), (2, 75, 0), (1, 100, 100)]


def test_a_running_pod_whose_annotation_makes_no_sense_keeps_its_groups_card_from_being_whole():
    cluster = scenario(plain("a", 1), part("x", "half", on="a", group="g1"))
    assert usage(cluster, "a") == [(1, 0, 0)]
    assert problems(cluster) == [("Pod/default/x", "spec.containers")]
    assert reasons(decide(cluster, pod("w", 1))) == {"ExclusiveDeviceAllocateConflict": 1}


def test_more_groups_than_cards_are_unknown():
    cluster = scenario(plain("a", 1), part("x", 0.5, on="a", group="g1"), part("y", 0.5, on="a", group="g2"))
    assert problems(cluster) == [("Pod/default/y", f"metadata.annotations[{ALLOCATED}]")]
    cluster.remove_pod("default/x")
    assert usage(cluster, "a") == [(1, 50, 0)]
    assert problems(cluster) == []


def test_a_group_that_loses_its_card_to_a_pod_that_names_it_moves_with_all_its_pods():
    group = [part(name, 0.25, on="a", group="g1") for name in "xy"]
    cluster = scenario(plain("a", 2), *group, running("w", on="a", gpu=0, memory=100, cores=100))
    assert usage(cluster, "a") == [(1, 100, 100), (2, 50, 0)]


def takes(kind: str, amount: int, size: int) -> int:
    """MiB that a whole card, tenths of one or a number of MiB are."""
    return {"whole": size, "tenths": size * amount // 10, "mib": amount}[kind]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_asked_for_cards_are_whole_or_shared_within_their_memory(seed):
    draw = random.Random(seed)
    sizes = {f"n{i}": draw.choice([100, 1000]) for i in range(draw.randint(1, 3))}
    counts = {name: draw.randint(1, 3) for name in sizes}
    cluster = scenario(*[plain(name, counts[name], gpu_memory=sizes[name]) for name in sizes])
    free = {f"{name}/{i}": sizes[name] for name in sizes for i in range(counts[name])}
    unused = set(free)
    for number in range(20):
        kind, devices = draw.choice(["whole", "tenths", "mib"]), draw.choice([1, 1, 1, 2])
        amount = draw.choice([1, 3, 5, 9] if kind == "tenths" else [20, 60, 500])
        asked = {"tenths": {"fraction": amount / 10}, "mib": {"memory": amount}}.get(kind)
        wanted = pod(f"p{number}", devices, memory=draw.choice([None, 50]))
        if asked is not None:
            wanted = part(f"p{number}", **asked, annotations={"gpu-fraction-num-devices": str(devices)})
        needs = {card: takes(kind, amount, sizes[card.partition("/")[0]]) for card in free}
        fitting = {card for card in free if free[card] >= needs[card] and (kind != "whole" or card in unused)}
        possible = [name for name in sizes if sum(card.startswith(f"{name}/") for card in fitting) >= devices]
        decision = place(cluster, wanted, gpu_policy=draw.choice(["spread", "binpack"]))
        found = cards(decision)
        assert (decision.node is None) == (not possible)
        assert len(set(found)) == len(found) == (devices if possible else 0)
        assert set(found) <= fitting
        cores = 100 if kind == "whole" else 0
        assert all((device.memory, device.cores) == (needs[device.uuid], cores) for device in decision.devices)
        for card in found:
            free[card] -= needs[card]
        unused -= set(found)

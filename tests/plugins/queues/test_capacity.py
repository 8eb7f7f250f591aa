"""Volcano's capacity: what queues say they deserve, keep, and must not exceed; side by side or as a tree."""

from typing import Any

import pytest

from tests.config.texts import load, warnings, with_plugin
from tests.groups import add, cycle, group, member, queue
from tests.plugins.eviction import Asking
from tests.plugins.queues.teams import shares, small
from tests.scenario import node, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.plugins.queues.capacity import HIERARCHY, Capacity

GPU = "nvidia.com/gpu"


def asks(name: str, of: str, cpu: int = 0, memory: int = 0, gpu: int = 0, **more: Any) -> Pod:
    """A pod of a group that asks for CPUs, Gi and cards."""
    limits: dict[str, str | int | float] = {"cpu": cpu, "memory": f"{memory}Gi", GPU: gpu}
    given = {key: value for key, value in limits.items() if value not in (0, "0Gi")}
    return member(name, of, containers=[Container("main", ResourceRequirements(limits=given))], **more)


def amounts(cpu: int = 0, memory: int = 0, gpu: int = 0) -> dict[str, str | int]:
    every = {"cpu": cpu, "memory": f"{memory}Gi", GPU: gpu}
    return {key: value for key, value in every.items() if value not in (0, "0Gi")}


def capacity(*nodes_and_pods: Any, **queues: dict[str, Any]) -> Cluster:
    """Queues of those names, each with a group of the same name."""
    cluster = scenario(*nodes_and_pods)
    for name, spec in queues.items():
        add(cluster, queue(name, **spec), group(name, queue=name))
    return cluster


def tree() -> Capacity:
    return Capacity().with_options(switched_on=frozenset((HIERARCHY,)))


# -- what a queue may have


@pytest.mark.parametrize(("most", "placed"), [("2", {"p": "n1"}), ("1500m", {})])
def test_volcano_28_a_capability_that_the_pod_just_fills_and_one_that_it_exceeds(most, placed):
    pods = [asks("runs", "q", 1, 1, on="n1"), asks("p", "q", 1, 1, selector={"name": "n1"})]
    nodes = [node(name, cpu="2", memory="4Gi", labels={"name": name}) for name in ("n1", "n2")]
    outcome = cycle(capacity(*nodes, *pods, q={"capability": {"cpu": most, "memory": "2Gi"}}), Capacity())
    assert outcome.placed == placed
    if not placed:
        assert outcome.why("p") == ("QueueOverCapability: queue q holds 1 cpu and may hold 1500m; 1 more are asked for")


def test_queues_go_on_beyond_what_they_deserve_while_there_is_room():
    pods = [asks(f"p-{n}", "q", 1) for n in range(3)]
    outcome = cycle(capacity(node("n", cpu="4"), *pods, q={"deserved": {"cpu": 1}}), Capacity())
    assert len(outcome.placed) == 3
    assert shares(outcome, "q", "cpu") == ("1", "1", "3", "2")


def test_what_is_guaranteed_to_others_is_not_to_be_had():
    pods = [asks(f"p-{n}", "q", 1) for n in range(4)]
    cluster = capacity(node("n", cpu="4"), *pods, q={}, other={"guarantee": {"resource": {"cpu": 3}}})
    assert len(cycle(cluster, Capacity()).placed) == 1


def test_the_queue_of_higher_priority_is_served_first_then_the_smaller_share():
    pods = [asks("runs", "q7", 2, 4, on="n5"), asks("a", "q8", 2, 4), asks("b", "q9", 2, 4)]
    nodes = [node(name, cpu="2", memory="4Gi") for name in ("n5", "n6")]
    queues = {name: {"priority": priority} for name, priority in (("q7", 5), ("q8", 1), ("q9", 10))}
    assert cycle(capacity(*nodes, *pods, **queues), Capacity()).placed == {"b": "n6"}


def test_a_queue_that_deserves_nothing_comes_after_all_that_lack_something():
    pods = [asks("none", "a", 2), asks("some", "b", 2), asks("runs", "b", 1, on="n")]
    cluster = capacity(node("n", cpu="3"), *pods, a={}, b={"deserved": {"cpu": 2}})
    assert cycle(cluster, Capacity()).placed == {"some": "n"}


# -- what it may take back


def test_volcano_29_a_queue_takes_back_what_it_deserves():
    pods = [asks(f"p{n}", "q3", 2, 4, on=f"n{n}") for n in (5, 6)] + [asks("p7", "q4", 2, 4)]
    nodes = [node(f"n{n}", cpu="2", memory="4Gi") for n in (5, 6)]
    cluster = capacity(*nodes, *pods, q3={"deserved": amounts(2, 4)}, q4={"deserved": amounts(2, 4)})
    asking = Asking(cluster, Capacity())
    assert asking.why_not("p7") is None
    assert asking.reclaimable("p7", "p6") == ["p6"]
    assert asking.reclaimable("p7", "p6", "p5") == ["p6"]


def test_only_what_the_job_asks_for_is_compared():
    """The queue holds more CPUs than it deserves, and fewer cards; the job asks for cards."""
    pods = [asks(f"p{n}", "q5", gpu=10, on=f"n{n}") for n in (8, 9)]
    pods += [asks(f"c{n}", "q6", 2, 4, on=f"n{n}") for n in (8, 9)] + [asks("p12", "q6", gpu=10)]
    nodes = [node(f"n{n}", gpus=10, slots=1, cpu="2", memory="4Gi") for n in (8, 9)]
    has = {"deserved": amounts(2, 4, 10)}
    asking = Asking(capacity(*nodes, *pods, q5=has, q6=has), Capacity())
    assert asking.why_not("p12") is None
    assert asking.reclaimable("p12", "p9") == ["p9"]


@pytest.mark.parametrize(("asked", "may"), [(amounts(gpu=1), False), (amounts(1), True), (amounts(memory=1), False)])
def test_a_pod_goes_only_for_something_that_it_gives_and_its_queue_has_too_much_of(asked, may):
    """The queue holds 4 CPUs and deserves 1, and 1 card as it deserves."""
    pods = [asks("a-0", "a", 2, gpu=1, on="n"), asks("a-1", "a", 2, on="n")]
    waits = member("p", "b", containers=[Container("main", ResourceRequirements(limits=asked))])
    queues = {"a": {"deserved": amounts(1, gpu=1)}, "b": {"deserved": amounts(2, 2, 1)}}
    cluster = capacity(node("n", gpus=1, slots=1, cpu="4", memory="8Gi"), *pods, waits, **queues)
    assert Asking(cluster, Capacity()).reclaimable("p", "a-0") == (["a-0"] if may else [])


def test_what_is_held_on_sufferance_goes_only_for_those_who_ask_for_it():
    pods = [asks("card", "a", gpu=1, on="n"), asks("p", "b", 1), asks("q", "b", gpu=1)]
    queues = {"a": {"deserved": amounts(1)}, "b": {"deserved": amounts(2, 2, 1)}}
    asking = Asking(capacity(node("n", gpus=1, slots=1, cpu="4"), *pods, **queues), Capacity())
    cluster = asking.cluster
    b = asking.session.job_of(cluster.waiting["default/p"])
    assert [task.name for task in b.asking()] == ["p"]
    assert asking.reclaimable("p", "card") == []
    cluster.remove_pod("default/p")
    assert Asking(cluster, Capacity()).reclaimable("q", "card") == ["card"]


@pytest.mark.parametrize(("deserved", "may"), [(amounts(1, 3), True), (amounts(1, 2), False)])
def test_a_queue_may_take_back_if_it_has_its_due_or_less_of_something_with_the_job(deserved, may):
    pods = [asks("p19", "q12", 1, 1, on="n"), asks("p20", "q12", 1, 2), asks("p21", "q13", 1, 1, on="n")]
    asking = Asking(capacity(node("n", cpu="2", memory="4Gi"), *pods, q12={"deserved": deserved}, q13={}), Capacity())
    said = asking.why_not("p20")
    assert (said is None) is may
    assert may or said == "QueueBeyondDeserved: queue q12 holds 1 cpu and deserves 1; the job asks for 1"
    assert asking.reclaimable("p20", "p21") == ["p21"]


def test_volcano_31_case_7_a_queue_without_the_cards_it_deserves_keeps_the_rest():
    pods = [asks("p22", "q14", 2, 4, on="n"), asks("p23", "q15", gpu=1, on="n"), asks("p24", "q16", 2, 1, 1, on="n")]
    has = {"deserved": amounts(2, 4, 2)}
    cluster = capacity(
        node("n", gpus=4, slots=1, cpu="4", memory="8Gi"), *pods, asks("p25", "q16", 2, 3, 1), q14=has, q15={}, q16=has
    )
    asking = Asking(cluster, Capacity())
    assert asking.why_not("p25") is None
    assert asking.reclaimable("p25", "p22", "p23") == ["p23"]


def test_volcano_31_case_8_only_the_pod_with_the_card_may_go():
    pods = [asks("p26", "q17", memory=4, on="n"), asks("p27", "q17", 1, on="n"), asks("p28", "q17", gpu=1, on="n")]
    pods += [asks("p29", "q18", 2, 4, on="n"), asks("p30", "q18", 1, gpu=1)]
    queues = {"q17": {"deserved": amounts(2, 2)}, "q18": {"deserved": amounts(2, 4, 1)}}
    asking = Asking(capacity(node("n", gpus=1, slots=1, cpu="4", memory="8Gi"), *pods, **queues), Capacity())
    assert asking.why_not("p30") is None
    assert asking.reclaimable("p30", "p26", "p27", "p28") == ["p28"]


def test_volcano_31_case_9_a_pod_that_its_queue_deserves_the_card_of_is_kept():
    pods = [asks("p31", "q19", 4, 4, 1, on="n"), asks("p32", "q20", 1, 1)]
    queues = {"q19": {"deserved": amounts(gpu=1)}, "q20": {"deserved": amounts(2, 2)}}
    asking = Asking(capacity(node("n", gpus=1, slots=1, cpu="4", memory="8Gi"), *pods, **queues), Capacity())
    assert asking.why_not("p32") is None
    assert asking.reclaimable("p32", "p31") == []


def test_volcano_31_case_10_nothing_is_taken_back_beyond_the_capability():
    pods = [asks("p33", "q21", 7, 90, on="n9"), asks("p34", "q21", 2, 5), asks("p35", "q22", 2, 5, on="n10")]
    nodes = [node(name, cpu="8", memory="100Gi") for name in ("n9", "n10")]
    full = {"deserved": amounts(8, 100), "capability": amounts(8, 100)}
    asking = Asking(capacity(*nodes, *pods, q21=full, q22={"capability": amounts(2, 5)}), Capacity())
    said = asking.why_not("p34")
    assert said == "QueueOverCapability: queue q21 holds 7 cpu and may hold 8; 2 more are asked for"


def test_a_queue_keeps_its_guarantee_and_one_that_says_so_keeps_all():
    pods = [asks("large", "a", 2, on="n"), asks("a-0", "a", 1, on="n"), asks("b-0", "b", 1, on="n"), asks("p", "c", 2)]
    queues: dict[str, Any] = {"a": {"guarantee": {"resource": {"cpu": 2}}}, "b": {"reclaimable": False}}
    cluster = capacity(node("n", cpu="4"), *pods, **queues, c={"deserved": {"cpu": 2}})
    assert Asking(cluster, Capacity()).reclaimable("p", "large", "a-0", "b-0") == ["a-0"]


def test_the_larger_share_gives_up_pods_first_and_who_deserves_nothing_at_once():
    pods = [
        asks(f"{name}-{n}", name, 1, on="n") for name, count in (("a", 2), ("b", 3), ("c", 1)) for n in range(count)
    ]
    queues = {"a": {"deserved": {"cpu": 2}}, "b": {"deserved": {"cpu": 2}}, "c": {}}
    asking = Asking(capacity(node("n", cpu="8"), *pods, **queues), Capacity())
    assert asking.giving_up(among=["a", "b", "c"]) == ["b", "c", "a"]
    assert asking.giving_up("b-0", "b-1", among=["a", "b", "c"]) == ["c", "a", "b"]


def test_groups_are_let_in_up_to_the_capability_of_all_queues_above():
    cluster = scenario(node("n", cpu="8"))
    add(cluster, queue("top", capability={"cpu": 3}), queue("a", parent="top"), queue("b", parent="top"))
    for name in ("a", "b"):
        add(cluster, group(name, queue=name, phase="Pending", minResources={"cpu": 2}))
        cluster.upsert_pod(small(f"{name}-0", name, cpu=2))
    let_in = cycle(cluster, tree(), actions=("enqueue",)).session.enqueued
    assert [job.name for job in let_in] == ["a"]
    assert len(cycle(cluster, Capacity(), actions=("enqueue",)).session.enqueued) == 2


# -- a tree


def departments(*pods: Pod, **specs: dict[str, Any]) -> Cluster:
    return capacity(node("n", cpu="8"), *pods, **specs)


def test_in_a_tree_a_queue_holds_what_those_below_it_hold():
    pods = [asks("a1-0", "a1", 3, on="n"), asks("b1-0", "b1", 1, on="n"), asks("a2-0", "a2", 4), asks("b1-1", "b1", 4)]
    specs = {"a": {"deserved": {"cpu": 4}}, "b": {"deserved": {"cpu": 4}}}
    specs |= {name: {"parent": name[0], "deserved": {"cpu": 2}} for name in ("a1", "a2", "b1")}
    outcome = cycle(departments(*pods, **specs), tree())
    assert outcome.placed == {"b1-1": "n"}
    assert shares(outcome, "a", "cpu")[2] == "3"
    side_by_side = cycle(departments(*pods, **specs), Capacity())
    assert side_by_side.placed == {"a2-0": "n"}
    assert shares(side_by_side, "a", "cpu")[2] == "0"


def test_in_a_tree_the_capability_above_counts():
    pods = [asks("a1-0", "a1", 2, on="n"), asks("a2-0", "a2", 2)]
    specs = {"a": {"capability": {"cpu": 3}}, "a1": {"parent": "a"}, "a2": {"parent": "a"}}
    outcome = cycle(departments(*pods, **specs), tree())
    assert outcome.why("a2-0") == "QueueOverCapability: queue a holds 2 cpu and may hold 3; 2 more are asked for"


def test_the_switch_is_known_and_needs_no_warning():
    text = with_plugin("capacity", "enableHierarchy: true")
    (plugin,) = (one for one in load(text).plugins if one.name == "capacity")
    assert plugin.options.switched_on == {HIERARCHY}
    assert not any("enableHierarchy" in line for line in warnings(text))
    (off,) = (one for one in load(with_plugin("capacity", "enableHierarchy: false")).plugins if one.name == "capacity")
    assert not off.options.switched_on
    assert any(
        "enableHierarchy: true has no effect" in line for line in warnings(with_plugin("drf", "enableHierarchy: true"))
    )

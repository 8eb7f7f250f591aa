"""Implicit devices: a pod that names no cards is assigned the lowest plain ones and keeps them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.worlds import examples
from tests.scenario import cards, container, node, part, place, plain, pod, problems, reasons, running, scenario, usage
from tonnage.cluster.cluster import Cluster
from tonnage.model.node import Node
from tonnage.model.pod import Pod

WHOLE = (1, 100, 100)
FREE = (0, 0, 0)


def held(cluster: Cluster, name: str = "a") -> dict[str, list[str]]:
    """The cards that each pod on a node holds."""
    state = cluster.nodes[name]
    pods = sorted(state.holdings)
    return {key.removeprefix("default/"): [c.uuid for use in state.uses(key) for c in use.cards] for key in pods}


def test_a_running_pod_holds_the_lowest_cards_whole():
    cluster = scenario(plain("a", 4), pod("x", 2, on="a"), pod("y", 1, on="a"))
    assert held(cluster) == {"x": ["a/0", "a/1"], "y": ["a/2"]}
    assert usage(cluster, "a") == [WHOLE, WHOLE, WHOLE, FREE]
    assert problems(cluster) == []


def test_it_does_not_matter_whether_pods_or_their_node_come_first():
    pods = [pod("x", 1, on="a"), running("y", on="a", gpu=0, memory=10), pod("z", 1, on="a")]
    pods.append(pod("x", 1, on="a", cpu="2"))
    expected = None
    for place_of_node in range(len(pods) + 1):
        cluster = scenario(*pods[:place_of_node], plain("a", 5), *pods[place_of_node:])
        expected = expected or held(cluster)
        assert held(cluster) == expected
    assert expected == {"x": ["a/1"], "y": ["a/0"], "z": ["a/2"]}


def test_a_pod_keeps_its_card_while_others_come_and_go():
    cluster = scenario(plain("a", 3), pod("x", 1, on="a"), pod("y", 1, on="a"))
    cluster.remove_pod("default/x")
    assert held(cluster) == {"y": ["a/1"]}
    cluster.upsert_pod(pod("z", 2, on="a"))
    assert held(cluster) == {"y": ["a/1"], "z": ["a/0", "a/2"]}


def test_a_pod_keeps_its_card_when_the_pod_or_the_node_changes():
    cluster = scenario(plain("a", 3), pod("x", 1, on="a"), pod("y", 1, on="a"))
    cluster.remove_pod("default/x")
    cluster.upsert_pod(pod("y", 1, on="a", cpu="2"))
    cluster.upsert_node(plain("a", 4, gpu_memory=500))
    assert held(cluster) == {"y": ["a/1"]}
    assert usage(cluster, "a") == [FREE, (1, 500, 100), FREE, FREE]


def test_a_placed_pod_that_says_nothing_once_it_runs_keeps_what_it_was_placed_on():
    cluster = scenario(plain("a", 3), pod("x", 1, on="a"))
    assert cards(place(cluster, pod("p", 1))) == ["a/2"]  # spread: the last of equals
    cluster.upsert_pod(pod("p", 1, on="a"))
    assert held(cluster) == {"p": ["a/2"], "x": ["a/0"]}


def test_who_sits_on_a_card_that_another_pod_names_makes_way():
    cluster = scenario(plain("a", 3), pod("x", 1, on="a"), running("y", on="a", gpu=0, memory=60))
    assert held(cluster) == {"x": ["a/1"], "y": ["a/0"]}
    assert usage(cluster, "a") == [(1, 60, 0), WHOLE, FREE]


def test_what_does_not_fit_is_unknown_until_a_card_is_free():
    cluster = scenario(plain("a", 2), pod("x", 1, on="a"), pod("y", 2, on="a"))
    assert held(cluster) == {"x": ["a/0"], "y": ["a/1"]}
    (problem,) = cluster.problems()
    assert problem.object == "Pod/default/y"
    assert "holds 1 nvidia.com/gpu on a" in problem.message
    cluster.remove_pod("default/x")
    assert held(cluster) == {"y": ["a/1", "a/0"]}
    assert problems(cluster) == []


def test_a_pod_that_holds_absurdly_many_cards_takes_all_there_are():
    cluster = scenario(plain("a", 2), pod("x", 10**9, on="a"))
    assert held(cluster) == {"x": ["a/0", "a/1"]}
    assert problems(cluster) == [("Pod/default/x", "metadata.annotations[hami.io/vgpu-devices-allocated]")]


def test_fewer_cards_than_before_leave_the_highest_without():
    cluster = scenario(plain("a", 3), pod("x", 1, on="a"), pod("y", 2, on="a"))
    cluster.upsert_node(plain("a", 1))
    assert held(cluster) == {"x": ["a/0"], "y": []}
    cluster.upsert_node(plain("a", 3))
    assert held(cluster) == {"x": ["a/0"], "y": ["a/1", "a/2"]}


def test_a_node_that_comes_to_register_cards_keeps_to_what_is_known():
    cluster = scenario(plain("a", 2), pod("x", 1, on="a"))
    cluster.upsert_node(node("a", gpus=2, slots=10))
    assert held(cluster) == {"x": []}
    assert problems(cluster) == [("Pod/default/x", "metadata.annotations[hami.io/vgpu-devices-allocated]")]
    cluster.upsert_node(plain("a", 2))
    assert held(cluster) == {"x": ["a/0"]}


def test_a_node_that_goes_and_comes_back_gives_its_cards_anew():
    cluster = scenario(plain("a", 2), pod("x", 1, on="a"), pod("y", 1, on="a"))
    cluster.remove_node("a")
    cluster.remove_pod("default/x")
    cluster.upsert_node(plain("a", 2))
    assert held(cluster) == {"y": ["a/0"]}


# -- placing


def test_a_whole_gpu_is_shared_with_nobody():
    cluster = scenario(plain("a", 1, gpu_memory=8000))
    decision = place(cluster, pod("p", 1))
    assert [(d.uuid, d.memory, d.cores) for d in decision.devices] == [("a/0", 8000, 100)]
    assert place(cluster, pod("q", 1)).node is None


def test_a_request_by_resources_takes_a_whole_card_however_little_it_says():
    cluster = scenario(plain("a", 2, gpu_memory=8000))
    first = place(cluster, pod("p", 1, memory=1000, cores=10))
    assert [(d.memory, d.cores) for d in first.devices] == [(8000, 100)]
    assert cards(place(cluster, pod("q", 1, memory=1000))) != cards(first)
    assert place(cluster, pod("r", 1, memory=1000)).node is None


def test_containers_of_one_pod_get_different_cards():
    cluster = scenario(plain("a", 2))
    two = [container(name, gpus=1, memory=10) for name in ("one", "two")]
    assert sorted(cards(place(cluster, pod("p", containers=two)))) == ["a/0", "a/1"]


def test_more_memory_than_the_card_has_is_refused():
    assert reasons(place(scenario(plain("a", 2, gpu_memory=8000)), pod("p", 1, memory=9000))) == {
        "CardInsufficientMemory": 1
    }


def test_a_plain_card_is_of_its_product():
    cluster = scenario(plain("a", 1, gpu_type="NVIDIA-A100"), plain("b", 1, gpu_type="NVIDIA-H100"))
    assert place(cluster, pod("p", 1, annotations={"nvidia.com/use-gputype": "H100"})).node == "b"


def test_beside_unknown_holders_no_plain_card_is_given():
    cluster = scenario(plain("a", 2), pod("x", 3, on="a"))
    cluster.remove_pod("default/x")
    cluster.upsert_pod(running("y", on="a", gpu="GPU-elsewhere", memory=10))
    assert reasons(place(cluster, pod("p", 1, memory=10))) == {"ExclusiveDeviceAllocateConflict": 1}


# -- any history


def events() -> st.SearchStrategy[list[Node | Pod | str | bool]]:
    """Pods and the node come and change, pods go, and the view is switched to how it will be, and back."""
    names = st.sampled_from("uvwxyz")
    whole = st.builds(lambda n, count: pod(n, count, on="a"), names, st.integers(1, 3))
    named = st.builds(lambda n, card: running(n, on="a", gpu=card, memory=30), names, st.integers(0, 4))
    shared = st.builds(lambda n, group: part(n, 0.3, on="a", group=group), names, st.sampled_from("gh"))
    leaving = st.builds(lambda n, count: pod(n, count, on="a", terminating=True), names, st.integers(1, 2))
    nodes = st.builds(lambda gpus: plain("a", gpus), st.integers(0, 5))
    return st.lists(st.one_of(whole, whole, shared, named, leaving, names, nodes, st.booleans()), max_size=14)


@given(events())
@settings(max_examples=examples(120))
def test_in_any_history_cards_are_given_once_kept_and_counted(history):
    cluster = scenario(plain("a", 4))
    for event in history:
        before = held(cluster)
        if isinstance(event, bool):
            cluster.look_ahead(event)
        elif isinstance(event, str):
            cluster.remove_pod(f"default/{event}")
        else:
            scenario_add(cluster, event)
        state = cluster.nodes["a"]
        taken = list(state.assigned.values())
        assert len(taken) == len(set(taken))
        expected = [list(FREE) for _ in state.devices]
        unknown = 0
        for key in state.holdings:
            for use in state.uses(key) if not (cluster.is_ahead and key in cluster.leaving) else ():
                unknown += use.unknown
                for card in use.cards:
                    if card.uuid in state.positions:
                        for kind, value in enumerate((card.slots, card.memory, card.cores)):
                            expected[state.positions[card.uuid]][kind] += value
                    else:
                        unknown += card.slots
        assert usage(cluster, "a") == [tuple(load) for load in expected]
        assert cluster.columns.foreign[0, state.row] == cluster.columns.foreign_total == unknown
        if isinstance(event, str):
            after = held(cluster)
            assert all(set(before[key]) <= set(after[key]) for key in after)
        named = {c.uuid for h in state.holdings.values() for use in h.vendors for c in use.cards}
        free = set(state.positions) - named - set(taken)
        if not any(event is True for event in history):
            assert not free or not any(use.unknown for uses in state.implicit_uses.values() for use in uses)


def scenario_add(cluster: Cluster, thing: Node | Pod) -> None:
    if isinstance(thing, Node):
        cluster.upsert_node(thing)
    else:
        cluster.upsert_pod(thing)

"""The fragmentation policy: pods go where they destroy the least of what the typical pods could use."""

import random

import pytest

from tests.plugins.fragmentation.typicalpods import free_shares, gradient, naive_fragments
from tests.scenario import cards, container, gpu, node, part, plain, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.plugins.catalog import ALWAYS, plugin_class
from tonnage.plugins.fragmentation._learnedpods import SLICE, LearnedPods
from tonnage.plugins.fragmentation.fragmentation import FragmentationGradient
from tonnage.plugins.fragmentation.trial import Trial
from tonnage.plugins.fragmentation.typicalpods import TypicalPods, WrittenPod, kind_of, workload_of
from tonnage.plugins.helpers.cardshares import WHOLE, CardShares
from tonnage.plugins.helpers.hashes import part_of_one


def session(cluster: Cluster, *usual: WrittenPod) -> Session:
    plugins = [plugin_class(name)() for name in ALWAYS]  # type: ignore[misc]
    arguments = FragmentationGradient.Arguments(workload=usual)
    return Session(cluster, [*plugins, FragmentationGradient(arguments)])


def place(cluster: Cluster, wanted: Pod, *usual: WrittenPod) -> Decision:
    with session(cluster, *usual) as opened:
        return opened.place(make_task(wanted, cluster.vendors))


def half(popularity: float = 1.0) -> WrittenPod:
    return WrittenPod(cpu=1, gpus=1, share=0.5, popularity=popularity)


def whole(gpus: int = 1, popularity: float = 1.0) -> WrittenPod:
    return WrittenPod(cpu=1, gpus=gpus, popularity=popularity)


# -- what a reader would expect


def test_half_a_card_goes_to_the_card_where_it_destroys_the_least() -> None:
    """The first card has 0.6 free, which a usual half still fits on; the second 0.5, which becomes nothing useless."""
    cluster = scenario(
        node("a", gpus=2, gpu_memory=1000),
        running("x", on="a", gpu=0, memory=400),
        running("y", on="a", gpu=1, memory=500),
    )
    assert cards(place(cluster, pod("p", 1, memory=500), half())) == ["a/1"]


def test_an_idle_card_is_opened_rather_than_leaving_a_piece_that_nobody_can_use() -> None:
    """Of 0.9, a half leaves 0.4 that no typical pod wants; of an idle card it leaves a half that the others want."""
    cluster = scenario(node("a", gpus=2, gpu_memory=1000), running("x", on="a", gpu=0, memory=100))
    assert cards(place(cluster, pod("p", 1, memory=500), half())) == ["a/1"]


def test_a_shared_card_is_used_up_where_whole_cards_are_usual() -> None:
    cluster = scenario(node("a", gpus=2, gpu_memory=1000), running("x", on="a", gpu=1, memory=100))
    assert cards(place(cluster, pod("p", 1, memory=500), whole())) == ["a/1"]


def test_pairs_of_cards_are_kept_for_pods_that_want_two() -> None:
    cluster = scenario(node("a", gpus=2), node("b", gpus=3))
    assert place(cluster, pod("p", 1, memory=8000), whole(2)).node == "b"


def test_a_model_that_others_want_is_left_to_them() -> None:
    nodes = (node("a", gpus=[gpu("a/0", type="V100")]), node("b", gpus=[gpu("b/0", type="T4")]))
    wanted = WrittenPod(gpus=1, models=["V100"])
    assert place(scenario(*nodes), pod("p", 1, memory=8000), wanted).node == "b"


def test_a_pod_without_cards_goes_where_processors_are_not_needed_for_cards() -> None:
    nodes = (node("a", gpus=4, cpu="8"), node("b", gpus=1, cpu="8"), running("x", on="b", gpu=0, memory=8000))
    busy = WrittenPod(cpu=8, gpus=1)
    assert place(scenario(*nodes), pod("p", cpu="4"), busy).node == "b"


def test_among_equals_nodes_with_cards_in_use_come_first() -> None:
    """A half leaves a half that others want wherever it goes."""
    nodes = (node("a", gpus=1, cpu="4"), node("b", gpus=4, cpu="64"), running("x", on="b", gpu=0, memory=8000))
    assert place(scenario(*nodes), pod("p", 1, memory=4000), half()).node == "b"


def test_among_equals_no_pool_of_nodes_comes_before_another() -> None:
    """Ten nodes of each of two pools are equal; the first ten pods, one to a node, go to both."""
    pools = [node(f"{pool}-{number}", gpus=1) for pool in ("a", "b") for number in range(10)]
    cluster = scenario(*pools)
    with session(cluster, whole()) as opened:
        taken = [opened.place(make_task(pod(f"p{i}", 1, memory=8000), cluster.vendors)).node or "" for i in range(10)]
    assert {name[0] for name in taken} == {"a", "b"}


def test_whole_cards_are_taken_from_the_lowest() -> None:
    cluster = scenario(node("a", gpus=4), running("x", on="a", gpu=1, memory=10))
    assert cards(place(cluster, pod("p", 2), whole())) == ["a/0", "a/2"]


def test_parts_of_several_cards_are_taken_from_the_fullest() -> None:
    cluster = scenario(node("a", gpus=3), running("x", on="a", gpu=2, memory=4000))
    assert sorted(cards(place(cluster, pod("p", 2, memory=2000), whole()))) == ["a/0", "a/2"]


def test_parts_of_plain_cards_go_where_they_destroy_the_least() -> None:
    cluster = scenario(plain("a", 2, gpu_memory=1000), part("x", 0.4, on="a", group="g"))
    asked = WrittenPod(gpus=1, share=0.6)
    decision = place(cluster, part("p", 0.6), asked)
    assert decision.node == "a"
    assert free_shares(cluster, "a") == [0, WHOLE]


def test_a_pod_of_several_containers_goes_where_all_of_them_together_do_the_least_harm() -> None:
    cluster = scenario(node("a", gpus=2), node("b", gpus=2), running("r", on="a", gpu=1, memory=4000))
    wanted = pod("p", containers=[container("x", gpus=1, memory=4000), container("y", gpus=1, memory=8000)])
    assert cards(place(cluster, wanted, whole())) == ["a/1", "a/0"]


def test_containers_do_not_use_the_same_part_of_a_card_in_thought() -> None:
    cluster = scenario(node("a", gpus=2), running("r", on="a", gpu=0, memory=4000))
    two = pod("p", containers=[container(name, gpus=1, memory=4000) for name in "xy"])
    nodes = cluster.all_nodes()
    left = Trial(cluster).all_together(
        make_task(two, cluster.vendors), nodes.cards, CardShares(nodes.columns).of(nodes.cards)
    )
    assert left.tolist() == [[0], [WHOLE // 2]]


# -- against a slow reference


def expected_scores(
    cluster: Cluster, cpu: int, gpus: int, memory: int, usual: TypicalPods
) -> dict[str, tuple[int, int]]:
    """Per node that fits: the best score, and the lowest card with it; written as plainly as can be."""
    found = {}
    for name, state in cluster.nodes.items():
        free, types = free_shares(cluster, name), [device.type for device in state.devices]
        cpu_left = int(cluster.columns.free[0, state.row])
        before = naive_fragments(free, types, cpu_left, usual)
        share = memory * WHOLE // 1000
        fitting = [card for card, left in enumerate(free) if left >= share]
        if cpu_left < cpu or len(fitting) < gpus:
            continue
        if gpus == 0:
            found[name] = (gradient(before, naive_fragments(free, types, cpu_left - cpu, usual)), -1)
        elif gpus == 1:
            options = []
            for card in fitting:
                after = [left - share * (number == card) for number, left in enumerate(free)]
                step = gradient(before, naive_fragments(after, types, cpu_left - cpu, usual))
                options.append((step, -card))
            step, card = max(options)
            found[name] = (step, -card)
        else:
            taken = sorted(fitting, key=lambda card: (free[card], card))[:gpus]
            after = [left - share * (number in taken) for number, left in enumerate(free)]
            found[name] = (gradient(before, naive_fragments(after, types, cpu_left - cpu, usual)), -1)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_scores_and_cards_are_those_of_a_slow_reference(seed: int) -> None:
    rng = random.Random(seed)
    models = ["V100", "T4", "G2"]
    nodes = []
    for number in range(12):
        model, count = rng.choice(models), rng.choice([1, 2, 4, 8])
        registered = [gpu(f"n{number}/{i}", index=i, memory=1000, count=100, type=model) for i in range(count)]
        nodes.append(node(f"n{number:02}", gpus=registered, cpu=str(rng.choice([16, 32, 96]))))
    cluster = scenario(*nodes)
    usual = [
        WrittenPod(
            cpu=rng.choice([1, 4, 8, 16]),
            gpus=rng.choice([0, 1, 1, 1, 2, 4]),
            share=rng.choice([0.32, 0.47, 0.5, 0.65, 0.81, 1.0, 1.0]),
            models=rng.choice([[], [], ["V100"], ["T4", "G2"]]),
            popularity=rng.randrange(1, 30),
        )
        for _ in range(20)
    ]
    counted = workload_of(usual)
    with session(cluster, *usual) as opened:
        for number in range(120):
            idle = {name: set(free_shares(cluster, name)) == {WHOLE} for name in cluster.nodes}
            cpu, gpus = rng.choice([1, 2, 4, 8]), rng.choice([0, 1, 1, 1, 1, 2])
            memory = rng.choice([320, 470, 500, 650, 810, 1000]) if gpus <= 1 else 1000
            expected = expected_scores(cluster, cpu * 1000, gpus, memory, counted)
            wanted = pod(f"p{number}", gpus or None, memory=memory if gpus else None, cpu=str(cpu))
            decision = opened.place(make_task(wanted, cluster.vendors))
            if not expected:
                assert decision.node is None
                continue
            assert decision.node is not None
            best = max(step for step, _ in expected.values())
            equals = [name for name, (step, _) in expected.items() if step == best]
            assert decision.node == max(equals, key=lambda name: (not idle[name], part_of_one(name)))
            shown = {name: int(scores["fragmentation"]) for name, scores in decision.scores.items()}
            assert shown == {name: expected[name][0] for name in shown}
            if gpus == 1:
                position = expected[decision.node][1]
                assert cards(decision) == [cluster.nodes[decision.node].devices[position].uuid]


# -- learning the typical pods


def test_typical_pods_are_learned_from_those_that_run_and_wait() -> None:
    cluster = scenario(
        node("a", gpus=4, gpu_memory=8000),
        *[running(f"r{i}", on="a", gpu=i, memory=2000) for i in range(2)],
        pod("w", 2, memory=8000, cpu="4"),
        pod("c", cpu="1"),
    )
    found = {pod.kind: pod.popularity for pod in LearnedPods(cluster).current()}
    assert found == {kind_of(0, 1, 0.25): 0.5, kind_of(4000, 2, 1.0): 0.25, kind_of(1000, 0, 0): 0.25}


def test_older_pods_count_less() -> None:
    cluster = scenario(
        node("a", gpus=1),
        pod("new", 1, memory=4000, created="2026-03-08T00:00:00Z"),
        pod("old", 1, memory=8000, created="2026-03-01T00:00:00Z"),
        pod("older", cpu="1", created="2026-02-22T00:00:00Z"),
    )
    found = {pod.kind.share: pod.popularity for pod in LearnedPods(cluster, half_life_days=7).current()}
    assert found == {share: pytest.approx(part / 1.75) for share, part in ((WHOLE // 2, 1), (WHOLE, 0.5), (0, 0.25))}


def test_pods_that_accept_some_cards_only_are_learned_with_their_models() -> None:
    only = {"nvidia.com/use-gputype": "A100"}
    cluster = scenario(
        node("a", gpus=[gpu("a/0", type="NVIDIA A100", memory=8000)]),
        node("b", gpus=[gpu("b/0", type="NVIDIA V100", memory=4000)]),
        pod("p", 1, memory=2000, annotations=only),
    )
    assert [pod.kind for pod in LearnedPods(cluster).current()] == [kind_of(0, 1, 0.25, ("NVIDIA A100",))]


def test_typical_pods_are_learned_anew_only_after_many_changes() -> None:
    cluster = scenario(node("a", gpus=1), pod("p", 1, memory=4000))
    learned = LearnedPods(cluster)
    first = learned.current()
    cluster.upsert_pod(pod("q", 1, memory=8000))
    assert learned.current() is first
    for number in range(101):
        cluster.upsert_node(node("a", gpus=1, labels={"n": str(number)}))
    assert len(learned.current()) == 2


def test_typical_pods_can_be_learned_in_slices_while_the_cluster_changes() -> None:
    pods = [pod(f"p{number}", 1, memory=1000 * (1 + number % 4)) for number in range(3 * SLICE)]
    cluster = scenario(node("a", gpus=1), *pods)
    before = LearnedPods(cluster).current()
    learned = LearnedPods(cluster)
    slices = 0
    for _ in learned.catch_up():
        slices += 1
        cluster.upsert_pod(pod(f"new{slices}", 2, memory=8000))
        cluster.remove_pod(f"default/p{slices}")
        cluster.upsert_node(node("b", gpus=slices))
    assert slices >= len(pods) / SLICE
    assert learned.current() == before
    assert list(learned.catch_up()) == []


def test_what_is_learned_decides() -> None:
    """Where single cards are usual the nodes are equal; once pods that want two wait, a pair is kept for them."""
    nodes = (node("a", gpus=3), node("b", gpus=2))
    singles = [pod(f"w{i}", 1, memory=8000) for i in range(9)]
    assert place(scenario(*nodes, *singles), pod("p", 1, memory=8000)).node == "b"
    pairs = [pod(f"w{i}", 2, memory=8000) for i in range(9)]
    assert place(scenario(*nodes, *pairs), pod("p", 1, memory=8000)).node == "a"

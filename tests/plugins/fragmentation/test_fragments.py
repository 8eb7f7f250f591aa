"""The fragmentation measure: published examples, the share of a card, and what is kept up to date against a recount."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.fragmentation.typicalpods import (
    SOME_WITHOUT,
    WITH_CARDS,
    Pods,
    free_shares,
    naive_fragments,
    workload,
)
from tests.properties.worlds import examples
from tests.scenario import gpu, node, part, plain, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.fragmentation.fragments import ALL_PODS, Fragments, fragmentation
from tonnage.plugins.fragmentation.typicalpods import kind_of, typical
from tonnage.plugins.helpers.cardshares import WHOLE


def left_over(free: tuple[int, ...], cpu: int, model: str = "1080") -> Cluster:
    """A node with so many thousandths free of each card, and so many thousandths of CPUs."""
    cards = [gpu(f"n/{i}", index=i, memory=1000, type=model) for i in range(len(free))]
    held = [running(f"p{i}", on="n", gpu=i, memory=1000 - share) for i, share in enumerate(free) if share < 1000]
    return scenario(node("n", gpus=cards, cpu=f"{cpu}m"), *held)


def thousandths(cluster: Cluster, pods: Pods) -> float:
    """The fragments of a cluster in thousandths of a card."""
    return 1000 * fragmentation(cluster, workload(pods)).fragments


@pytest.mark.parametrize(
    ("free", "cpu", "pods", "expected"),
    [
        ((200, 1000, 1000, 500), 1000, ((6000, 465, 1, "", 9.33),), 251.91),
        ((200, 1000, 1000, 500), 1000, ((100, 1000, 2, "1080", 100),), 700),
        ((200, 1000, 1000, 500), 1000, ((100, 200, 2, "1080", 100),), 0),
        ((1000,) * 4, 1000, ((100, 1000, 2, "1080", 100),), 0),
        ((1000,) * 8, 1000, ((100, 1000, 2, "1080", 100),), 0),
        ((200, 1000, 1000, 500), 1000, WITH_CARDS, 2566.62),
        ((1000,) * 4, 1000, WITH_CARDS, 3802.40),
        ((1000,) * 8, 1000, WITH_CARDS, 7604.80),
    ],
)
def test_published_examples(free: tuple[int, ...], cpu: int, pods: Pods, expected: float) -> None:
    assert thousandths(left_over(free, cpu), pods) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("free", "cpu", "expected"),
    [
        ((1000,) * 8, 64000, 887.20),
        ((1000, 1000, 1000, 1000, 0, 0, 0, 0), 32000, 554.4),
        ((1000, 1000, 1000, 1000, 0, 0, 0, 0), 0, 4000),
    ],
)
def test_published_examples_with_pods_that_ask_for_no_cards(free: tuple[int, ...], cpu: int, expected: float) -> None:
    assert thousandths(left_over(free, cpu, "P100"), SOME_WITHOUT) == pytest.approx(expected, abs=0.01)


def test_a_model_that_the_typical_pods_do_not_want_is_a_fragment() -> None:
    cluster = left_over((1000, 1000), 64000, "Tesla-T4")
    assert thousandths(cluster, ((1000, 500, 1, "T4", 100),)) == 0
    assert thousandths(cluster, ((1000, 500, 1, "V100", 100),)) == 2000


def test_a_model_that_is_the_whole_name_of_a_card_means_no_other() -> None:
    cluster = scenario(
        node("a", gpus=[gpu("a/0", type="NVIDIA A10")]), node("b", gpus=[gpu("b/0", type="NVIDIA A100")])
    )
    assert thousandths(cluster, ((1000, 500, 1, "NVIDIA A10", 100),)) == 1000
    assert thousandths(cluster, ((1000, 500, 1, "a10", 100),)) == 0


def test_the_scarcer_of_memory_and_compute_is_what_is_free_of_a_card() -> None:
    cluster = scenario(
        node("a", gpus=3, gpu_memory=8000),
        running("x", on="a", gpu=0, memory=2000, cores=50),
        running("y", on="a", gpu=1, memory=6000, cores=10),
    )
    counted = Fragments(cluster, ())
    counted.update()
    assert counted.shares[:, 0].tolist() == [WHOLE // 2, WHOLE // 4, WHOLE]
    assert fragmentation(cluster, ()).free == 1.75


def test_cards_that_take_nothing_new_are_not_free() -> None:
    cluster = scenario(
        node("full", gpus=[gpu("full/0", count=1)]),
        running("x", on="full", gpu=0, memory=10),
        node("sick", gpus=[gpu("sick/0", healthy=False)]),
        node("cordoned", gpus=[gpu("cordoned/0")], annotations={"hami.io/device-cordon": "cordoned/0"}),
        node("none"),
    )
    assert fragmentation(cluster, ()).free == 0


def test_parts_of_plain_cards_count_as_they_are_asked_for() -> None:
    cluster = scenario(plain("a", 2, gpu_memory=40000), part("x", 0.25, on="a", group="g"))
    assert fragmentation(cluster, ()).free == pytest.approx(1.75)


def test_the_typical_pods_are_the_most_popular_kinds_up_to_95_percent() -> None:
    one, half, cpu = kind_of(4000, 1, 1.0), kind_of(2000, 1, 0.5), kind_of(1000, 0, 0)
    rare, rarer = kind_of(8000, 8, 1.0), kind_of(9000, 8, 1.0)
    found = typical({rarer: 2, half: 30, one: 50, rare: 3, cpu: 15})
    assert [(pod.kind, pod.popularity) for pod in found] == [(one, 50 / 95), (half, 30 / 95), (cpu, 15 / 95)]
    assert [pod.kind for pod in typical({rarer: 1, rare: 1})] == [rare, rarer]


KINDS = st.builds(
    kind_of,
    st.sampled_from([0, 1000, 4000, 16000]),
    st.integers(0, 3),
    st.sampled_from([0.2, 0.25, 0.5, 0.75, 1.0]),
    st.sampled_from([(), ("A100",), ("V100",), ("A100", "V100")]),
)
TASKS = st.tuples(
    st.integers(0, 2), st.sampled_from([400, 1600, 2000, 4000, 8000]), st.sampled_from([0, 25, 50]), st.integers(1, 6)
)


def world() -> Cluster:
    return scenario(
        node("a", gpus=[gpu(f"a/{i}", type="NVIDIA A100", memory=8000) for i in range(4)], cpu="32"),
        node("b", gpus=[gpu(f"b/{i}", type="NVIDIA V100", memory=8000, count=2) for i in range(2)], cpu="8"),
        node("c", gpus=[gpu("c/0", type="NVIDIA A100"), gpu("c/1", type="NVIDIA V100")], cpu="6"),
        node("d", cpu="16"),
    )


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(KINDS, st.integers(1, 50)), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(["place", "place", "remove", "grow"]), TASKS), max_size=25),
)
def test_what_is_kept_up_to_date_is_what_a_recount_finds(
    kinds: list[tuple[tuple[int, int, int, tuple[str, ...]], int]],
    steps: list[tuple[str, tuple[int, int, int, int]]],
) -> None:
    cluster, placed = world(), list[str]()
    learned = typical(dict(kinds))  # type: ignore[arg-type]
    kept = Fragments(cluster, learned)
    with Session(cluster, default_plugins()) as session:
        for number, (step, (gpus, memory, cores, cpu)) in enumerate(steps):
            if step == "remove" and placed:
                session.unplace(placed.pop(cpu % len(placed)))
            elif step == "grow":
                cluster.upsert_node(node(f"new{number}", gpus=gpus, cpu=str(cpu)))
            else:
                wanted = pod(
                    f"p{number}", gpus or None, memory=memory if gpus else None, cores=cores or None, cpu=str(cpu)
                )
                if session.place(make_task(wanted, cluster.vendors)).node is not None:
                    placed.append(wanted.key)
            kept.update()
            for name, state in cluster.nodes.items():
                shares = free_shares(cluster, name)
                cpu_left = int(cluster.columns.free[0, state.row])
                naive = naive_fragments(shares, [device.type for device in state.devices], cpu_left, learned)
                assert kept.free[state.row] == sum(shares)
                assert kept.fragments[state.row] / ALL_PODS == pytest.approx(naive, abs=1)

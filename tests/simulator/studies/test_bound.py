"""No policy gives out more GPUs than the bound, and on small clusters the bound is what one works out by hand."""

import csv
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.paths import OPENB
from tests.simulator.traces.invented import invented_trace
from tonnage.simulator.studies.bound import EqualNodes, EqualPods, MissingSolverError, gpu_bound

ROOM = EqualNodes(cpu=64_000, memory=262_144, cards=8)


def whole(gpus: int = 1, count: int = 1, cpu: int = 1000, **more: frozenset[str]) -> EqualPods:
    return EqualPods(cpu, 1024, gpus, count=count, **more)


def part(share: float, count: int = 1, cpu: int = 1000) -> EqualPods:
    return EqualPods(cpu, 1024, 1, share, count=count)


# -- by hand


def test_what_fits_is_given_out_in_full():
    assert gpu_bound([ROOM], [whole(2), part(0.25, count=3)]) == pytest.approx(2.75)


def test_there_is_no_more_than_the_cards():
    assert gpu_bound([replace(ROOM, count=2)], [whole(count=100)]) == pytest.approx(16)


def test_processors_run_out_before_cards():
    assert gpu_bound([ROOM], [whole(count=100, cpu=16_000)]) == pytest.approx(4)


def test_memory_runs_out_before_cards():
    assert gpu_bound([ROOM], [EqualPods(1000, 131_072, 1, count=100)]) == pytest.approx(2)


def test_the_pods_with_more_card_per_processor_are_chosen():
    node = EqualNodes(cpu=10_000, memory=10_000, cards=4)
    assert gpu_bound([node], [part(0.5, 8, cpu=5000), whole(count=1, cpu=5000)]) == pytest.approx(1.5)


def test_two_pods_above_half_a_card_do_not_share_it():
    assert gpu_bound([replace(ROOM, cards=2)], [part(0.6, count=10)]) == pytest.approx(1.2)


def test_three_pods_above_a_third_do_not_share_a_card():
    assert gpu_bound([replace(ROOM, cards=1)], [part(0.34, count=10)]) == pytest.approx(0.68)


def test_small_shares_fill_what_large_ones_leave():
    assert gpu_bound([replace(ROOM, cards=2)], [part(0.8, count=2), part(0.2, count=2)]) == pytest.approx(2)


def test_thirds_fill_a_card():
    assert gpu_bound([replace(ROOM, cards=1)], [part(1 / 3, count=10)]) == pytest.approx(1, abs=1e-5)


def test_large_pods_stand_alone_on_their_nodes():
    assert gpu_bound([replace(ROOM, count=3)], [whole(5, count=10)]) == pytest.approx(15)


def test_pods_larger_than_any_node_get_nothing():
    assert gpu_bound([ROOM], [whole(9), whole(cpu=64_001), EqualPods(0, 262_145, 1)]) == 0


def test_models_keep_pods_off_nodes():
    nodes = [replace(ROOM, model="V100"), replace(ROOM, model="T4", cards=2)]
    assert gpu_bound(nodes, [whole(count=20, models=frozenset({"T4", "P100"}))]) == pytest.approx(2)


def test_pods_without_gpus_and_nodes_without_cards_count_nothing():
    assert gpu_bound([replace(ROOM, cards=0)], [whole()]) == 0
    assert gpu_bound([ROOM], [EqualPods(60_000, 0, 0), whole(8)]) == pytest.approx(8)


def test_nothing_is_bounded_by_nothing():
    assert gpu_bound([], []) == 0


def test_equal_kinds_may_be_given_one_by_one():
    assert gpu_bound([ROOM] * 3, [part(0.6)] * 40) == pytest.approx(
        gpu_bound([replace(ROOM, count=3)], [part(0.6, 40)])
    )


def test_without_the_solver_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MissingSolverError, match=r"pip install 'tonnage\[simulate\]'"):
        gpu_bound([ROOM], [whole()])


# -- against packings


def packed(nodes: list[EqualNodes], pods: list[EqualPods]) -> float:
    """GPUs that pods get when each takes the first node with room, and there the fullest cards that do."""
    rows = [[node.cpu, node.memory, [1000] * node.cards] for node in nodes for _ in range(node.count)]
    models = [node.model for node in nodes for _ in range(node.count)]
    given_out = 0
    for pod in pods:
        share = round(pod.share * 1000)
        for row, model in zip(rows, models, strict=True):
            cards = sorted((free, i) for i, free in enumerate(row[2]) if free >= share)[: pod.gpus]
            if row[0] < pod.cpu or row[1] < pod.memory or len(cards) < pod.gpus:
                continue
            if pod.models and model not in pod.models:
                continue
            row[0] -= pod.cpu
            row[1] -= pod.memory
            for _, i in cards:
                row[2][i] -= share
            given_out += share * pod.gpus
            break
    return given_out / 1000


MODELS = ("A", "B")
some_nodes = st.lists(
    st.builds(
        EqualNodes,
        st.integers(0, 16),
        st.integers(0, 16),
        st.integers(0, 4),
        st.sampled_from(MODELS),
        st.integers(1, 3),
    ),
    max_size=3,
)
thousandths = st.one_of(st.sampled_from((1000, 500, 250, 333, 334, 200, 501)), st.integers(1, 1000))
some_pods = st.lists(
    st.builds(
        EqualPods,
        st.integers(0, 8),
        st.integers(0, 8),
        st.integers(0, 4),
        thousandths.map(lambda share: share / 1000),
        st.frozensets(st.sampled_from(MODELS)),
    ),
    max_size=25,
)


@given(some_nodes, some_pods, st.randoms(use_true_random=False))
def test_no_packing_gives_out_more(nodes: list[EqualNodes], pods: list[EqualPods], rng: random.Random):
    rng.shuffle(pods)
    bound = gpu_bound(nodes, pods)
    assert packed(nodes, pods) <= bound + 1e-6
    assert packed(nodes, sorted(pods, key=lambda pod: -pod.gpus * pod.share)) <= bound + 1e-6


@given(some_nodes, some_pods)
def test_the_bound_is_within_the_cards_and_the_demand(nodes: list[EqualNodes], pods: list[EqualPods]):
    bound = gpu_bound(nodes, pods)
    assert bound <= sum(node.cards * node.count for node in nodes) + 1e-6
    assert bound <= sum(pod.gpus * pod.share for pod in pods) + 1e-6


def read_terms(nodes: str | Path, pods: str | Path) -> tuple[list[EqualNodes], list[EqualPods]]:
    """The nodes and the pods of a trace, pods of one kind together."""
    with Path(nodes).open() as file:
        rows = list(csv.DictReader(file))
    offers = [EqualNodes(int(r["cpu_milli"]), int(r["memory_mib"]), int(r["gpu"]), r["model"]) for r in rows]
    with Path(pods).open() as file:
        rows = list(csv.DictReader(file))
    kinds = Counter((int(r["cpu_milli"]), int(r["memory_mib"]), int(r["num_gpu"]), int(r["gpu_milli"])) for r in rows)
    asked = [EqualPods(cpu, mem, gpus, share / 1000, count=count) for (cpu, mem, gpus, share), count in kinds.items()]
    return offers, asked


def test_a_trace_that_asks_for_more_than_there_is_cannot_be_placed_in_full(tmp_path):
    invented = invented_trace(tmp_path)
    nodes, pods = read_terms(invented.nodes, invented.pods)
    assert sum(pod.gpus * pod.share * pod.count for pod in pods) == pytest.approx(invented.demand)
    assert invented.demand > invented.card_count
    assert 0.9 * invented.card_count < gpu_bound(nodes, pods) <= invented.card_count


@pytest.mark.openb
def test_the_recorded_trace_cannot_be_placed_in_full():
    nodes, pods = read_terms(OPENB / "openb_node_list_gpu_node.csv", OPENB / "openb_pod_list_default.csv")
    demand = sum(pod.gpus * pod.share * pod.count for pod in pods)
    cards = sum(node.cards for node in nodes)
    bound = gpu_bound(nodes, pods)
    assert demand == pytest.approx(6086.8, abs=0.1)
    assert 0.95 * cards < bound < 0.98 * cards

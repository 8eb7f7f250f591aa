"""The policy of expected fill: what a reader would expect of it, and its columns against plain recursion and loops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.fragmentation.expectedvalues import (
    SlowNode,
    slow_fill,
    slow_nodes,
    slow_places,
    slow_room,
    slow_worths,
)
from tests.plugins.fragmentation.test_fragments import KINDS, TASKS, world
from tests.properties.worlds import examples
from tests.scenario import cards, gpu, node, pod, running, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.model.pod import Pod
from tonnage.plugins.catalog import ALWAYS, plugin_class
from tonnage.plugins.fragmentation._nodevalues import NodeValues
from tonnage.plugins.fragmentation.expectedfill import ExpectedFill
from tonnage.plugins.fragmentation.typicalpods import TypicalPods, WrittenPod, kind_of, typical, workload_of
from tonnage.plugins.helpers.cardshares import WHOLE


def session(cluster: Cluster, *usual: WrittenPod) -> Session:
    plugins = [plugin_class(name)() for name in ALWAYS]  # type: ignore[misc]
    return Session(cluster, [*plugins, ExpectedFill(ExpectedFill.Arguments(workload=usual))])


def place(cluster: Cluster, wanted: Pod, *usual: WrittenPod) -> Decision:
    with session(cluster, *usual) as opened:
        return opened.place(make_task(wanted, cluster.vendors))


def usual(cpu: int = 1, gpus: int = 1, share: float = 1.0, popularity: float = 1.0, model: str = "") -> WrittenPod:
    return WrittenPod(cpu=cpu, gpus=gpus, share=share, popularity=popularity, models=[model] if model else [])


# -- what a reader would expect


def test_a_pair_of_shares_counts_where_one_share_alone_tells_nothing() -> None:
    """Both cards would still take a usual pod of 0.3; only 0.6 takes two of them, one after the other."""
    cluster = scenario(
        node("a", gpus=2, gpu_memory=1000),
        running("x", on="a", gpu=0, memory=300),
        running("y", on="a", gpu=1, memory=400),
    )
    assert cards(place(cluster, pod("p", 1, memory=100), usual(share=0.3))) == ["a/0"]


def test_the_last_node_for_large_pods_is_left_whole() -> None:
    cluster = scenario(node("a", gpus=4), node("b", gpus=4), running("x", on="b", gpu=0, memory=8000, cores=100))
    assert place(cluster, pod("p", 1, cores=100), usual(), usual(gpus=4, popularity=0.05)).node == "b"


def test_a_pod_that_takes_any_card_leaves_a_scarce_model_alone() -> None:
    cluster = scenario(
        node("rare", gpus=[gpu("rare/0", type="NVIDIA A100")]),
        *[node(f"t{n}", gpus=[gpu(f"t{n}/0", type="NVIDIA T4")]) for n in range(3)],
    )
    decision = place(cluster, pod("p", 1, cores=100), usual(), usual(model="A100", popularity=0.5))
    assert decision.node != "rare"


def test_cpu_without_which_cards_are_useless_is_kept() -> None:
    """A pod without cards goes to the node whose cards are in use, because the CPU of the other serves its cards."""
    cluster = scenario(
        node("a", gpus=1, cpu="8"), node("b", gpus=1, cpu="8"), running("x", on="b", gpu=0, memory=8000, cores=100)
    )
    assert place(cluster, pod("p", cpu="6"), usual(cpu=4), usual(cpu=4, gpus=0)).node == "b"


def test_the_record_says_what_usual_pods_lose_and_what_places_cost() -> None:
    cluster = scenario(node("a", gpus=4), node("b", gpus=2))
    decision = place(cluster, pod("p", 1, cores=100, cpu="1"), usual(), usual(gpus=4, popularity=0.25))
    assert decision.node == "b"
    parts = decision.scores["b"]
    assert set(parts) == {"total", "expectedfill/fill", "expectedfill/places"}
    assert -100 <= parts["expectedfill/fill"] < -80
    assert parts["expectedfill/places"] < 0
    (note,) = decision.record().notes
    assert note == (
        "typical pods can fill 0.98 cards less of this node; "
        "takes 1 of 6 places for 1 card and 1 CPUs (about 6 such pods expected)"
    )


def test_without_typical_pods_pods_are_placed_all_the_same() -> None:
    cluster = scenario(node("a", gpus=1))
    assert place(cluster, pod("p", 1)).node == "a"
    assert place(scenario(node("b")), pod("q", cpu="1"), usual()).node == "b"


def test_what_is_known_of_a_cluster_outlives_a_session() -> None:
    cluster, plugin = scenario(node("a", gpus=1)), ExpectedFill(ExpectedFill.Arguments(workload=(usual(),)))
    seen = []
    for number in range(2):
        with Session(cluster, [plugin]) as opened:
            opened.decide(make_task(pod(f"p{number}", 1), cluster.vendors))
            seen.append(plugin._values)
    assert seen[0] is seen[1]
    with Session(other := scenario(node("b", gpus=1)), [plugin]) as opened:
        opened.decide(make_task(pod("p", 1), other.vendors))
        assert plugin._values is not seen[0]


# -- against the definition


def values_of(cluster: Cluster, workload: TypicalPods) -> NodeValues:
    values = NodeValues(cluster, workload)
    values.update()
    return values


def test_the_fill_of_a_card_by_hand() -> None:
    """Halves only: a whole card takes 0.5 / (1 + ε), then the same again with that chance."""
    values = values_of(scenario(node("a", gpus=1, cpu="1000")), workload_of([usual(cpu=1, share=0.5)]))
    first = 0.5 / 1.02
    assert values.now.fill[0] == pytest.approx(first + first / 1.02, rel=1e-6)


def test_places_by_hand() -> None:
    """Eight free cards and 20 CPUs: 2 places of 8 CPUs and 2 cards, although 4 pairs of cards are free."""
    room = slow_room(SlowNode([WHOLE] * 8, ["T4"] * 8, 20_000), kind_of(8000, 2, 1.0))
    assert room == 2
    values = values_of(
        scenario(node("a", gpus=8, cpu="20"), node("b", gpus=1)), workload_of([usual(cpu=8, gpus=2), usual(share=0.5)])
    )
    assert [(kind.kind.gpus, kind.places) for kind in values.places.kinds] == [(2, 2)]


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(KINDS, st.integers(1, 50)), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(["place", "place", "remove", "grow"]), TASKS), max_size=12),
)
def test_what_is_kept_up_to_date_is_what_the_definition_says(
    kinds: list[tuple[tuple[int, int, int, tuple[str, ...]], int]],
    steps: list[tuple[str, tuple[int, int, int, int]]],
) -> None:
    cluster, placed = world(), list[str]()
    learned = typical(dict(kinds), 1.0)  # type: ignore[arg-type]
    kept = values_of(cluster, learned)
    with Session(cluster, [plugin_class(name)() for name in ALWAYS]) as opened:  # type: ignore[misc]
        for number, (step, (gpus, memory, cores, cpu)) in enumerate(steps):
            if step == "remove" and placed:
                opened.unplace(placed.pop(cpu % len(placed)))
            elif step == "grow":
                cluster.upsert_node(node(f"new{number}", gpus=gpus, cpu=str(cpu)))
            else:
                wanted = pod(
                    f"p{number}", gpus or None, memory=memory if gpus else None, cores=cores or None, cpu=str(cpu)
                )
                if opened.place(make_task(wanted, cluster.vendors)).node is not None:
                    placed.append(wanted.key)
            kept.update()
            nodes = slow_nodes(cluster)
            # The worth of places is refreshed now and then only; in between it is what was last weighed.
            worths = {kind.kind: kind.worth if kind.worth > 1e-3 else 0.0 for kind in kept.places.kinds}
            for name, slow in nodes.items():
                row = cluster.nodes[name].row
                assert kept.now.fill[row] == pytest.approx(slow_fill(slow, learned), abs=1e-9)
                assert kept.now.places[row] == pytest.approx(slow_places(slow, worths), abs=1e-9)
            fresh = values_of(cluster, learned)
            expected = slow_worths(list(nodes.values()), learned) if any(slow.free for slow in nodes.values()) else {}
            for kind in fresh.places.kinds:
                assert (kind.worth if kind.worth > 1e-3 else 0.0) == pytest.approx(expected[kind.kind], abs=1e-9)


def test_a_score_is_the_change_of_the_value() -> None:
    cluster = scenario(
        node("a", gpus=2, cpu="16"), node("b", gpus=4, cpu="16"), running("x", on="b", gpu=1, memory=3000)
    )
    pods = [usual(cpu=2, share=0.25, popularity=3), usual(cpu=4), usual(cpu=8, gpus=2)]
    workload, before = workload_of(pods), slow_nodes(cluster)
    worths = slow_worths(list(before.values()), workload)
    decision = place(cluster, pod("p", 1, memory=2000, cpu="2"), *pods)
    after = slow_nodes(cluster)[decision.node]
    was = before[decision.node]
    change = (
        slow_fill(after, workload) + slow_places(after, worths) - slow_fill(was, workload) - slow_places(was, worths)
    )
    assert decision.scores[decision.node]["total"] == pytest.approx(100 * change, abs=2e-4)

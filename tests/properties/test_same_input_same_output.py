"""The order in which a cluster is told of its nodes and pods makes no difference, nor does its history."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.comparing import COLUMNS, assert_same, engine_of, snapshot
from tests.properties.outcomes import VENDORS, told
from tests.properties.worlds import NODES, POLICIES, examples, nodes, phases, pods, running_pods
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.model.pod import Pod


def answers(cluster: Cluster, policies: dict[str, str], wanted: list[Pod]) -> list[object]:
    session = engine_of(cluster, policies)
    return [session.decide(make_task(pod, VENDORS)).record() for pod in wanted]


@settings(max_examples=examples(60), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=4, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=6, unique_by=lambda pod: pod.key),
    st.lists(pods("probe"), min_size=1, max_size=4),
    POLICIES,
    st.randoms(use_true_random=False),
)
def test_the_order_of_events_makes_no_difference(found, held, wanted, policies, chance):
    objects = [*found, *held]
    expected = told(objects)
    shuffled = list(objects)
    chance.shuffle(shuffled)
    other = told(shuffled)
    assert answers(other, policies, wanted) == answers(expected, policies, wanted)
    assert sorted(map(str, other.problems())) == sorted(map(str, expected.problems()))
    for state in expected.states:
        twin = other.nodes[state.name]
        for name in COLUMNS:
            if name not in ("amounts", "allocatable", "model", "taints"):
                mine, theirs = getattr(expected.columns, name), getattr(other.columns, name)
                assert mine[..., state.row].tolist() == theirs[..., twin.row].tolist(), name
        for resource, position in expected.columns.resources.items():
            there = other.columns.resources[resource]
            mine, theirs = expected.columns.amounts[:, position, state.row], other.columns.amounts[:, there, twin.row]
            assert mine.tolist() == theirs.tolist(), resource


@settings(max_examples=examples(60), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=3, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=4, unique_by=lambda pod: pod.key),
    st.lists(st.one_of(nodes(), running_pods()), max_size=4),
    st.lists(pods("probe"), min_size=1, max_size=4),
    POLICIES,
)
def test_what_came_and_went_leaves_no_trace(found, held, passing, wanted, policies):
    known = {node.name for node in found}
    taken = {pod.key for pod in held}
    plain = told([*found, *held])
    cluster = told([*passing, *found, *held])
    session = engine_of(cluster, policies)
    for pod in wanted:
        session.decide(make_task(pod, VENDORS))
    for thing in passing:
        if isinstance(thing, Pod) and thing.key not in taken:
            cluster.remove_pod(thing.key)
    for name in NODES:
        if name not in known:
            cluster.remove_node(name)
    fresh = answers(plain, policies, wanted)
    assert answers(cluster, policies, wanted) == fresh
    assert [session.decide(make_task(pod, VENDORS)).record() for pod in wanted] == fresh


@settings(max_examples=examples(60), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=4),
    st.lists(running_pods(), max_size=4),
    st.lists(pods(), min_size=1, max_size=6),
    POLICIES,
)
def test_releasing_in_any_order_restores_everything(found, held, wanted, policies):
    cluster = told([*found, *held])
    wanted = [pod for pod in wanted if pod.key not in cluster.holders]
    before = snapshot(cluster)
    session = engine_of(cluster, policies)
    placed = [pod.key for pod in wanted if session.place(make_task(pod, VENDORS)).node is not None]
    for key in sorted(placed):
        session.unplace(key)
    assert_same(before, snapshot(cluster))
    assert not cluster.reserved

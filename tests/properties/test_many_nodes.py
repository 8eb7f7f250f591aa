"""More nodes than a decision shows: the ranking stays the reference's while pods come and go under a warm session."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.comparing import assert_same_answer, engine_of
from tests.properties.worlds import POLICIES, PROFILES, examples
from tests.reference import ObjectScheduler
from tests.scenario import container, gpu, node, pod
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.model.node import Node
from tonnage.model.pod import Pod

VENDORS = default_vendors()
NAMES = tuple(vendor.name for vendor in VENDORS)

KINDS = [
    {"gpus": 1},
    {"gpus": 4, "numas": [0, 0, 1, 1]},
    {"gpus": 2, "gpu_memory": 4000, "slots": 2},
    {"gpus": 2, "unschedulable": True},
    {"gpus": 0},
    {"gpus": 1, "mig": True},
]
SHAPES = [
    {"gpus": 1, "memory": 1000},
    {"gpus": 1, "memory": 4000, "cores": 50},
    {"gpus": 2, "memory": 2000},
    {"gpus": 1},
    {"gpus": 2, "memory": 1000, "annotations": {"nvidia.com/numa-bind": "true"}},
    {"gpus": 9, "memory": 1000},
    {"gpus": None, "cpu": 1},
    {"containers": [container("one", gpus=1, memory=3000), container("two", gpus=1, memory=3000, cores=60)]},
]


def made(number: int, kind: int) -> Node:
    about = dict(KINDS[kind])
    if about.pop("mig", False):
        about["gpus"] = [gpu(f"m{number}", count=7, mode="mig", migProfiles=PROFILES)]
    return node(f"n{number:03}", **about)


def wanted(name: str, shape: int) -> Pod:
    about = dict(SHAPES[shape])
    return pod(name, about.pop("gpus", None), **about)


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(0, len(KINDS) - 1), min_size=10, max_size=90),
    st.lists(st.tuples(st.integers(0, len(SHAPES) - 1), st.sampled_from("pppppprn")), min_size=5, max_size=40),
    POLICIES,
)
def test_the_ranking_stays_true_while_pods_come_and_go(kinds, steps, policies):
    cluster = Cluster(VENDORS)
    reference = ObjectScheduler(**policies, vendors=VENDORS, thorough=True)
    for number, kind in enumerate(kinds):
        cluster.upsert_node(made(number, kind))
        reference.add_node(made(number, kind))
    session = engine_of(cluster, policies)
    placed: list[str] = []
    for number, (shape, action) in enumerate(steps):
        if action == "r" and placed:
            key = placed.pop(shape % len(placed))
            session.unplace(key)
            reference.remove_pod(key)
        elif action == "n":
            changed = made(number % len(kinds), shape % len(KINDS))
            cluster.upsert_node(changed)
            reference.add_node(changed)
        else:
            one = wanted(f"p{number}", shape)
            decision, answer = session.place(make_task(one, VENDORS)), reference.place(one)
            assert_same_answer(decision, answer, NAMES)
            if decision.node is not None:
                placed.append(one.key)


def test_the_reference_need_not_be_thorough_to_be_right():
    """The benchmark compares with a reference that picks cards only where that can matter."""
    worlds = [[made(number, (number * 7 + seed) % len(KINDS)) for number in range(12)] for seed in range(6)]
    for nodes in worlds:
        thorough, quick = ObjectScheduler(thorough=True), ObjectScheduler()
        for one in nodes:
            thorough.add_node(one)
            quick.add_node(one)
        for number in range(40):
            one = wanted(f"p{number}", number * 5 % len(SHAPES))
            assert quick.place(one) == thorough.place(one)
        used = [[(c.slots, c.memory, c.cores) for c in host.cards] for host in quick.hosts.values()]
        quick.recount()
        assert used == [[(c.slots, c.memory, c.cores) for c in host.cards] for host in quick.hosts.values()]


COUNTED = [0, 1, 2, 3, 5, 6]
"""Shapes whose fitting cards are only counted, so that a session has looked at no node more closely than another."""


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=40),
    st.lists(st.tuples(st.sampled_from(COUNTED), st.sampled_from("pppppprrn")), min_size=10, max_size=60),
    POLICIES,
)
def test_what_a_session_kept_says_the_same_as_a_new_session(kinds, steps, policies):
    cluster = Cluster(VENDORS)
    for number, kind in enumerate(kinds):
        cluster.upsert_node(made(number, kind))
    session = engine_of(cluster, policies)
    placed: list[str] = []
    for number, (shape, action) in enumerate(steps):
        if action == "r" and placed:
            session.unplace(placed.pop(shape % len(placed)))
        elif action == "n":
            cluster.upsert_node(made(number % len(kinds), shape % 5))
        else:
            task = make_task(wanted(f"p{number}", shape), VENDORS)
            expected = engine_of(cluster, policies).decide(task).record()
            decision = session.place(task)
            assert decision.record() == expected
            if decision.node is not None:
                placed.append(task.key)

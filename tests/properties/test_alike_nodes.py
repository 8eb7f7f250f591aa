"""Nodes that look alike: what a session has learnt from one of them says the same about another as asking anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.texts import KAI_DEFAULT
from tests.properties.worlds import examples, phases
from tests.scenario import node, plain, pod
from tonnage.cluster.closures.refusals import Refusal
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task, make_task
from tonnage.config.load import load_text
from tonnage.devices.base import DeviceRequest
from tonnage.devices.catalog import default_vendors
from tonnage.framework.classes import PodClass
from tonnage.framework.decision import Reason
from tonnage.framework.pernode import NodeView
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.selection import Taint
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.binpack import Binpack
from tonnage.plugins.scoring.nodeorder import NodeOrder
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit

VENDORS = default_vendors()
CONFIGURATIONS = {
    "HAMi": default_plugins,
    "KAI": lambda: load_text(KAI_DEFAULT, "KAI").plugins,
    "all scores": lambda: [*default_plugins(), Binpack(), NodeResourcesFit(), NodeOrder()],
}
KINDS = [
    {"gpus": 4},
    {"gpus": 4, "labels": {"pool": "b"}},
    {"gpus": 4, "taints": [Taint("busy", "", "NoSchedule")]},
    {"gpus": 4, "taints": [Taint("rather", "", "PreferNoSchedule")]},
    {"gpus": 4, "labels": {"node-role.kubernetes.io/mig-enabled": "true", "nvidia.com/mig.strategy": "mixed"}},
    {"plain": 4},
    {"gpus": 0},
]
SHAPES = [
    {"gpus": 1},
    {"gpus": 1, "memory": 2000, "cores": 20},
    {"gpus": 2, "memory": 4000},
    {"gpus": 1, "selector": {"pool": "b"}},
    {"gpus": 1, "memory": 1000, "annotations": {"nvidia.com/use-gpuuuid": "n01/0,n02/1"}},
    {"gpus": None, "cpu": 2},
]
RUNS = st.lists(
    st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(1, 5), st.sampled_from("pppppuunlfrcx")),
    min_size=2,
    max_size=12,
)


def made(number: int, kind: int) -> Node:
    about = dict(KINDS[kind])
    if "plain" in about:
        return plain(f"n{number:02}", about["plain"])
    return node(f"n{number:02}", **about)


def wanted(name: str, shape: int) -> Task:
    about = dict(SHAPES[shape])
    return make_task(pod(name, about.pop("gpus"), **about), VENDORS)


class World:
    """A cluster under a session that stays open, and what may happen to it between two runs of equal pods."""

    def __init__(self, kinds: list[int], plugins: list[Plugin]) -> None:
        self.cluster = Cluster(VENDORS)
        self.kinds = kinds
        for number, kind in enumerate(kinds):
            self.cluster.upsert_node(made(number, kind))
        self.session = Session(self.cluster, plugins)
        self.placed: list[Task] = []

    def name(self, number: int) -> str:
        return f"n{number % len(self.kinds):02}"

    def happens(self, what: str, number: int, shape: int) -> None:
        """One event: a placement undone, a changed node, a pod that leaves, unnamed cards, refusals, busy plugins."""
        cluster = self.cluster
        if what == "u" and self.placed:
            self.session.unplace(self.placed.pop(number % len(self.placed)).key)
        elif what == "n":
            cluster.upsert_node(made(number % len(self.kinds), shape % len(KINDS)))
        elif what == "l" and self.placed:
            key = self.placed.pop(number % len(self.placed)).key
            cluster.confirm(key)
            self.session.evict(cluster.running[key])
        elif what == "f":
            cluster.upsert_pod(pod(f"foreign-{number}", 1, on=self.name(number)))
        elif what == "r":
            cluster.refusals.add(self.name(number), wanted("w", shape).requests, Refusal("default/w", "OutOfcpu"))
        elif what == "c":
            cluster.device_plugins.update({self.name(number)} if shape % 2 else set())
        elif what == "x":
            for key in [*cluster.leaving, *(key for key in cluster.running if "foreign" in key)]:
                cluster.remove_pod(key)
            for state in cluster.states:
                cluster.refusals.clear(state.name)
            cluster.device_plugins.update(set())


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@settings(max_examples=examples(12), deadline=None, phases=phases())
@given(st.lists(st.sampled_from([0, 0, 0, *range(len(KINDS))]), min_size=3, max_size=12), RUNS)
def test_runs_of_equal_pods_get_the_decisions_of_a_new_session(configuration, kinds, runs):
    plugins = CONFIGURATIONS[configuration]
    world = World(kinds, plugins())
    for number, (shape, length, what) in enumerate(runs):
        world.happens(what, number, shape)
        for member in range(length):
            task = wanted(f"p{number}-{member}", shape)
            with Session(world.cluster, plugins()) as anew:
                expected = anew.decide(task).record()
            decision = world.session.place(task)
            assert decision.record() == expected
            if decision.node is not None:
                world.placed.append(task)
    world.session.close()


class KeepsOff(Plugin):
    """A user's plugin: some nodes are not what they look like."""

    name = "keeps-off"

    def __init__(self, by_cards: bool) -> None:
        super().__init__()
        self._by_cards = by_cards

    def on_session_open(self, session: Session) -> None:
        self._cluster = session.cluster
        if self._by_cards:
            session.add_card_predicate(self.reject, key=lambda task: ())
        else:
            session.add_predicate(self.keep_off, key=lambda task: ())

    def keep_off(self, task: Task, job: Job, node: NodeView) -> Reason | None:
        return Reason("KeptOff", "for somebody else") if node.name == "n03" else None

    def reject(self, task: Task, request: DeviceRequest, cards: Cards) -> Array:
        kept_off = cards.nodes.pick(self._cluster.mask(["n03"]))
        return np.broadcast_to(kept_off, cards.free.shape[1:])


@pytest.mark.parametrize("by_cards", [False, True])
def test_a_plugin_that_promises_nothing_is_asked_about_every_node(by_cards):
    world = World([0] * 6, [*default_plugins(), KeepsOff(by_cards)])
    nodes = [world.session.place(wanted(f"p{number}", 0)).node for number in range(21)]
    assert set(nodes) == {"n00", "n01", "n02", "n04", "n05", None}
    world.session.close()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_run_of_equal_pods_asks_about_each_look_once(configuration, monkeypatch):
    """Ten nodes of four cards go through the same four states: the plugins are asked about each of them once."""
    asked: list[int] = []
    ask = PodClass._ask_about_one

    def counting(self, task, nodes):
        asked.append(nodes.rows.start)
        return ask(self, task, nodes)

    monkeypatch.setattr(PodClass, "_ask_about_one", counting)
    world = World([0] * 10, CONFIGURATIONS[configuration]())
    for number in range(39):
        assert world.session.place(wanted(f"p{number}", 0)).node is not None
    assert len(asked) == 4
    world.session.close()

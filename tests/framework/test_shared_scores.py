"""Pods that differ only in where they fit share their scores, which are those of a new session whatever changed."""

import pytest

from tests.plugins.scoring.resource_scores import host, wants
from tests.scenario import node, pod, running, scenario
from tonnage.cluster.columns import FEW, Columns
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.scoring.binpack import Binpack
from tonnage.plugins.scoring.nodeorder import NodeOrder
from tonnage.plugins.scoring.noderesourcesfit import NodeResourcesFit


def every_scorer():
    return [*default_plugins(), Binpack(), NodeResourcesFit(), NodeOrder()]


@pytest.mark.parametrize("changed", [1, FEW, FEW + 1, 20])
def test_after_some_nodes_changed_scores_are_those_of_a_new_session(changed):
    cluster = scenario(*(host(f"n{i:02}", cpu=8000 + i, memory=10**6, pods=9) for i in range(20)))
    task = make_task(wants("p", {"cpu": 700, "memory": 1000}), cluster.vendors)
    with Session(cluster, every_scorer()) as warm:
        warm.decide(task)
        for i in range(changed):
            cluster.upsert_pod(wants(f"x{i}", {"cpu": 300 * (i + 1), "memory": 70000}, {}, on=f"n{i:02}"))
        with Session(cluster, every_scorer()) as cold:
            assert warm.decide(task).record() == cold.decide(task).record()


def test_pods_that_differ_only_in_where_they_fit_are_scored_together():
    asked = []

    class Counting(Binpack):
        def _score(self, task, nodes):
            asked.append(len(nodes))
            return super()._score(task, nodes)

    cluster = scenario(node("a", gpus=2, labels={"zone": "1"}), node("b", gpus=2), node("c", gpus=2))
    with Session(cluster, [*default_plugins(), Counting()]) as session:
        first = session.place(make_task(pod("p", 1, cpu=2, memory=1000), cluster.vendors))
        second = session.place(make_task(pod("q", 1, cpu=2, memory=2000, selector={"zone": "1"}), cluster.vendors))
        third = session.decide(make_task(pod("r", 1, cpu=2, memory=3000), cluster.vendors))
        other = session.decide(make_task(pod("s", 1, cpu=3, memory=3000), cluster.vendors))
    assert asked == [3, 1, 1, 3]
    assert (first.node, second.node, third.node, other.node) == ("a", "a", "a", "a")
    assert set(second.scores) == {"a"}
    assert set(third.scores) == {"a", "b", "c"}
    assert third.scores["a"]["binpack"] == pytest.approx(100 * 6 / 64)


def test_nodes_that_will_not_do_are_scored_when_they_do():
    """Two full nodes: nobody asks how good they are, until somebody leaves one of them."""
    asked = []

    class Counting(Binpack):
        def _score(self, task, nodes):
            asked.append(len(nodes))
            return super()._score(task, nodes)

    full = [running(f"on-{name}", on=name, gpu=0, memory=8000) for name in ("a", "b")]
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), *full)
    task = make_task(pod("p", 1, cpu=2), cluster.vendors)
    with Session(cluster, [*default_plugins(), Counting()]) as session:
        assert session.decide(task).node is None
        assert not session.may_fit(task)
        cluster.upsert_pod(pod("small", cpu=1, on="a"))
        assert session.decide(task).node is None
        assert asked == []
        cluster.remove_pod("default/on-b")
        assert session.may_fit(task)
        decision = session.decide(task)
        with Session(cluster, [*default_plugins(), Binpack()]) as cold:
            assert decision.record() == cold.decide(task).record()
    assert decision.node == "b"
    assert asked == [2]


def test_rows_that_changed_are_known_however_long_ago():
    columns = Columns(1)
    for _ in range(3):
        columns.append()
    columns.settle(["a", "b", "c"])
    start = columns.clock
    columns.touch(2)
    columns.touch(0)
    assert columns.changed_since(start).tolist() == [0, 2]
    assert columns.changed_since(start + 1).tolist() == [0]
    for _ in range(3000):
        columns.touch(1)
    assert columns.changed_since(start).tolist() == [0, 1, 2]
    assert columns.changed_since(start + 2).tolist() == [1]
    assert columns.changed_since(columns.clock - 1).tolist() == [1]

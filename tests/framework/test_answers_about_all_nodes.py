"""Answers that depend on more than a pod's class and a node's row: scores fitted to each other, and fresh functions."""

import numpy as np
import pytest

from tests.scenario import node, pod, reasons, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


def four():
    return scenario(*(node(name, gpus=1) for name in "abcd"))


def decide(session, name="p", **wants):
    return session.decide(make_task(pod(name, 1, **wants), session.cluster.vendors))


def place(session, name="p", **wants):
    return session.place(make_task(pod(name, 1, **wants), session.cluster.vendors))


class Normalised(Plugin):
    """Scores nodes by their pods, fitted so that the best fitting node gets 100."""

    name = "normalised"

    def on_session_open(self, session):
        self.cluster, self.asked, self.fits = session.cluster, 0, []
        session.add_batch_node_order(self.score, key=lambda task: None, reduce=self.reduce)

    def score(self, task, nodes):
        self.asked += len(nodes)
        return nodes.pick(np.array([float(len(state.holdings)) for state in self.cluster.states]))

    def reduce(self, task, scores, fits):
        self.fits.append(fits.tolist())
        best = scores[fits].max(initial=0.0)
        return scores * 100 / best if best else scores


def test_scores_are_fitted_to_each_other_after_all_nodes_are_known():
    cluster = four()
    plugin = Normalised()
    with Session(cluster, [*default_plugins(), plugin]) as session:
        for name in "pqr":
            assert place(session, name, memory=1000).node == "a"
        assert place(session, "s", memory=8000).node == "b"
        decision = decide(session, "t", memory=1000)
        assert decision.scores["a"]["normalised"] == 100
        assert decision.node == "a"
        whole = decide(session, "u", memory=8000)
        assert (whole.node, plugin.fits[-1]) == ("c", [False, False, True, True])


def test_only_changed_rows_are_scored_again_and_all_are_fitted():
    cluster, plugin = four(), Normalised()
    with Session(cluster, [*default_plugins(), plugin]) as session:
        place(session, "p", memory=1000)
        decide(session, "q", memory=1000)
        decide(session, "r", memory=1000)
        assert plugin.asked == 4 + 1
        assert len(plugin.fits) == 2


class Apart(Plugin):
    """Keeps pods away from nodes beside one that has a pod: the answer about a node depends on others."""

    name = "apart"

    def on_session_open(self, session):
        self.cluster, self.asked = session.cluster, 0
        session.add_batch_predicate(self.look, key=lambda task: None, reasons=("TooNear",), detail=self.say, fresh=True)

    def look(self, task, nodes):
        self.asked += 1
        used = np.array([bool(state.holdings) for state in self.cluster.states])
        if not used.any():
            return None
        near = used.copy()
        near[1:] |= used[:-1]
        near[:-1] |= used[1:]
        return near.astype(np.uint8)

    def say(self, task, row, code, remembered):
        return lambda: f"{self.cluster.states[row].name} is near another pod"


def test_a_fresh_predicate_is_asked_about_all_nodes_when_anything_changed():
    cluster, plugin = four(), Apart()
    with Session(cluster, [*default_plugins(), plugin]) as session:
        assert place(session, "p", memory=10).node == "a"
        decision = place(session, "q", memory=10)
        assert decision.node == "c"
        assert reasons(decision) == {"TooNear": 2}
        decision = decide(session, "r", memory=10)
        assert decision.node is None
        assert reasons(decision) == {"TooNear": 4}
        assert decision.rejected[0].message == "a is near another pod"
        assert plugin.asked == 3
        decide(session, "s", memory=10)
        assert plugin.asked == 3
        session.unplace("default/q")
        assert decide(session, "r", memory=10).node == "c"


def test_what_was_said_before_counts_more_than_a_fresh_no():
    cluster, plugin = four(), Apart()
    with Session(cluster, [*default_plugins(), plugin]) as session:
        place(session, "p", memory=10)
        decision = decide(session, "q", memory=8000)
        assert reasons(decision) == {"CardInsufficientMemory": 1, "TooNear": 1}


@pytest.mark.parametrize(
    "reduce", [lambda t, s, f: 1 / 0, lambda t, s, f: s[:1], lambda t, s, f: s * np.nan, lambda t, s, f: None]
)
def test_fitting_that_fails_counts_nothing_and_is_named(reduce):
    class Broken(Plugin):
        name = "broken"

        def on_session_open(self, session):
            session.add_batch_node_order(lambda task, nodes: np.ones(len(nodes)), key=lambda task: None, reduce=reduce)

    with np.errstate(all="ignore"), Session(four(), [*default_plugins(), Broken()]) as session:
        assert decide(session).scores["a"]["broken"] == 0
        assert [problem.object for problem in session.problems()] == ["Plugin/broken"]

"""The session: how plugins' answers join, and what they are told."""

import numpy as np
import pytest

from tests.scenario import node, pod, reasons, running, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session, SessionError
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.gpus.devices import Devices
from tonnage.plugins.scoring.nodepolicy import NodePolicy


class Favourite(Plugin):
    """Likes one node, dislikes another, and remembers what it is told."""

    name = "favourite"

    def __init__(self, liked="", disliked="", bonus=5.0):
        self.liked, self.disliked, self.bonus = liked, disliked, bonus
        self.asked = 0
        self.told = []

    def on_session_open(self, session):
        self.cluster = session.cluster
        session.add_pre_predicate(self.look)
        session.add_batch_predicate(self.refuse, key=lambda task: None, reasons=("Disliked",), detail=self.say)
        session.add_batch_node_order(self.score, key=lambda task: None)
        session.add_event_handler(lambda task: self.told.append(("+", task.key)), self.forget)

    def on_session_close(self, session):
        self.told.append("closed")

    def forget(self, task):
        self.told.append(("-", task.key))

    def look(self, task, job):
        return Reason("Unwelcome", f"{task.key} is not welcome") if task.pod.metadata.name == "unwelcome" else None

    def names(self, nodes):
        return nodes.pick(np.array([state.name for state in self.cluster.states]))

    def refuse(self, task, nodes):
        self.asked += len(nodes)
        return (self.names(nodes) == self.disliked).astype(np.uint8)

    def say(self, task, row, code, remembered):
        name = self.cluster.states[row].name
        return lambda: f"{name} is disliked"

    def score(self, task, nodes):
        return np.where(self.names(nodes) == self.liked, self.bonus, 0.0)


def three(*more):
    return scenario(*[node(name, gpus=1) for name in "abc"], *more)


def task(cluster, wanted):
    return make_task(wanted, cluster.vendors)


def test_scores_add_up_and_are_kept_per_plugin():
    cluster = three(running("x", on="a", memory=2000))
    decision = Session(cluster, [*default_plugins(), Favourite("c")]).decide(task(cluster, pod("p", 1, memory=10)))
    assert decision.scores == {
        "c": {"total": 5.0, "nodepolicy": 0.0, "favourite": 5.0},
        "a": {"total": 3.5, "nodepolicy": 3.5, "favourite": 0.0},
        "b": {"total": 0.0, "nodepolicy": 0.0, "favourite": 0.0},
    }


def test_every_predicate_must_agree_and_the_first_that_objects_is_the_reason():
    cluster = three(running("x", on="a", memory=8000), running("y", on="b", memory=8000))
    request = task(cluster, pod("p", 1))
    first = Session(cluster, [Favourite(disliked="a"), *default_plugins()]).decide(request)
    assert reasons(first) == {"Disliked": 1, "CardInsufficientMemory": 1}
    assert [r.message for r in first.rejected if r.reason == "Disliked"] == ["a is disliked"]
    last = Session(cluster, [*default_plugins(), Favourite(disliked="a")]).decide(request)
    assert reasons(last) == {"CardInsufficientMemory": 2}
    assert first.node == last.node == "c"


def test_a_pre_predicate_speaks_for_all_nodes():
    cluster = three()
    decision = Session(cluster, [*default_plugins(), Favourite()]).decide(task(cluster, pod("unwelcome", 1)))
    assert reasons(decision) == {"Unwelcome": 3}
    assert decision.rejected[0].message == "default/unwelcome is not welcome"


def test_only_rows_that_changed_are_asked_about_again():
    cluster = three()
    plugin = Favourite()
    session = Session(cluster, [*default_plugins(), plugin])
    session.decide(task(cluster, pod("p", 1, memory=10)))
    session.decide(task(cluster, pod("q", 1, memory=10)))
    assert plugin.asked == 3
    session.place(task(cluster, pod("r", 1, memory=10)))
    session.decide(task(cluster, pod("s", 1, memory=10)))
    assert plugin.asked == 4


def test_plugins_are_told_of_placements_and_closed_last_opened_first():
    cluster = three()
    one, two = Favourite(), Favourite()
    with Session(cluster, [*default_plugins(), one, two]) as session:
        session.place(task(cluster, pod("p", 1)))
        session.place(task(cluster, pod("q", 9)))
        session.unplace("default/p")
        session.unplace("default/p")
        two.told = one.told
    assert one.told == [("+", "default/p"), ("-", "default/p"), "closed", "closed"]


def test_deciding_reserves_nothing():
    cluster = three()
    plugin = Favourite()
    session = Session(cluster, [*default_plugins(), plugin])
    assert session.decide(task(cluster, pod("p", 1))).node == "a"
    assert session.decide(task(cluster, pod("q", 1))).node == "a"
    assert not cluster.reserved
    assert not plugin.told


def test_two_plugins_cannot_both_hand_out_cards():
    with pytest.raises(SessionError, match="both want to assign devices"):
        Session(three(), [Devices(), Devices()])


def test_without_a_plugin_that_knows_cards_pods_go_by_nodes_only():
    cluster = three()
    decision = Session(cluster, [NodePolicy()]).decide(task(cluster, pod("p", 99)))
    assert decision.node == "a"
    assert decision.devices == []


class Given(Plugin):
    """Gives nodes the scores it was told."""

    name = "given"

    def __init__(self, scores):
        self.scores = scores

    def on_session_open(self, session):
        session.add_node_order(lambda task, node: self.scores[node.name])


@pytest.mark.parametrize(
    ("scores", "best"),
    [({"n1": 1.0, "n2": 1.0, "n3": 2.0, "n4": 2.0}, "n3"), ({"n1": -10.0, "n2": -8.0, "n3": -5.0}, "n3")],
)
def test_volcano_41_the_highest_score_wins_also_below_zero_and_of_equals_the_first(scores, best):
    cluster = scenario(*(node(name) for name in scores))
    with Session(cluster, [*(one for one in default_plugins() if one.name != "nodepolicy"), Given(scores)]) as session:
        assert session.decide(make_task(pod("p"), cluster.vendors)).node == best

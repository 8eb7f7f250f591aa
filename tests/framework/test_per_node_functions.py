"""Plugins of ten lines: functions about one node, and what happens when they go wrong."""

import numpy as np
import pytest

from tests.scenario import container, node, pod, reasons, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.session import Session, SessionError
from tonnage.plugins.defaults import default_plugins


class SpotInstances(Plugin):
    """Keeps pods that must not be interrupted off spot nodes, and leaves spot nodes for last."""

    name = "spot-instance-manager"

    class Arguments(PluginArguments):
        label: str = "instance-type"
        value: str = "spot"
        bonus: float = 1000.0

    def on_session_open(self, session):
        self.asked = []
        session.add_predicate(self.keep_off)
        session.add_node_order(self.prefer_others)

    def keep_off(self, task, job, node):
        self.asked.append(node.name)
        if task.priority >= 100 and node.labels.get(self.args.label) == self.args.value:
            return Reason("SpotInstance", f"{task.key} must not be interrupted and {node.name} is a spot instance")
        return None

    def prefer_others(self, task, node):
        return 0.0 if node.labels.get(self.args.label) == self.args.value else self.args.bonus


def spot_cluster():
    return scenario(
        node("a", gpus=1, labels={"instance-type": "spot"}),
        node("b", gpus=1, labels={"instance-type": "spot"}),
        node("c", gpus=1),
    )


def decide(cluster, wanted, plugin):
    session = Session(cluster, [*default_plugins(), plugin])
    return session.decide(make_task(wanted, cluster.vendors)), session


def test_a_score_about_one_node_orders_nodes():
    decision, _ = decide(spot_cluster(), pod("p", 1, memory=10), SpotInstances())
    assert decision.node == "c"
    assert decision.scores["c"] == {"total": 1000.0, "nodepolicy": 0.0, "spot-instance-manager": 1000.0}


def test_a_predicate_about_one_node_gives_its_own_reason():
    cluster = spot_cluster()
    decision, _ = decide(
        cluster, pod("p", 1, memory=10, priority=100, selector={"instance-type": "spot"}), SpotInstances()
    )
    assert reasons(decision) == {"SpotInstance": 2, "NodeAffinityMismatch": 1}
    (rejection,) = [r for r in decision.rejected if r.reason == "SpotInstance"]
    assert (rejection.plugin, rejection.example) == ("spot-instance-manager", "a")
    assert rejection.message == "default/p must not be interrupted and a is a spot instance"


def test_arguments_change_what_it_does():
    plugin = SpotInstances(SpotInstances.Arguments(value="on-demand"))
    decision, _ = decide(spot_cluster(), pod("p", 1, memory=10, priority=100), plugin)
    assert decision.node == "a"


def test_a_node_is_asked_about_once_per_class_and_again_only_when_it_changes():
    cluster, plugin = spot_cluster(), SpotInstances()
    session = Session(cluster, [*default_plugins(), plugin])
    for name in ("p", "q", "r"):
        session.decide(make_task(pod(name, 1, memory=10), cluster.vendors))
    assert plugin.asked == ["a", "b", "c"]
    session.place(make_task(pod("s", 1, memory=10), cluster.vendors))
    session.decide(make_task(pod("t", 1, memory=10), cluster.vendors))
    assert plugin.asked == ["a", "b", "c", "c"]
    session.decide(make_task(pod("u", 1, memory=20), cluster.vendors))
    assert plugin.asked == ["a", "b", "c", "c", "a", "b", "c"]


def test_pods_that_differ_in_a_label_are_told_apart_unless_the_function_names_its_key():
    class ByTeam(Plugin):
        name = "by-team"

        def on_session_open(self, session):
            session.add_node_order(lambda task, node: float(node.name == task.annotations.get("team", "")))

    for team in ("b", "c"):
        decision, _ = decide(spot_cluster(), pod("p", 1, memory=10, annotations={"team": team}), ByTeam())
        assert decision.node == team


def test_a_view_of_a_node_tells_what_is_there_and_what_is_left():
    seen = {}

    class Look(Plugin):
        name = "look"

        def on_session_open(self, session):
            session.add_predicate(self.look)

        def look(self, task, job, node):
            seen[node.name] = (node.allocatable("cpu"), node.free("cpu"), node.free("x.io/y"), node.pods, node.taints)

    cluster = scenario(node("a", gpus=1, cpu="4"), pod("x", on="a", cpu="1500m"))
    decide(cluster, pod("p", cpu="1"), Look())
    assert seen == {"a": (4000, 2500, 0, ["default/x"], [])}


class Broken(Plugin):
    """Registers one callback that goes wrong."""

    name = "broken"

    def __init__(self, point, function):
        super().__init__()
        self.point, self.function = point, function

    def on_session_open(self, session):
        if self.point == "add_batch_predicate":
            session.add_batch_predicate(
                self.function, key=lambda task: None, reasons=("Never",), detail=lambda *_: lambda: "never"
            )
        elif self.point == "add_batch_node_order":
            session.add_batch_node_order(self.function, key=lambda task: None)
        else:
            getattr(session, self.point)(self.function)


def explode(*_):
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("point", "function", "words"),
    [
        ("add_node_order", explode, "RuntimeError: no idea"),
        ("add_node_order", lambda task, node: float("nan"), "answered nan instead of a finite number"),
        ("add_node_order", lambda task, node: "much", "answered 'much'"),
        ("add_batch_node_order", explode, "RuntimeError: no idea"),
        ("add_batch_node_order", lambda task, nodes: np.full(len(nodes), np.nan), "3 finite numbers"),
        ("add_batch_node_order", lambda task, nodes: np.zeros(1), "shape (1,)"),
        ("add_batch_node_order", lambda task, nodes: 7, "answered 7"),
    ],
)
def test_a_score_that_fails_counts_nothing_and_is_named(point, function, words):
    decision, session = decide(spot_cluster(), pod("p", 1, memory=10), Broken(point, function))
    assert decision.node == "a"
    assert decision.scores["a"]["broken"] == 0.0
    (problem,) = session.problems()
    assert (problem.object, problem.field) == ("Plugin/broken", "node order")
    assert words in problem.message


@pytest.mark.parametrize(
    ("point", "function", "words"),
    [
        ("add_predicate", explode, "RuntimeError: no idea"),
        ("add_predicate", lambda task, job, node: False, "answered False instead of a Reason or nothing"),
        ("add_batch_predicate", explode, "RuntimeError: no idea"),
        ("add_batch_predicate", lambda task, nodes: np.zeros(len(nodes)), "uint8 codes"),
        ("add_batch_predicate", lambda task, nodes: np.zeros(2, np.uint8), "shape (2,)"),
        ("add_pre_predicate", explode, "RuntimeError: no idea"),
        ("add_pre_predicate", lambda task, job: True, "answered True"),
    ],
)
def test_a_predicate_that_fails_says_no_and_is_named(point, function, words):
    decision, session = decide(spot_cluster(), pod("p", 1, memory=10), Broken(point, function))
    assert reasons(decision) == {"PluginFailed": 3}
    (problem,) = session.problems()
    assert problem.object == "Plugin/broken"
    assert words in problem.message


def test_an_event_that_fails_is_passed_over():
    cluster = spot_cluster()
    session = Session(cluster, [*default_plugins(), Broken("add_event_handler", explode)])
    assert session.place(make_task(pod("p", 1, memory=10), cluster.vendors)).node == "a"
    assert [problem.field for problem in session.problems()] == ["event"]


def test_a_plugin_may_use_many_reasons():
    class Chatty(Plugin):
        name = "chatty"

        def on_session_open(self, session):
            session.add_predicate(lambda task, job, node: Reason(f"Because{node.name}", "so"))

    cluster = scenario(*[node(f"n{i:03}", gpus=1) for i in range(300)])
    decision, _ = decide(cluster, pod("p", 1, memory=10), Chatty())
    assert decision.node is None
    assert sum(reasons(decision).values()) == 300
    assert reasons(decision)["Becausen000"] == 1


def test_every_opened_plugin_is_closed_even_if_another_fails():
    closed = []

    class Tidy(Plugin):
        name = "tidy"

        def on_session_open(self, session):
            pass

        def on_session_close(self, session):
            closed.append("tidy")

    class Refuses(Tidy):
        name = "refuses"

        def on_session_open(self, session):
            raise RuntimeError("not today")

        def on_session_close(self, session):
            raise RuntimeError("nor now")

    with pytest.raises(SessionError, match="plugin refuses cannot be opened: RuntimeError: not today"):
        Session(spot_cluster(), [Tidy(), Refuses()])
    assert closed == ["tidy"]


def test_scores_in_whole_numbers_count_and_stay_the_plugins_own():
    own = np.array([5, 7, 9])

    class Whole(Plugin):
        name = "whole"

        def on_session_open(self, session):
            session.add_batch_node_order(lambda task, nodes: nodes.pick(own), key=lambda task: None)

    cluster = spot_cluster()
    without_policy = [plugin for plugin in default_plugins() if plugin.name != "nodepolicy"]
    with Session(cluster, [*without_policy, Whole()]) as session:
        wanted = pod("p", 1, memory=10, selector={"instance-type": "spot"})
        decision = session.decide(make_task(wanted, cluster.vendors))
    assert (decision.node, decision.scores["b"]["total"]) == ("b", 7.0)
    assert own.tolist() == [5, 7, 9]


def test_pods_that_differ_in_anything_that_a_plugin_can_see_are_told_apart():
    class ByImage(Plugin):
        name = "by-container"

        def on_session_open(self, session):
            session.add_node_order(lambda task, node: float(node.name == task.pod.spec.containers[0].name))

    cluster = spot_cluster()
    with Session(cluster, [*default_plugins(), ByImage()]) as session:
        for name in ("c", "b"):
            wanted = pod(f"p-{name}", containers=[container(name, cpu="1")])
            assert session.decide(make_task(wanted, cluster.vendors)).node == name

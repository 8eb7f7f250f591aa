"""The actions allocate and backfill, and what a cycle says about every pod."""

import pytest

from tests.scenario import node, pod, running, scenario
from tonnage.actions.catalog import make_actions
from tonnage.framework.cycle import document, run_cycle
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


def cycle(cluster, *plugins, actions=("allocate",)):
    """Pods by name: where they go, or why they wait."""
    with Session(cluster, [*default_plugins(), *plugins]) as session:
        decisions = run_cycle(session, make_actions(actions))
        document(session, decisions)
    return {d.task.name: d.node if d.outcome == "placed" else d.outcome for d in decisions}


def named(cluster, *plugins, actions=("allocate",)):
    """The names of pods in the order in which they were looked at."""
    return list(cycle(cluster, *plugins, actions=actions))


def test_important_pods_go_first_then_older_ones_then_by_name():
    cluster = scenario(
        node("a", gpus=1, slots=1),
        pod("c", 1),
        pod("b", 1, created="2026-01-02T00:00:00Z", priority=5),
        pod("a", 1, created="2026-01-03T00:00:00Z", priority=5),
        pod("d", 1, priority=9),
    )
    assert named(cluster) == ["d", "b", "a", "c"]


def test_without_the_priority_plugin_age_decides():
    cluster = scenario(node("a", gpus=1), pod("a", 1, created="2026-01-02"), pod("b", 1, created="2026-01-01"))
    cluster.upsert_pod(pod("c", 1, created="2026-01-03", priority=9))
    plugins = [plugin for plugin in default_plugins() if plugin.name != "priority"]
    with Session(cluster, plugins) as session:
        assert [d.task.name for d in run_cycle(session, make_actions())] == ["b", "a", "c"]


def test_pods_that_ask_for_nothing_are_left_to_backfill_if_it_runs():
    cluster = scenario(node("a", gpus=1), pod("nothing", priority=9), pod("gpu", 1))
    assert named(cluster, actions=("allocate", "backfill")) == ["gpu", "nothing"]
    cluster = scenario(node("a", gpus=1), pod("nothing", priority=9), pod("gpu", 1))
    assert named(cluster, actions=("allocate",)) == ["nothing", "gpu"]


def test_backfill_places_nothing_else_and_every_pod_is_spoken_of():
    cluster = scenario(node("a", gpus=1), pod("nothing"), pod("gpu", 1))
    assert cycle(cluster, actions=("backfill",)) == {"nothing": "a", "gpu": "waiting"}
    cluster = scenario(node("a", gpus=1), pod("gpu", 1))
    with Session(cluster, default_plugins()) as session:
        (decision,) = run_cycle(session, make_actions(["backfill"]))
    assert decision.why_not() == "NotConsidered: none of the actions looks at the pod: backfill"


def test_a_pod_waits_for_one_that_is_leaving_instead_of_being_unschedulable():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=8000, terminating=True), pod("p", 1), pod("q", 1))
    assert cycle(cluster) == {"p": "waiting", "q": "unschedulable"}


def test_room_that_is_free_now_is_taken_before_room_that_will_be():
    cluster = scenario(
        node("a", gpus=1), node("b", gpus=1), running("x", on="a", memory=8000, terminating=True), pod("p", 1)
    )
    assert cycle(cluster) == {"p": "b"}


class Keeps(Plugin):
    """Registers functions by the names of the methods that take them."""

    name = "keeps"

    def __init__(self, **functions):
        super().__init__()
        self.functions = functions

    def on_session_open(self, session):
        for method, function in self.functions.items():
            getattr(session, method)(function)


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        ({"add_job_valid": lambda job: Reason("TooFew", "1 of 2 pods")}, "TooFew: 1 of 2 pods"),
        ({"add_overused": lambda queue: Reason("Full", "8 of 8")}, "Full: 8 of 8"),
        ({"add_allocatable": lambda queue, task: Reason("Limit", "8 of 8")}, "Limit: 8 of 8"),
        (
            {"add_job_ready": lambda job: False, "add_job_pipelined": lambda job: False},
            "JobNotReady: default/p cannot start with the pods that have a place",
        ),
    ],
)
def test_what_holds_a_job_back_is_the_reason_and_nothing_is_held(functions, reason):
    cluster = scenario(node("a", gpus=1), pod("p", 1))
    with Session(cluster, [*default_plugins(), Keeps(**functions)]) as session:
        (decision,) = run_cycle(session, make_actions())
    assert decision.outcome == "waiting"
    assert decision.why_not() == reason
    assert not cluster.reserved
    assert list(cluster.waiting) == ["default/p"]


def test_a_job_that_is_ready_only_later_keeps_its_place():
    plugin = Keeps(add_job_ready=lambda job: False, add_job_pipelined=lambda job: True)
    cluster = scenario(node("a", gpus=1), pod("p", 1))
    assert cycle(cluster, plugin) == {"p": "waiting"}
    assert list(cluster.reserved) == ["default/p"]

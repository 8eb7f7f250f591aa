"""Making room where something is odd: nodes and queues that are gone, thousands of pods, plugins that fail."""

import pytest

from tests.actions.eviction.making_room import BUILD, TRAIN, crowd, evicted, job, kai, node, promised
from tests.config.texts import KAI_DEFAULT, load
from tests.groups import cycle
from tests.plugins.queues.teams import team
from tests.scenario import plain, pod
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session

EVICTING = ("consolidation", "reclaim", "preempt")


def test_a_pod_on_a_node_that_is_not_known_is_not_stopped_and_another_is():
    nowhere = job("nowhere", "a", on="gone", priority=1)
    things = [node("n0", 1), team("a", 0), team("b", 1), nowhere, job("there", "a", on="n0"), job("p", "b")]
    outcome = kai(crowd(*things), *EVICTING)
    assert evicted(outcome) == ["there-0"]
    assert promised(outcome) == {"p-0": "n0"}


def test_a_gang_with_a_pod_on_a_node_that_is_not_known_is_stopped_as_a_whole():
    things = [node("n0", 1), team("a", 0), team("b", 1), job("gang", "a", pods=2, on=["n0", "gone"]), job("p", "b")]
    assert evicted(kai(crowd(*things), "reclaim")) == ["gang-0", "gang-1"]


def test_pods_of_a_queue_that_was_deleted_stay_and_its_waiting_jobs_stop_nobody():
    things = [node("n0", 2), team("q", 2), job("r", "deleted", on="n0"), job("mine", "q", on="n0")]
    cluster = crowd(*things, job("p", "q", 1, priority=75), job("lost", "deleted", 2, priority=75))
    outcome = kai(cluster, "allocate", *EVICTING)
    assert evicted(outcome) == ["mine-0"]
    assert promised(outcome) == {"p-0": "n0"}
    assert "deleted" in outcome.why("lost-0")


def test_nodes_that_offer_nothing_of_what_running_pods_hold():
    """A device plugin that is gone leaves pods on cards that their node does not offer any more."""
    things = [plain("n0", 0), team("a", 0), team("b", 1), job("r", "a", on="n0"), job("p", "b")]
    cluster = crowd(*things)
    cluster.upsert_pod(pod("odd", on="n0", **{"example.com/fpga": 3}))
    outcome = kai(cluster, *EVICTING)
    assert outcome.session.evictions == []
    assert outcome.waiting == {"p-0"}


def test_a_cluster_without_nodes():
    outcome = kai(crowd(team("a", 1), job("r", "a", on="gone"), job("p", "a", priority=BUILD)), *EVICTING)
    assert outcome.session.evictions == []


def test_a_gang_of_thousands_of_pods_gets_its_room_or_a_quick_no():
    nodes = [node(f"n{n:03}", 8) for n in range(250)]
    running = [job(f"r{n:03}", "a", 8, on=f"n{n:03}") for n in range(250)]
    queues = [team("a", 0), team("b", 2000)]
    outcome = kai(crowd(*nodes, *queues, *running, job("gang", "b", pods=2000)), "reclaim")
    assert len(evicted(outcome)) == 250
    assert len(promised(outcome)) == 2000
    outcome = kai(crowd(*nodes, *queues, *running, job("gang", "b", pods=3000)), "reclaim")
    assert evicted(outcome) == []
    (waits,) = outcome.document.jobs
    assert waits.asks == "3000 × 1 nvidia.com/gpu"


def test_thousands_of_queues():
    count = 2000
    queues = [team(f"q{n:04}", 0) for n in range(count)]
    nodes = [node(f"n{n:03}", 8) for n in range(count // 8)]
    running = [job(f"r{n:04}", f"q{n:04}", on=f"n{n // 8:03}") for n in range(count)]
    waiting = [job(f"p{n}", "new", 2) for n in range(5)]
    outcome = kai(crowd(*nodes, *queues, team("new", 10), *running, *waiting), "reclaim")
    assert len(evicted(outcome)) == 10
    assert len(promised(outcome)) == 5


class Failing(Plugin):
    """Raises at one point."""

    name = "failing"

    def __init__(self, point: str) -> None:
        super().__init__()
        self._point = point

    def on_session_open(self, session: Session) -> None:
        getattr(session, f"add_{self._point}")(self._fail)

    def _fail(self, *about: object) -> None:
        raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("point", "named"),
    [
        ("preemptable", "preemptable"),
        ("reclaimable", "reclaimable"),
        ("reclaimer", "reclaimer"),
        ("node_sets", "node sets"),
    ],
)
def test_a_plugin_that_fails_is_named_and_nobody_is_stopped(point, named):
    action, other, priority = ("preempt", "a", BUILD) if point == "preemptable" else ("reclaim", "b", TRAIN)
    things = [node("n0", 1), team("a", 1 if other == "a" else 0), team("b", 1), job("r", "a", on="n0")]
    cluster = crowd(*things, job("p", other, priority=priority))
    assert evicted(kai(cluster, action)) == ["r-0"]
    cluster = crowd(*things, job("p", other, priority=priority))
    outcome = cycle(cluster, actions=(action,), plugins=[*load(KAI_DEFAULT).plugins, Failing(point)])
    assert outcome.session.evictions == []
    assert outcome.waiting == {"p-0"}
    (problem,) = [one for one in outcome.document.problems if one.object == "Plugin/failing"]
    assert problem.field == named
    assert "RuntimeError: out of order" in problem.message

"""Promises taken back: a place that was only promised earlier in the cycle goes to a later action's job."""

from tests.actions.eviction.making_room import BUILD, crowd, evicted, job, kai, moved, node, promised
from tests.config.texts import KAI_DEFAULT, load
from tests.plugins.queues.teams import team
from tests.properties.comparing import assert_same, snapshot
from tonnage.actions.catalog import make_actions
from tonnage.framework.cycle import run_cycle
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

NODES = (node("n0", 4), node("n1", 4))


def test_a_queue_reclaims_the_place_that_consolidation_promised_to_another():
    running = [job("a", "q", 2, on="n0"), job("b", "q", 2, on="n1"), job("c", "q", on="n1")]
    cluster = crowd(
        *NODES, team("q", 4, weight=0), team("r", 4, weight=0), *running, job("p", "q", 3), job("t", "r", 4)
    )
    outcome = kai(cluster, "consolidation", "reclaim")
    assert promised(outcome) == {"t-0": "n1"}
    assert (evicted(outcome), moved(outcome)) == (["c-0"], {"b-0": "n0"})
    assert {eviction.for_ for eviction in outcome.session.evictions} == {"default/t"}
    assert "PromiseTakenBack: its place on n1 was only promised, and went to default/t" in outcome.why("p-0")


def test_victims_of_a_promise_that_was_taken_back_stay_if_the_room_is_enough_with_them():
    running = [job("a", "q", 2, on="n0"), job("b", "q", 2, on="n1")]
    waiting = [job("p", "q", 4), job("t", "r", 2, priority=BUILD)]
    outcome = kai(crowd(*NODES, team("q", 4), team("r", 4), *running, *waiting), "consolidation", "reclaim")
    assert outcome.session.evictions == []
    assert promised(outcome) == {}
    assert outcome.placed.keys() == {"t-0"}


def test_the_promise_of_a_more_important_job_of_the_queue_comes_before_that_of_another():
    running = [job("a", "q", 2, on="n0"), job("b", "q", 2, on="n1")]
    waiting = [job("p", "q", 4), job("t", "q", 4, priority=BUILD)]
    outcome = kai(crowd(*NODES, team("q", 8), *running, *waiting), "consolidation", "preempt")
    assert promised(outcome).keys() == {"t-0"}
    assert evicted(outcome) == []


def test_a_promise_to_a_job_that_is_not_preemptible_stays():
    going = job("old", "q", 4, on="n0", leaving=True)
    waiting = [job("p", "q", 4, priority=BUILD), job("t", "r", 4)]
    cluster = crowd(node("n0", 4), team("q", 4), team("r", 0), going, *waiting)
    outcome = kai(cluster, "allocate", "reclaim")
    assert promised(outcome) == {"p-0": "n0"}


def test_a_promise_from_before_the_cycle_stays():
    running = [job("a", "q", 2, on="n0"), job("b", "q", 2, on="n1")]
    waiting = [job("p", "q", 4), job("t", "q", 4, priority=BUILD)]
    cluster = crowd(*NODES, team("q", 8), *running, *waiting)
    with Session(cluster, load(KAI_DEFAULT).plugins) as session:
        run_cycle(session, make_actions(["consolidation"]))
        session.nominated = frozenset(cluster.pipelined)
        place = cluster.holders["default/p-0"]
        run_cycle(session, make_actions(["preempt"]))
        assert cluster.holders["default/p-0"] == place


def test_undoing_a_promise_that_was_taken_back_restores_everything():
    running = [job("a", "q", 2, on="n0"), job("b", "q", 2, on="n1")]
    cluster = crowd(*NODES, team("q", 8), *running, job("p", "q", 4))
    with Session(cluster, load(KAI_DEFAULT).plugins) as session:
        run_cycle(session, make_actions(["consolidation"]))
        (task,) = session.promises()
        before = snapshot(cluster)
        with session.looking_ahead(), Statement(session) as statement:
            statement.evict(task, "default/t", "")
            statement.undo()
        assert_same(snapshot(cluster), before)
        assert [one.key for one in session.promises()] == ["default/p-0"]

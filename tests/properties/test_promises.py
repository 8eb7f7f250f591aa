"""Promises taken back in random crowds: nothing is given twice, nobody goes in vain, jobs are whole or wait."""

from hypothesis import given, settings

from tests.properties.crowds import Crowd, overfull, plugins, worlds
from tests.properties.worlds import examples, phases
from tonnage.actions.catalog import make_actions
from tonnage.framework.cycle import acting
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

ORDERS = (
    ("consolidation", "reclaim", "preempt"),
    ("preempt", "reclaim", "consolidation"),
    ("allocate", "consolidation", "reclaim"),
)


def free(session: Session) -> list[list[int]]:
    """What is free everywhere, as it is and once the leaving pods have left."""
    columns = session.cluster.columns
    now = [*columns.free.reshape(-1).tolist(), *columns.card_free.reshape(-1).tolist()]
    with session.looking_ahead():
        return [now, [*columns.free.reshape(-1).tolist(), *columns.card_free.reshape(-1).tolist()]]


def taken_back_and_undone(session: Session) -> None:
    """Take every promise back and undo that; everything is as before."""
    cluster = session.cluster
    before = free(session), set(cluster.pipelined), set(cluster.leaving), dict(cluster.holders)
    with Statement(session) as statement:
        for task in session.promises():
            statement.evict(task, "", "")
    assert (free(session), set(cluster.pipelined), set(cluster.leaving), dict(cluster.holders)) == before


def test_no_promise_that_is_taken_back_leaves_anything_given_twice_or_a_job_in_pieces():
    taken = 0

    @settings(max_examples=examples(60), deadline=None, phases=phases())
    @given(world=worlds)
    def holds(world):
        nonlocal taken
        for order in ORDERS:
            cluster = Crowd(world).build()
            with Session(cluster, plugins(world)) as session:
                for action in make_actions(order):
                    taken_back_and_undone(session)
                    with acting(session, action):
                        action.run(session)
                    assert overfull(cluster) == []
                    assert min(free(session)[1], default=0) >= 0
                    assert cluster.leaving.isdisjoint(cluster.reserved)
                    for key, job in cluster.groups.jobs.items():
                        if any(task.key in cluster.reserved for task in job.tasks.values()):
                            assert not job.lacking(), key
                with_places = {session.job_of(task).key for task in cluster.reserved.values()}
                assert {eviction.for_ for eviction in session.evictions} <= with_places
                for decision in session.decisions.values():
                    if decision.task.key in cluster.pipelined:
                        assert set(decision.waits_for) <= cluster.leaving
                    taken += any(one.reason == "PromiseTakenBack" for one in decision.rejected)

    holds()
    assert taken >= 5, "too few promises were taken back to say anything"

"""Statements: steps that belong together are taken as a whole or undone exactly."""

import pytest

from tests.properties.comparing import assert_same, snapshot
from tests.scenario import node, pod, running, scenario, session
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement, StatementError
from tonnage.plugins.defaults import default_plugins


class Tracker(Plugin):
    """Remembers what it is told."""

    name = "tracker"

    def on_session_open(self, session):
        self.told = []
        session.add_event_handler(
            lambda task: self.told.append(f"+{task.name}"), lambda task: self.told.append(f"-{task.name}")
        )


def one_card(*pods):
    return scenario(node("a", gpus=1, gpu_memory=8000), *pods)


def waiting(cluster, name):
    return cluster.waiting[f"default/{name}"]


def test_what_is_committed_stays():
    cluster = one_card(pod("p", 1))
    with session(cluster) as opened, Statement(opened) as statement:
        assert statement.place(waiting(cluster, "p")).node == "a"
        statement.commit()
    assert list(cluster.reserved) == ["default/p"]


def test_leaving_without_a_commit_undoes_everything():
    cluster = one_card(running("x", on="a", memory=8000), pod("p", 1, memory=8000), pod("q", 1, memory=8000))
    before = snapshot(cluster)
    tracker = Tracker()
    with Session(cluster, [*default_plugins(), tracker]) as opened:
        with Statement(opened) as statement:
            statement.evict(cluster.running["default/x"], "default/p", "makes room")
            assert statement.place(waiting(cluster, "p")).node is None
            assert statement.pipeline(waiting(cluster, "p")).node == "a"
            assert statement.pipeline(waiting(cluster, "q")).node is None
        assert tracker.told == ["-x", "+p", "-p", "+x"]
        assert opened.evictions == []
    assert_same(before, snapshot(cluster))
    assert not cluster.leaving
    assert sorted(cluster.waiting) == ["default/p", "default/q"]


def test_an_error_inside_undoes_everything_too():
    cluster = one_card(pod("p", 1))
    before = snapshot(cluster)

    def fail(opened):
        with Statement(opened) as statement:
            statement.place(waiting(cluster, "p"))
            raise RuntimeError("no idea")

    with session(cluster) as opened, pytest.raises(RuntimeError):
        fail(opened)
    assert_same(before, snapshot(cluster))


def test_undoing_back_to_a_mark_keeps_what_came_before():
    cluster = one_card(*(pod(name, 1, memory=1000) for name in "pqr"))
    with session(cluster) as opened, Statement(opened) as statement:
        statement.place(waiting(cluster, "p"))
        mark = len(statement)
        statement.place(waiting(cluster, "q"))
        statement.place(waiting(cluster, "r"))
        statement.undo(mark)
        assert list(cluster.reserved) == ["default/p"]
        statement.commit()
    assert list(cluster.reserved) == ["default/p"]


def test_a_committed_eviction_says_for_whom_and_why():
    cluster = one_card(running("x", on="a", memory=8000), pod("p", 1))
    with session(cluster) as opened:
        with Statement(opened) as statement:
            statement.evict(cluster.running["default/x"], "default/p", "of lower priority")
            decision = statement.pipeline(waiting(cluster, "p"))
            statement.commit()
        (eviction,) = opened.evictions
    assert (eviction.pod, eviction.node, eviction.for_) == ("default/x", "a", "default/p")
    record = decision.record()
    assert (record.outcome, record.node, record.devices) == ("waiting", None, [])
    assert record.message == "goes to a once default/x left"


def test_the_room_of_a_leaving_pod_is_kept_for_the_one_it_was_made_for():
    cluster = one_card(running("x", on="a", memory=6000, terminating=True), pod("p", 1, memory=6000))
    with session(cluster) as opened:
        with Statement(opened) as statement:
            assert statement.pipeline(waiting(cluster, "p")).waits_for == ["default/x"]
            statement.commit()
        assert opened.decide(make_task(pod("q", 1, memory=2000), cluster.vendors)).node is None
        with opened.looking_ahead():
            assert opened.decide(make_task(pod("q", 1, memory=2000), cluster.vendors)).node == "a"


@pytest.mark.parametrize("step", ["place", "evict", "commit", "undo"])
def test_a_committed_statement_takes_no_more_steps(step):
    cluster = one_card(running("x", on="a"), pod("p", 1, memory=10))
    steps = {
        "place": lambda s: s.place(waiting(cluster, "p")),
        "evict": lambda s: s.evict(cluster.running["default/x"], "", ""),
        "commit": lambda s: s.commit(),
        "undo": lambda s: s.undo(),
    }
    with session(cluster) as opened, Statement(opened) as statement:
        statement.commit()
        with pytest.raises(StatementError, match="committed"):
            steps[step](statement)


def test_steps_that_could_not_be_undone_are_refused():
    cluster = one_card(running("x", on="a"), pod("p", 1, memory=10))
    task = waiting(cluster, "p")
    with session(cluster) as opened, Statement(opened) as statement:
        statement.place(task)
        with pytest.raises(StatementError, match="default/p has a place already"):
            statement.place(task)
        with pytest.raises(StatementError, match="default/p has a place already"):
            statement.evict(task, "", "")
        statement.evict(cluster.running["default/x"], "", "")
        with pytest.raises(StatementError, match="leaving already"):
            statement.evict(cluster.running["default/x"], "", "")

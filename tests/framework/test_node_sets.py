"""Sets of nodes that are tried one after another for a job, whoever gives them."""

import numpy as np
import pytest

from tests.framework.answers import Says
from tests.groups import add, cycle, group, member, members
from tests.scenario import node, pod, scenario
from tonnage.cluster.task import make_task
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.session import Session, SessionError
from tonnage.plugins.defaults import default_plugins

WHY = Reason("Apart", "they are to be together")


def world(count: int = 2):
    return add(scenario(*(node(name, cpu="2") for name in "abc"), *members("g", count, cpu=1)), group("g", count))


def gives(*sets: NodeSet) -> Says:
    return Says("together", add_node_sets=lambda job, tasks: NodeSets(sets, WHY))


def on(names: str, **more) -> NodeSet:
    return NodeSet(names, np.array([name in names for name in "abc"]), **more)


def test_the_first_set_that_holds_the_job_is_used():
    assert set(cycle(world(), gives(on("c"), on("a"))).placed.values()) == {"c"}
    assert set(cycle(world(3), gives(on("c"), on("ab"))).placed.values()) == {"a", "b"}


def test_a_set_without_room_is_passed_over():
    assert set(cycle(world(), gives(on("c", has_room=False), on("b"))).placed.values()) == {"b"}


def test_a_job_that_fits_into_no_set_waits_and_what_was_tried_is_undone():
    cluster = world(3)
    done = cycle(cluster, gives(on("a"), on("b")))
    assert done.placed == {}
    assert not cluster.reserved
    assert done.why("g-0") == (
        "Apart: they are to be together; a: default/g needs 3 of 3 pods placed, 2 fit; "
        "default/g-2: 0 of 1 nodes fit: 1 InsufficientCpu"
    )
    assert cycle(world(), gives()).why("g-0") == "Apart: they are to be together"


def full(*leaving: str):
    """The same nodes without room; pods on some of them are leaving."""
    there = [pod(f"on-{name}", cpu=2, on=name, terminating=name in leaving) for name in "abc"]
    return add(scenario(*(node(name, cpu="2") for name in "abc"), *there, *members("g", 2, cpu=1)), group("g", 2))


def test_a_set_whose_pods_leave_is_taken_although_another_holds_nobody():
    done = cycle(full("b"), gives(on("a"), on("b")))
    assert done.why("g-0") == done.why("g-1") == "goes to b once default/on-b left"


def test_a_job_that_grows_goes_where_there_is_room_now():
    cluster = full("a")
    cluster.remove_pod("default/on-c")
    cluster.upsert_pod(member("g-9", "g", on="b"))
    add(cluster, group("g", 1))
    assert set(cycle(cluster, gives(on("a"), on("c"))).placed.values()) == {"c"}


def test_other_sets_are_not_tried_for_a_job_that_its_queue_holds_back():
    asked = []

    def keep(queue, task):
        asked.append(task.name)
        return Reason("NoShare", "the queue has had its share") if len(asked) > 1 else None

    done = cycle(world(), gives(on("a"), on("b"), on("c")), Says(add_allocatable=keep))
    assert asked == ["g-0", "g-1"]
    assert done.placed == {}
    assert done.why("g-1") == "NoShare: the queue has had its share"


def test_scores_of_a_set_count_and_are_shown():
    done = cycle(world(), gives(on("abc", scores=np.array([0.0, 0.0, 7.0]))))
    assert set(done.placed.values()) == {"c"}
    assert done.decisions["g-0"].scores["c"]["together"] == 7.0


def test_the_first_plugin_with_an_opinion_decides():
    silent = Says("silent", add_node_sets=lambda job, tasks: None)
    assert set(cycle(world(), silent, gives(on("b")), gives(on("c"))).placed.values()) == {"b"}


def test_actions_that_evict_may_ask_too():
    cluster = world()
    with Session(cluster, [*default_plugins(), gives(on("a", has_room=False))]) as session:
        job = cluster.groups.jobs["default/g"]
        sets = session.jobs.node_sets(job, list(job.tasks.values()))
        assert sets is not None
        assert [(one.name, one.plugin) for one in sets] == [("a", "together")]
        plain = make_task(pod("p", cpu=1), cluster.vendors)
        assert session.place(plain, sets[0]).node == "a"
    with Session(world(), default_plugins()) as session:
        assert session.jobs.node_sets(job, list(job.tasks.values())) is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda job, tasks: 1 // 0,
        lambda job, tasks: [on("a")],
        lambda job, tasks: NodeSets(["a"], WHY),
        lambda job, tasks: NodeSets([NodeSet("a", np.array([True]))], WHY),
        lambda job, tasks: NodeSets([NodeSet("a", np.array([1.0, 2.0, 3.0]))], WHY),
        lambda job, tasks: NodeSets([on("a", scores=np.array([np.nan, 0.0, 0.0]))], WHY),
    ],
)
def test_an_answer_that_makes_no_sense_is_told_and_keeps_the_job_waiting(answer):
    done = cycle(world(), Says("broken", add_node_sets=answer))
    assert done.placed == {}
    assert done.why("g-0").startswith("PluginFailed: about default/g: ")
    assert [problem.object for problem in done.document.problems] == ["Plugin/broken"]


def test_a_function_that_takes_something_else_is_an_error():
    with pytest.raises(SessionError, match="registered as node sets, which takes"):
        Session(world(), [Says(add_node_sets=lambda job: None)])

"""Nodes that come, change and go, and placements that are reserved, confirmed and released."""

from msgspec.structs import replace

from tests.scenario import cards, decide, gpu, node, place, pod, problems, reasons, running, scenario, session, usage
from tonnage.cluster.task import make_task
from tonnage.model.meta import ObjectMeta


def test_a_pod_on_an_unknown_node_counts_once_the_node_arrives():
    cluster = scenario(running("x", on="a", gpu=0, memory=3000))
    assert problems(cluster) == [("Pod/default/x", "spec.nodeName")]
    assert decide(cluster, pod("p", 1)).node is None
    cluster.upsert_node(node("a", gpus=1))
    assert problems(cluster) == []
    assert usage(cluster, "a") == [(1, 3000, 0)]


def test_a_pod_may_go_before_its_node_arrives():
    cluster = scenario(running("x", on="a", memory=3000), running("y", on="a", memory=1000))
    cluster.remove_pod("default/x")
    cluster.upsert_node(node("a", gpus=1))
    assert usage(cluster, "a") == [(1, 1000, 0)]


def test_a_node_that_is_removed_and_comes_back_still_bears_its_pods():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), running("x", on="a", memory=3000))
    cluster.remove_node("a")
    assert decide(cluster, pod("p", 1, memory=10)).node == "b"
    assert problems(cluster) == [("Pod/default/x", "spec.nodeName")]
    cluster.upsert_node(node("a", gpus=2))
    assert usage(cluster, "a") == [(1, 3000, 0), (0, 0, 0)]
    assert decide(cluster, pod("p", 1, memory=10)).node == "a"


def test_removing_a_node_that_is_not_there_is_nothing():
    cluster = scenario(node("a"))
    cluster.remove_node("b")
    assert decide(cluster, pod("p")).node == "a"


def test_a_card_that_disappears_leaves_its_pods_without_one():
    cluster = scenario(node("a", gpus=2, slots=1), running("x", on="a", gpu=1, memory=3000))
    cluster.upsert_node(node("a", gpus=1, slots=1))
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert [problem.position for problem in cluster.problems()] == ["a/1"]
    assert reasons(decide(cluster, pod("p", 1, memory=10))) == {"CardTimeSlicingExhausted": 1}
    cluster.upsert_node(node("a", gpus=2, slots=1))
    assert usage(cluster, "a") == [(0, 0, 0), (1, 3000, 0)]
    assert cards(decide(cluster, pod("p", 1, memory=10))) == ["a/0"]


def test_the_same_uuid_twice_on_a_node_counts_once():
    cluster = scenario(
        node("a", gpus=[gpu("u", memory=1000), gpu("u", index=1), gpu("v", index=2)]), running("x", on="a", gpu="u")
    )
    assert len(usage(cluster, "a")) == 2
    (problem,) = cluster.problems()
    assert problem.object == "Node/a"
    assert "u is registered twice" in problem.message
    assert reasons(decide(cluster, pod("p", 3, memory=1))) == {"NodeInsufficientDevice": 1}


def test_the_same_uuid_on_two_nodes_counts_on_both_and_is_shown_with_the_later_name():
    a, b = node("a", gpus=[gpu("u")]), node("b", gpus=[gpu("u")])
    for cluster in (scenario(a, b), scenario(b, a)):
        cluster.upsert_pod(running("x", on="b", gpu="u", memory=100))
        assert usage(cluster, "a") == [(0, 0, 0)]
        assert usage(cluster, "b") == [(1, 100, 0)]
        (problem,) = cluster.problems()
        assert (problem.object, problem.position) == ("Node/b", "u")
        wanted = pod("p", 1, memory=1, annotations={"nvidia.com/use-gpuuuid": "u"})
        assert sorted(decide(cluster, wanted).scores) == ["a", "b"]


def test_a_node_that_changes_is_seen_by_a_session_that_knows_the_pods_class():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1))
    task = make_task(pod("p", 1, memory=5000), cluster.vendors)
    with session(cluster) as open_session:
        assert open_session.decide(task).node == "a"
        cluster.upsert_node(node("a", gpus=1, gpu_memory=4000))
        assert open_session.decide(task).node == "b"
        cluster.upsert_node(node("b", gpus=1, unschedulable=True))
        assert open_session.decide(task).node is None
        cluster.upsert_node(node("0", gpus=3))
        assert open_session.decide(task).node == "0"
        cluster.remove_node("0")
        cluster.upsert_node(node("a", gpus=4))
        assert open_session.decide(task).node == "a"


def test_a_reservation_holds_until_it_is_released():
    cluster = scenario(node("a", gpus=1), pod("p", 1), pod("q", 1))
    assert place(cluster, pod("p", 1)).node == "a"
    assert list(cluster.reserved) == ["default/p"]
    assert list(cluster.waiting) == ["default/q"]
    assert place(cluster, pod("q", 1)).node is None
    cluster.release("default/p")
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert set(cluster.waiting) == {"default/p", "default/q"}
    cluster.release("default/p")
    assert place(cluster, pod("q", 1)).node == "a"


def test_a_confirmed_placement_cannot_be_released():
    cluster = scenario(node("a", gpus=1))
    place(cluster, pod("p", 1))
    cluster.confirm("default/p")
    cluster.release("default/p")
    assert usage(cluster, "a") == [(1, 8000, 0)]
    cluster.remove_pod("default/p")
    assert usage(cluster, "a") == [(0, 0, 0)]


def test_a_reservation_survives_news_of_the_waiting_pod():
    cluster = scenario(node("a", gpus=1), pod("p", 1))
    place(cluster, pod("p", 1))
    cluster.upsert_pod(pod("p", 1, annotations={"some": "change"}))
    assert usage(cluster, "a") == [(1, 8000, 0)]
    assert not cluster.waiting


def test_placing_again_gives_up_the_earlier_placement():
    cluster = scenario(node("a", gpus=1, slots=1))
    assert place(cluster, pod("p", 1)).node == "a"
    assert place(cluster, pod("p", 1, memory=100)).node == "a"
    assert usage(cluster, "a") == [(1, 100, 0)]


def test_a_pod_that_turns_out_to_run_elsewhere_takes_its_reservation_along():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1))
    place(cluster, pod("p", 1, memory=100))
    cluster.upsert_pod(running("p", on="b", memory=200))
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert usage(cluster, "b") == [(1, 200, 0)]
    assert not cluster.reserved


def test_a_pod_of_the_same_name_gets_nothing_of_what_the_other_was_promised():
    cluster = scenario(node("a", gpus=1, slots=1))
    first, second = (replace(pod("p", 1), metadata=ObjectMeta(name="p", uid=uid)) for uid in ("1", "2"))
    with session(cluster) as opened:
        assert opened.place(make_task(first, cluster.vendors)).node == "a"
        cluster.upsert_pod(first)
        assert list(cluster.reserved) == ["default/p"]
        cluster.upsert_pod(second)
    assert (list(cluster.reserved), list(cluster.waiting), cluster.holders) == ([], ["default/p"], {})

"""Consolidation: running jobs move closer together so that a waiting one fits, and nobody loses anything."""

from tests.actions.eviction.making_room import BUILD, crowd, evicted, job, kai, moved, node, promised
from tests.plugins.queues.teams import team


def test_kai_18_one_of_two_half_full_nodes_is_emptied_and_the_next_job_waits():
    nodes = [node("n0", 4), node("n1", 4)]
    running = [job("first", "q", 2, on="n0"), job("second", "q", 2, on="n1")]
    waiting = [job("p", "q", 3), job("then", "q", 2)]
    outcome = kai(crowd(*nodes, team("q", 8), *running, *waiting), "consolidation")
    assert (moved(outcome), evicted(outcome)) == ({"second-0": "n0"}, [])
    assert promised(outcome) == {"p-0": "n1"}
    assert outcome.decisions["then-0"].node is None


def test_kai_19_halves_of_cards_are_moved_onto_one():
    running = [job("first", "q", 0.5, on="n0", card="x"), job("second", "q", 0.5, on="n0", card="y")]
    cluster = crowd(node("n0", 2), team("q", 2), *running, job("p", "q"))
    outcome = kai(cluster, "consolidation")
    assert (moved(outcome), evicted(outcome)) == ({"second-0": "n0"}, [])
    assert promised(outcome) == {"p-0": "n0"}
    held = {key: [card.uuid for use in cluster.nodes["n0"].uses(key) for card in use.cards] for key in cluster.holders}
    assert held["default/second-0 (again)"] == held["default/first-0"]
    assert held["default/p-0"] == held["default/second-0"]


def test_kai_21_full_nodes_are_passed_over():
    used = [job(f"r{n}", "q", cards, on=f"n{n}") for n, cards in enumerate((4, 2, 2, 4))]
    outcome = kai(crowd(*[node(f"n{n}", 4) for n in range(4)], team("q", 16), *used, job("p", "q", 3)), "consolidation")
    assert (moved(outcome), evicted(outcome)) == ({"r2-0": "n1"}, [])
    assert promised(outcome) == {"p-0": "n2"}


def test_nobody_is_moved_where_less_is_free_than_is_asked_for():
    nodes = [node("n0", 2), node("n1", 2)]
    running = [job("a", "q", on="n0"), job("b", "q", on="n1")]
    outcome = kai(crowd(*nodes, team("q", 4), *running, job("p", "q", 2, pods=2)), "consolidation")
    assert outcome.session.evictions == []
    (waits,) = outcome.document.jobs
    assert [(one.action, one.reason) for one in waits.waits_for] == [("consolidation", "NotEnoughInAll")]
    assert waits.waits_for[0].message == "default/p asks for 4 nvidia.com/gpu, and 2 is free in all"


def test_a_job_that_must_not_be_stopped_is_not_moved_and_nobody_is_moved_for_one():
    nodes = [node("n0", 2), node("n1", 2)]
    queues = team("q", 4)
    fixed = [job("a", "q", on="n0", priority=BUILD), job("b", "q", on="n1", priority=BUILD)]
    assert kai(crowd(*nodes, queues, *fixed, job("p", "q", 2)), "consolidation").session.evictions == []
    running = [job("a", "q", on="n0"), job("b", "q", on="n1")]
    outcome = kai(crowd(*nodes, queues, *running, job("p", "q", 2, priority=BUILD)), "consolidation")
    assert outcome.session.evictions == []
    assert outcome.document.jobs[0].waits_for[0].reason == "MustNotBeMoved"


def test_an_elastic_gang_moves_as_a_whole_or_with_what_it_can_spare():
    """Its spare pod moves; the rest stays where it is."""
    nodes = [node("n0", 3), node("n1", 3)]
    running = [job("gang", "q", pods=2, minimum=1, on="n0"), job("other", "q", 2, on="n1")]
    outcome = kai(crowd(*nodes, team("q", 6), *running, job("p", "q", 2)), "consolidation")
    assert (moved(outcome), evicted(outcome)) == ({"gang-1": "n1"}, [])
    assert promised(outcome) == {"p-0": "n0"}


def test_who_cannot_move_is_spared_and_others_of_the_node_move():
    """The youngest alone would make enough room, but fits nowhere else; the small job does."""
    running = [job("full", "q", 3, on="n0"), job("small", "q", 1, on="n1"), job("wide", "q", 2, on="n1")]
    outcome = kai(crowd(node("n0", 4), node("n1", 4), team("q", 8), *running, job("p", "q", 2)), "consolidation")
    assert (moved(outcome), evicted(outcome)) == ({"small-0": "n0"}, [])
    assert promised(outcome) == {"p-0": "n1"}


def test_of_a_gang_that_moves_the_pods_stay_whose_node_nobody_gets():
    nodes = [node("n0", 4), node("n1", 4), node("n2", 2)]
    gang = job("gang", "q", 1, pods=2, on=["n0", "n2"])
    other = job("other", "q", 3, on="n1", priority=BUILD)
    outcome = kai(crowd(*nodes, team("q", 10), gang, other, job("p", "q", 4)), "consolidation")
    assert list(moved(outcome)) == ["gang-0"]
    assert promised(outcome) == {"p-0": "n0"}


def test_like_pods_of_a_gang_get_the_freed_nodes_in_the_order_of_their_names():
    running = [job(f"r{n}", "q", 1, on=f"n{n % 4}") for n in range(8)]
    cluster = crowd(*[node(f"n{n}", 4) for n in range(4)], team("q", 16), *running, job("p", "q", 3, pods=2))
    outcome = kai(cluster, "consolidation")
    assert (sorted(moved(outcome)), evicted(outcome)) == (["r6-0", "r7-0"], [])
    assert promised(outcome) == {"p-0": "n2", "p-1": "n3"}

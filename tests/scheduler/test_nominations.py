"""Promised places: kept for the pods that others were stopped for, and no more pods stopped than needed."""

from msgspec.structs import replace

from tests.actions.eviction.making_room import crowd, job, node
from tests.plugins.queues.teams import team
from tests.scenario import node as bare
from tests.scenario import pod, scenario
from tests.scheduler.evictions.evicting import Stage, names
from tonnage.model.group import GroupObject
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.evictions.plans import LEAVES, SPARED
from tonnage.scheduler.nominations import STAY_SECONDS

HIGH, HIGHER = 75, 90
Thing = Node | GroupObject | list[GroupObject | Pod]


def full(*more: Thing, low: int = 1) -> Stage:
    """A node of two cards, used up by jobs that are less important than `high`, which waits for both."""
    running = [job(f"low{number}", "q", 2 // low, on="n0") for number in range(low)]
    return Stage(crowd(node("n0", 2), team("q", 2), *running, job("high", "q", 2, priority=HIGH), *more))


def come(stage: Stage, things: list[GroupObject | Pod]) -> None:
    """A job comes later."""
    for thing in things:
        if isinstance(thing, Pod):
            stage.cluster.upsert_pod(thing)
        else:
            stage.cluster.groups.upsert(thing)


def test_a_place_is_kept_until_its_victims_are_gone_and_then_taken_at_once() -> None:
    stage = full()
    assert names(stage.cycle()) == {}
    assert (stage.stopped, stage.promised) == (["low0-0"], {"high-0": "n0"})
    stage.evict("low0-0")
    assert names(stage.cycle()) == {}
    assert stage.promised == {"high-0": "n0"}
    stage.leave("low0-0")
    assert names(stage.cycle()) == {"high-0": "n0"}
    assert stage.promised == {}
    assert stage.stopped == ["low0-0"]


def test_it_is_the_same_in_one_session_that_stays_open() -> None:
    """Without queues' shares there is one session for all cycles, and the watch changes the picture between them."""
    running = [pod(f"low{number}", cpu="1", on="a") for number in range(2)]
    cluster = scenario(bare("a", cpu="2"), *running, pod("high", cpu="2", priority=50), pod("small", cpu="1"))
    stage = Stage(cluster, "allocate", "preempt", plugins=default_plugins)
    stage.cycle()
    assert (sorted(stage.stopped), stage.promised) == (["low0", "low1"], {"high": "a"})
    stage.evict("low0")
    stage.leave("low0")
    assert names(stage.cycle()) == {}, "there is room for small, which is kept for high"
    stage.evict("low1")
    stage.leave("low1")
    assert names(stage.cycle()) == {"high": "a"}
    assert len(stage.stopped) == 2


def test_nobody_slips_into_the_room_that_is_made() -> None:
    """The queue of `other` has nothing and so is served first, before and after the eviction."""
    stage = full(team("r", 0), job("other", "r", 2, priority=HIGHER))
    stage.cycle()
    stage.evict("low0-0")
    stage.cycle()
    stage.leave("low0-0")
    assert names(stage.cycle()) == {"high-0": "n0"}


def test_victims_count_as_leaving_before_the_watch_says_so() -> None:
    stage = full()
    stage.cycle()
    stage.victim("low0-0").state = LEAVES
    stage.cluster.upsert_pod(stage.cluster.running["default/low0-0"].pod)
    stage.cycle()
    assert (stage.stopped, stage.promised) == (["low0-0"], {"high-0": "n0"})


def test_a_pod_that_fits_elsewhere_meanwhile_goes_there_and_who_was_not_asked_yet_stays() -> None:
    stage = full(low=2)
    stage.cycle()
    assert stage.stopped == ["low1-0", "low0-0"]
    stage.evict("low1-0")
    stage.cluster.upsert_node(node("n1", 2))
    assert names(stage.cycle()) == {"high-0": "n1"}
    assert stage.victim("low0-0").state == SPARED
    assert stage.cluster.leaving == {"default/low1-0"}
    assert stage.promised == {}


def test_who_is_not_needed_any_more_is_spared_and_who_is_still_goes() -> None:
    """A third job ends by itself; what it held is enough together with one of the two."""
    stage = Stage(
        crowd(
            node("n0", 3),
            team("q", 3),
            *[job(f"low{number}", "q", on="n0") for number in range(2)],
            job("equal", "q", on="n0", priority=HIGH),
            job("high", "q", 2, priority=HIGH),
        )
    )
    stage.cycle()
    assert sorted(stage.stopped) == ["low0-0", "low1-0"]
    stage.leave("equal-0")
    stage.cycle()
    assert stage.promised == {"high-0": "n0"}
    assert sorted(victim.state for victim in stage.plans[0].victims) == ["spared", "stays"]
    assert len(stage.cluster.leaving) == 1


def test_nobody_else_goes_for_a_pod_that_is_gone() -> None:
    stage = full(low=2)
    stage.cycle()
    stage.evict("low1-0")
    stage.leave("high-0")
    assert not stage.cycle_runner.nominations.stands(stage.plans[0])
    stage.cycle()
    assert stage.victim("low0-0").state == SPARED
    assert stage.cluster.leaving == {"default/low1-0"}


def test_a_node_that_is_gone_ends_its_promises_and_the_cycle_decides_anew() -> None:
    stage = full(node("n1", 2), job("more", "q", 2, on="n1", priority=60))
    stage.cycle()
    assert stage.promised == {"high-0": "n0"}
    stage.cluster.remove_node("n0")
    stage.cycle()
    assert stage.promised == {"high-0": "n1"}
    assert stage.stopped == ["low0-0", "more-0"]
    assert stage.victim("low0-0").state == SPARED


def test_a_more_important_job_of_the_queue_takes_a_promised_place_over_instead_of_stopping_more() -> None:
    stage = full(node("n1", 2), job("more", "q", 2, on="n1", priority=60))
    stage.cycle()
    stage.evict("low0-0")
    come(stage, job("higher", "q", 2, priority=HIGHER))
    stage.cycle("high-0")
    assert stage.promised == {"higher-0": "n0"}
    assert [task.name for task in stage.cycle_runner.nominations.take_lost()] == ["high-0"]
    assert stage.stopped == ["low0-0"]
    stage.leave("low0-0")
    assert names(stage.cycle("high-0")) == {"higher-0": "n0"}


def test_a_gang_waits_for_all_its_places_and_gets_them_together() -> None:
    stage = Stage(
        crowd(
            *[node(f"n{number}", 1) for number in range(2)],
            team("q", 2),
            *[job(f"low{number}", "q", on=f"n{number}") for number in range(2)],
            job("gang", "q", pods=2, priority=HIGH),
        )
    )
    stage.cycle()
    assert len(stage.plans) == 1
    stage.evict("low0-0", "low1-0")
    stage.leave("low0-0")
    assert names(stage.cycle()) == {}
    stage.leave("low1-0")
    assert names(stage.cycle()).keys() == {"gang-0", "gang-1"}
    assert sorted(stage.stopped) == ["low0-0", "low1-0"]


# -- restarts


def test_a_restart_between_eviction_and_bind_stops_nobody_again_and_keeps_the_place() -> None:
    stage = full(team("r", 0), job("other", "r", 2, priority=HIGHER))
    stage.cycle()
    stage.nominate()
    stage.evict("low0-0")
    stage.restart()
    assert names(stage.cycle()) == {}
    assert (stage.stopped, stage.promised) == (["low0-0"], {"high-0": "n0"})
    stage.leave("low0-0")
    stage.restart()
    assert names(stage.cycle()) == {"high-0": "n0"}
    assert stage.stopped == ["low0-0"]


def test_a_restart_in_the_middle_of_a_plan_stops_only_the_rest_of_it() -> None:
    stage = full(node("n1", 2), job("more", "q", 2, on="n1", priority=60), low=2)
    stage.cycle()
    stage.nominate()
    stage.evict("low1-0")
    stage.restart()
    stage.cycle()
    assert stage.stopped == ["low1-0", "low0-0", "low0-0"], "the one that was left is decided about again"
    assert stage.promised == {"high-0": "n0"}


def test_what_is_left_by_victims_is_not_taken_while_the_others_have_still_to_go() -> None:
    """After the restart `second` would fit into what one of two victims leaves, and what was free before."""
    stage = Stage(
        crowd(
            *[node("n0", 4), node("n1", 2), team("q", 6)],
            *[job("large", "q", 3, on="n0"), job("small", "q", 1, on="n0")],
            *[job("first", "q", 2, pods=3, priority=HIGHER), job("second", "q", 2, pods=2, priority=HIGH)],
        )
    )
    stage.cycle()
    assert sorted(stage.stopped) == ["large-0", "small-0"]
    stage.nominate()
    stage.evict("large-0")
    stage.restart()
    stage.cycle()
    assert stage.promised == {"first-0": "n1", "first-1": "n0", "first-2": "n0"}
    assert stage.stopped[2:] == ["small-0"]


def test_a_pod_that_names_a_node_and_gets_no_place_does_not_go_on_naming_it() -> None:
    """Its bind failed, or the scheduler was restarted, and others hold the place now that it cannot take from them."""
    stage = full()
    stage.cycle()
    stage.nominate()
    stage.evict("low0-0")
    stage.leave("low0-0")
    stage.restart()
    come(stage, job("other", "q", 2, on="n0", priority=HIGHER))
    stage.cycle("high-0")
    assert stage.cycle_runner.nominations.take_lost() == [], "it pauses and may still get the place"
    stage.cycle()
    assert [task.name for task in stage.cycle_runner.nominations.take_lost()] == ["high-0"]


def test_a_pod_that_names_a_node_that_is_gone_does_not_go_on_naming_it() -> None:
    stage = full()
    stage.cycle()
    stage.nominate()
    stage.cluster.remove_node("n0")
    stage.restart()
    stage.cycle()
    assert [task.name for task in stage.cycle_runner.nominations.take_lost()] == ["high-0"]


def test_a_pod_that_names_a_node_and_gets_its_place_has_lost_nothing() -> None:
    stage = full()
    stage.cycle()
    stage.nominate()
    stage.evict("low0-0")
    stage.restart()
    stage.cycle()
    assert stage.promised == {"high-0": "n0"}
    assert stage.cycle_runner.nominations.take_lost() == []


def test_a_plan_does_not_wait_for_who_stays_because_another_plan_has_ended() -> None:
    """The node of `first` changes, so that it may wait for the other one's victim; then nobody needs that one to go."""
    lows = [job("low0", "q", 2, on="n0"), job("low1", "q", 2, on="n1")]
    highs = [job("first", "q", 2, priority=HIGHER), job("second", "q", 2, priority=HIGH)]
    stage = Stage(crowd(node("n0", 2), node("n1", 2), team("q", 4), *lows, *highs))
    stage.cycle()
    assert stage.promised == {"first-0": "n1", "second-0": "n0"}
    changed = stage.cluster.nodes["n1"].node
    stage.cluster.upsert_node(replace(changed, metadata=replace(changed.metadata, annotations={"changed": "yes"})))
    stage.leave("second-0")
    stage.cycle()
    (place,) = stage.promised.values()
    assert stage.cluster.leaving == {"default/low0-0" if place == "n0" else "default/low1-0"}


def test_a_plan_is_in_vain_once_its_victim_stays() -> None:
    stage = full()
    stage.cycle()
    assert stage.cycle_runner.nominations.void() == []
    stage.cycle_runner.nominations.let_stay(stage.victim("low0-0"))
    assert stage.cycle_runner.nominations.void() == stage.plans
    stage.cycle()
    assert stage.cycle_runner.nominations.void() == []
    assert stage.stopped == ["low0-0", "low0-0"]


# -- refusals


def test_a_plan_that_is_given_up_spares_the_rest_and_others_go_the_next_time() -> None:
    stage = full(node("n1", 2), job("more", "q", 2, on="n1", priority=60), low=2)
    stage.cycle()
    stage.evict("low1-0")
    tasks = stage.cycle_runner.give_up(stage.plans[0], [stage.victim("low0-0")], 0.0)
    assert [task.name for task in tasks] == ["high-0"]
    assert stage.cluster.leaving == {"default/low1-0"}
    assert (stage.promised, stage.cluster.pipelined) == ({}, set())
    stage.cycle(now=1.0)
    assert stage.stopped[2:] == ["more-0"]


def test_who_could_not_be_evicted_is_asked_again_after_a_while() -> None:
    stage = full()
    stage.cycle()
    stage.cycle_runner.give_up(stage.plans[0], [stage.victim("low0-0")], 0.0)
    stage.cycle(now=STAY_SECONDS - 1)
    assert stage.stopped == ["low0-0"]
    stage.cycle(now=STAY_SECONDS + 1)
    assert stage.stopped == ["low0-0", "low0-0"]


# -- other actions


def test_a_moved_pod_is_stopped_and_nothing_is_kept_for_the_one_that_comes_in_its_place() -> None:
    nodes = [node("n0", 4), node("n1", 4)]
    running = [job("first", "q", 2, on="n0"), job("second", "q", 2, on="n1")]
    stage = Stage(crowd(*nodes, team("q", 8), *running, job("p", "q", 3)))
    stage.cycle()
    assert [(eviction.pod, eviction.to) for eviction in stage.evictions] == [("default/second-0", "n0")]
    assert stage.cluster.reserved.keys() == {"default/p-0"}
    stage.evict("second-0")
    stage.leave("second-0")
    come(stage, job("again", "q", 2))
    assert names(stage.cycle()) == {"p-0": "n1", "again-0": "n0"}


def test_a_place_that_somebody_leaves_by_himself_is_not_kept() -> None:
    """Nobody was stopped for it, so whoever is first when it is free gets it."""
    stage = Stage(crowd(node("n0", 2), team("q", 2), job("low", "q", 2, on="n0"), job("next", "q", 2)))
    stage.end("low-0")
    (waits,) = stage.cycle().waiting
    assert waits.why_not() == "goes to n0 once default/low-0 left"
    assert (stage.stopped, stage.cluster.reserved) == ([], {})

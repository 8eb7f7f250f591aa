"""KAI's rules for taking back from other queues: who may, from whom, how far, and who gives up pods first."""

from typing import Any

import pytest

from tests.config.texts import errors, load, warnings, with_plugin
from tests.groups import add, kai_group
from tests.plugins.eviction import Asking
from tests.plugins.queues.tables import GPU, queue, standing_of, usage
from tests.plugins.queues.teams import job, team
from tests.scenario import plain, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP
from tonnage.framework.statement import Statement
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.queues._kaireclaim import reclaimable
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Dimension, QueueTerms
from tonnage.plugins.queues._queueusage import QueueUsage
from tonnage.plugins.queues.proportion import Proportion


def allowed(
    state: QueueUsage, of: str, request: float, *losses: tuple[str, float], multiplier: float = 1
) -> list[bool]:
    """For each loss of so many GPUs whether a queue may have it that asks for so many."""
    rows = state.table.rows
    taken = [Loss(rows[name], (round(amount * 1000),)) for name, amount in losses]
    asked = (round(request * 1000),)
    return reclaimable(state, rows[of], asked, asked, taken, multiplier)


def running(of: str, *sizes: int, on: str = "n", **more: Any) -> list[Any]:
    """Pods `<queue>-0` and so on that run, each a job of its own."""
    return [job(f"{of}-{number}", of, size, on=on, **more) for number, size in enumerate(sizes)]


# -- who may take back


def test_a_queue_within_its_share_may_take_back_and_one_beyond_it_says_by_how_much():
    cluster = scenario(plain("n", 16), *running("team-a", 4, 4), *running("team-b", 6, 2), job("large", "team-a", 10))
    asking = Asking(add(cluster, team("team-a", 8), team("team-b", 8)), Proportion())
    assert asking.why_not("large") == (
        "QueueBeyondFairShare: queue team-a holds 8 of its share of 8 gpu; the job asks for 10 more"
    )
    cluster.upsert_pod(job("fits", "team-c", 4))
    asking = Asking(add(cluster, team("team-c", 4)), Proportion())
    assert asking.why_not("fits") is None


def test_a_gang_must_fit_into_the_share_as_a_whole():
    pods = [pod(f"gang-{n}", 1, annotations={KAI_GROUP: "gang"}) for n in range(3)]
    cluster = scenario(plain("n", 4), *running("other", 1, 1, 1, 1), *pods)
    add(cluster, team("mine", 2, 2), team("other", 2), kai_group("gang", 3, queue="mine"))
    said = Asking(cluster, Proportion()).why_not("gang-0")
    assert said == "QueueBeyondFairShare: queue mine holds 0 of its share of 2 gpu; the job asks for 3 more"


def test_a_job_that_must_not_be_stopped_stays_within_what_every_queue_above_it_deserves():
    cluster = scenario(plain("n", 4), *running("b", 4), job("fixed", "a1", 2, priority=100), job("soft", "a1", 2))
    add(cluster, team("a", 1), team("b", 1), team("a1", 2, parentQueue="a"))
    asking = Asking(cluster, Proportion())
    assert asking.why_not("soft") is None
    assert asking.why_not("fixed") == (
        "NonPreemptibleOverQuota: jobs of queue a that must not be stopped hold 0 gpu and may hold 1; "
        "the job asks for 2"
    )


def test_a_team_may_take_back_within_a_department_that_holds_more_than_its_share():
    """The department loses nothing and gets nothing, so its own share does not matter."""
    cluster = scenario(plain("n", 8), *running("b", 6), *running("other", 1, 1), job("wants", "a", 2))
    cluster.upsert_pod(job("asks", "other", 6))
    add(cluster, team("here", 4), team("there", 4))
    add(cluster, team("a", 2, parentQueue="here"), team("b", 2, parentQueue="here"), team("other", parentQueue="there"))
    asking = Asking(cluster, Proportion())
    assert asking.why_not("wants") is None
    assert asking.reclaimable("wants", "b-0", "other-0") == ["b-0"]


# -- from whom


def test_equal_shares_with_two_full_queues_are_left_alone():
    cluster = scenario(plain("n", 4), *running("a", 1, 1), *running("b", 1, 1), job("more", "a", 1))
    asking = Asking(add(cluster, team("a", 2), team("b", 2)), Proportion())
    assert asking.why_not("more") is not None
    assert asking.reclaimable("more", "b-0") == []


def test_a_protected_queue_does_not_hide_a_valid_victim():
    pods = [*running("within", 2), *running("beyond", 1, 1), job("wants", "mine", 2)]
    cluster = add(scenario(plain("n", 4), *pods), team("within", 2), team("beyond"), team("mine", 2))
    asking = Asking(cluster, Proportion())
    assert asking.reclaimable("wants", "within-0", "beyond-0", "beyond-1") == ["beyond-0", "beyond-1"]


def test_a_branch_gives_up_pods_as_long_as_it_holds_more_than_its_share_before_each():
    state = usage(8, queue("a", 4, request=4), queue("b", 4, holds=8))
    assert allowed(state, "a", 4, *[("b", 1)] * 5) == [True] * 4 + [False]
    assert allowed(state, "a", 4, ("b", 3), ("b", 3), ("b", 1)) == [True, True, False]


def test_to_get_what_it_deserves_a_queue_takes_what_others_hold_beyond_what_they_deserve():
    """Beyond its own quota it takes only what others hold beyond their fair share, which is 2 here."""
    state = usage(4, queue("a", 2, request=2), queue("b", 1, holds=4, weight=1))
    assert state.fair[state.table.rows["b"]] == [2000]
    assert allowed(state, "a", 2, ("b", 1), ("b", 1), ("b", 1)) == [True, True, True]
    beyond = usage(4, queue("a", 1, request=2), queue("b", 1, holds=4, weight=1))
    assert allowed(beyond, "a", 2, ("b", 1), ("b", 1), ("b", 1)) == [True, True, False]


def test_departments_are_compared_where_they_part_and_not_their_teams():
    queues = [queue("x", 4), queue("y", 4)]
    teams = [queue("x1", 4, parent="x", request=4), queue("x2", parent="x", request=2)]
    teams += [queue("y1", 4, parent="y", holds=4), queue("y2", 0, parent="y", holds=4)]
    state = usage(8, *queues, *teams)
    assert allowed(state, "x1", 4, ("y1", 4)) == [True]
    assert allowed(state, "x1", 4, ("y2", 4), ("y1", 1)) == [True, False]


def test_only_what_a_queue_has_too_much_of_is_taken():
    """A queue beyond its share of CPUs alone keeps its cards."""
    dimensions = [GPU, Dimension("cpu")]
    a = QueueTerms("a", deserved=(2000, 4000), request=(2000, 4000))
    b = QueueTerms("b", deserved=(2000, 4000), weight=(1, 1), request=(2000, 9000), allocated=(2000, 8000))
    state = standing_of(dimensions, (4000, 8000), a, b)
    losses = [Loss(state.table.rows["b"], lost) for lost in ((1000, 0), (1000, 1000), (0, 1000))]
    assert reclaimable(state, state.table.rows["a"], (1000, 1000), (1000, 1000), losses, 1) == [False, True, True]


def test_pods_of_the_jobs_own_queue_and_of_queues_that_do_not_exist_are_not_taken():
    cluster = scenario(
        plain("n", 4), *running("mine", 1), *running("nowhere", 1), *running("b", 2), job("p", "mine", 1)
    )
    asking = Asking(add(cluster, team("mine", 2), team("b")), Proportion())
    assert asking.reclaimable("p", "mine-0", "nowhere-0", "b-0") == ["b-0"]


# -- how far


def test_a_department_beyond_its_share_must_stay_less_saturated_than_those_it_takes_from():
    """With the job x holds 5 of 4; y would be left with 6, 5 or 4 of 4."""
    queues = [queue("x", 4), queue("y", 4)]
    teams = [queue("x1", 2, parent="x", request=1), queue("x2", parent="x", holds=4), queue("y1", parent="y", holds=8)]
    state = usage(8, *queues, *teams)
    assert [float(share[0]) for share in state.fair[:2]] == [4000, 4000]
    assert allowed(state, "x1", 1, ("y1", 2)) == [True]
    assert allowed(state, "x1", 1, ("y1", 3)) == [False]
    assert allowed(state, "x1", 1, ("y1", 2), multiplier=1.3) == [False]
    assert allowed(state, "x1", 1, ("y1", 1), multiplier=1.3) == [True]


def test_within_its_share_a_queue_may_overtake_those_it_takes_from():
    state = usage(8, queue("a", 4, request=4), queue("b", 4, holds=8))
    assert allowed(state, "a", 4, ("b", 7)) == [True]


def test_what_takes_too_much_of_one_branch_leaves_the_others():
    queues = [queue("x", 2), queue("y", 2), queue("z", 2)]
    teams = [queue("x1", 2, parent="x", request=1), queue("x2", parent="x", holds=2)]
    teams += [queue("y1", parent="y", holds=3), queue("z1", parent="z", holds=9)]
    state = usage(6, *queues, *teams)
    assert allowed(state, "x1", 1, ("y1", 1), ("z1", 1)) == [False, True]


# -- gangs


def gangs(size: int, minimum: int, **more: Any) -> Cluster:
    """A gang of queue b that runs on 4 cards, and a job of queue a that wants 2."""
    pods = [pod(f"b-{n}", 1, on="n", annotations={KAI_GROUP: "b"}) for n in range(size)]
    cluster = scenario(plain("n", 4), *pods, job("wants", "a", 2), **more)
    return add(cluster, team("a", 2), team("b", 2), kai_group("b", minimum, queue="b"))


def test_the_core_of_a_gang_is_lost_as_one_even_if_its_queue_is_left_with_less_than_its_share():
    asking = Asking(gangs(4, 4), Proportion())
    assert asking.reclaimable("wants", "b-0", "b-1", "b-2", "b-3") == ["b-0", "b-1", "b-2", "b-3"]


def test_pods_beyond_the_minimum_are_lost_one_by_one():
    asking = Asking(gangs(4, 1), Proportion())
    assert asking.reclaimable("wants", "b-3", "b-2", "b-1", "b-0") == ["b-3", "b-2"]


def test_pods_that_are_evicted_already_do_not_count_as_surplus():
    cluster = gangs(4, 2)
    asking = Asking(cluster, *default_plugins(), Proportion())
    session = asking.session
    with Statement(session) as statement:
        statement.evict(cluster.running["default/b-3"], "default/wants", "")
        assert asking.reclaimable("wants", "b-2", "b-1", "b-0") == ["b-2"]
    assert asking.reclaimable("wants", "b-3", "b-2", "b-1") == ["b-3", "b-2"]


def test_what_the_job_was_given_in_the_same_search_is_not_asked_for_twice():
    pods = [pod(f"gang-{n}", 1, annotations={KAI_GROUP: "gang"}) for n in range(3)]
    cluster = scenario(plain("n", 4), *running("b", 1, 1, 1), *pods)
    add(cluster, team("a", 3), team("b", 1), kai_group("gang", 3, queue="a"))
    asking = Asking(cluster, *default_plugins(), Proportion())
    assert asking.reclaimable("gang-0", "b-0", "b-1") == ["b-0", "b-1"]
    with Statement(asking.session) as statement:
        assert statement.place(cluster.waiting["default/gang-0"]).node == "n"
        assert asking.reclaimable("gang-1", "b-0", "b-1", "b-2") == ["b-0", "b-1"]
    assert asking.reclaimable("gang-0", "b-0", "b-1", "b-2") == ["b-0", "b-1"]


# -- who gives up pods first


def test_queues_give_up_pods_in_the_reverse_of_their_order_less_what_they_gave_up():
    cluster = scenario(plain("n", 8), *running("a", 1, 1), *running("b", 1, 1, 1, 1), *running("c", 2))
    add(cluster, team("a", 1, created="1"), team("b", 1, created="2"), team("c", 2, created="3"))
    asking = Asking(cluster, Proportion())
    among = ["a", "b", "c"]
    assert asking.giving_up(among=among) == ["b", "a", "c"]
    assert asking.giving_up("b-0", "b-1", "b-2", among=among) == ["a", "b", "c"]
    assert asking.giving_up(among=among) == ["b", "a", "c"]


def test_each_search_counts_for_itself_and_nothing_else_changes():
    cluster = scenario(plain("n", 8), *running("a", 1, 1), *running("b", 1, 1, 1))
    asking = Asking(add(cluster, team("a", 1), team("b", 1)), Proportion())
    before = asking.session.queues.records()
    order = asking.session.queues.victim_order()
    for task in asking.tasks(["b-0", "b-1", "b-2"]):
        order.give_up(task)
    assert asking.session.queues.records() == before
    a, b = cluster.queues["a"], cluster.queues["b"]
    assert order.compare(a, b) < 0 < asking.session.queues.victim_order().compare(a, b)


def test_departments_give_up_pods_by_what_all_their_teams_hold():
    cluster = scenario(plain("n", 8), *running("a1", 2), *running("a2", 2), *running("b1", 3))
    add(cluster, team("a", 3, weight=0), team("b", 2.5, weight=0))
    add(cluster, team("a1", 2, parentQueue="a"), team("a2", 1, parentQueue="a"), team("b1", parentQueue="b"))
    asking = Asking(cluster, Proportion())
    assert asking.giving_up(among=["a1", "a2", "b1"]) == ["a2", "a1", "b1"]
    assert asking.giving_up("a2-0", among=["a1", "a2", "b1"])[0] == "b1"


def test_what_a_queue_gave_up_does_not_make_it_one_within_its_quota():
    """Without a-0 and a-1 queue a would be within what it deserves, but it holds them still."""
    cluster = scenario(plain("n", 8), *running("a", 1, 1, 1), *running("b", 4))
    asking = Asking(add(cluster, team("a", 1, weight=0), team("b", 4, weight=0)), Proportion())
    assert asking.giving_up("a-0", "a-1", "a-2", among=["b", "a"]) == ["a", "b"]


def test_without_queues_there_is_nothing_to_say():
    asking = Asking(scenario(plain("n", 1), pod("runs", 1, on="n"), pod("p", 1)), Proportion())
    assert asking.why_not("p") is None
    assert asking.reclaimable("p", "runs") == []
    assert asking.giving_up("runs", among=["default"]) == ["default"]


# -- the argument


def departments(cards: int, *pods: Any, weight: float = 0, deserves: float = 0) -> Cluster:
    """Departments d0 with the teams a and c, and d1 with the team b, on a node that is full."""
    cluster = scenario(plain("n", cards), *pods, job("wants", "a", 3))
    add(cluster, team("d0", 3), team("d1", 3), team("a", weight=weight, parentQueue="d0"))
    return add(cluster, team("b", weight=0, parentQueue="d1"), team("c", deserves, weight=0, parentQueue="d0"))


def test_a_pod_that_must_not_be_taken_does_not_make_room_for_others_to_be_taken():
    """Were c-0 gone, d0 would hold no more than its share with the job, and d1 might lose a pod; but c-0 stays."""
    cluster = departments(5, *running("b", 1, 1, 1, 1), *running("c", 1))
    assert Asking(cluster, Proportion()).reclaimable("wants", "b-2", "b-1", "b-0", "c-0", "b-3") == []


def test_a_gang_that_keeps_what_it_could_spare_makes_no_room_for_others_to_be_taken():
    gang = [pod(f"g-{n}", 1, on="n", annotations={KAI_GROUP: "g"}) for n in range(3)]
    cluster = departments(9, *running("b", 1, 1, 1, 3), *gang, weight=1, deserves=1)
    add(cluster, kai_group("g", 2, queue="c"))
    asked = ("b-1", "g-2", "g-1", "g-0", "b-2", "b-0", "b-3")
    found = Asking(cluster, Proportion()).reclaimable("wants", *asked)
    assert found == Asking(cluster, Proportion()).reclaimable("wants", *found)


@pytest.mark.parametrize("name", ["relcaimerSaturationMultiplier", "reclaimerSaturationMultiplier"])
@pytest.mark.parametrize(("written", "read"), [("1.5", 1.5), ('"2"', 2.0), ("0.5", 1.0)])
def test_the_multiplier_is_read_by_both_names_as_a_number_or_a_text(name, written, read):
    text = with_plugin("proportion", f"arguments: {{{name}: {written}}}")
    (plugin,) = (one for one in load(text).plugins if one.name == "proportion")
    assert plugin.args.saturation_multiplier == read
    assert any("is below 1; 1 is used" in line for line in warnings(text)) == (written == "0.5")


@pytest.mark.parametrize("written", ["much", "nan", "true", "[1]"])
def test_what_is_no_number_is_an_error_with_its_place(written):
    (said,) = errors(with_plugin("proportion", f"arguments: {{relcaimerSaturationMultiplier: {written}}}"))
    assert said.startswith("FILE:5:")
    assert "relcaimerSaturationMultiplier: expected a number" in said


def test_both_names_at_once_are_an_error():
    given = "arguments: {relcaimerSaturationMultiplier: 2, reclaimerSaturationMultiplier: 2}"
    assert "which is given too; keep one" in errors(with_plugin("proportion", given))[0]


def test_the_multiplier_gets_to_the_rules():
    pods = [*running("x2", 4), *running("y1", 2, 6), job("wants", "x1", 1), job("more", "x2", 1), job("also", "y1", 1)]
    cluster = add(scenario(plain("n", 8, cpu="64"), *pods), team("x", 4), team("y", 4))
    add(cluster, team("x1", 2, parentQueue="x"), team("x2", parentQueue="x"), team("y1", 4, parentQueue="y"))
    assert Asking(cluster, Proportion()).reclaimable("wants", "y1-0") == ["y1-0"]
    strict = Proportion(convert({"reclaimerSaturationMultiplier": 1.3}, Proportion.Arguments))
    assert Asking(cluster, strict).reclaimable("wants", "y1-0") == []

"""Reclaim: queues take back their share from those that hold more than theirs."""

import pytest

from tests.actions.eviction.making_room import (
    BUILD,
    asks,
    crowd,
    evicted,
    job,
    kai,
    moved,
    node,
    promised,
    teams,
    volcano,
)
from tests.config.texts import VOLCANO_HELM, load
from tests.groups import cycle
from tests.plugins.queues.teams import team
from tests.scenario import node as bare
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Pod

PLUGINS = ("conformance", "gang", "proportion", "predicates")
CAPACITY = ("conformance", "gang", "capacity", "predicates")


def of(queue: str, minimum: int = 0, **more):
    return {"queue": queue, "minimum": minimum, **more}


# -- Volcano


def test_volcano_22_of_three_running_pods_the_one_that_may_be_stopped_goes():
    pods = [asks(f"r{n}", "a", 1, 1, on="n", stays=n != 2) for n in (1, 2, 3)]
    cluster = teams(
        bare("n", cpu="3", memory="3Gi"),
        *[*pods, asks("p", "b", 1, 1)],
        groups={"a": of("q1", 1), "b": of("q2", 1)},
        q1={},
        q2={},
    )
    outcome = volcano(cluster, "reclaim", *PLUGINS)
    assert evicted(outcome) == ["r2"]
    assert promised(outcome) == {"p": "n"}


def test_volcano_23_of_several_queues_the_one_whose_job_is_least_important_gives_up_the_pod_that_may_be_stopped():
    names = ("middle", "low", "high")
    pods = [asks(f"{name}-{n}", name, 1, 1, on="n", stays=n != 1) for name in names for n in range(2)]
    groups = {name: of(name, 1, priorityClassName=name) for name in names} | {"new": of("q4", priorityClassName="high")}
    queues = {name: {} for name in (*names, "q4")}
    cluster = teams(bare("n", cpu="6", memory="6Gi"), *pods, asks("p", "new", 1, 1), groups=groups, **queues)
    assert evicted(volcano(cluster, "reclaim", *PLUGINS)) == ["low-1"]


def test_volcano_25_one_pod_is_enough_where_some_is_free_and_the_less_important_queue_gives_it_up():
    pods = [asks("a-0", "a", 1, 1, on="n"), asks("b-0", "b", 1, 1, on="n"), asks("p", "c", 2, 1)]
    cluster = teams(
        bare("n", cpu="10", memory="2Gi"),
        *pods,
        groups={"a": of("q1"), "b": of("q2"), "c": of("q3")},
        q1={"priority": 1},
        q2={"priority": 2},
        q3={"priority": 3, "weight": 2},
    )
    assert evicted(volcano(cluster, "reclaim", *PLUGINS)) == ["a-0"]


def test_a_queue_that_does_not_deserve_what_a_job_asks_for_stops_nobody_for_it():
    """A third of the memory is less than the pod asks for, so that it would not be placed after all."""
    cluster = teams(
        bare("n", cpu="10", memory="2Gi"),
        *[asks("a-0", "a", 1, 1, on="n"), asks("b-0", "b", 1, 1, on="n"), asks("p", "c", 2, 1)],
        groups={"a": of("q1"), "b": of("q2"), "c": of("q3")},
        q1={},
        q2={},
        q3={},
    )
    outcome = volcano(cluster, "reclaim", *PLUGINS)
    assert evicted(outcome) == []
    (waits,) = outcome.document.jobs
    assert "1Gi" in waits.waits_for[0].message


def test_volcano_26_nothing_is_taken_back_where_the_rest_is_enough():
    pods = [asks(f"a-{n}", "a", 1, 1, on="n") for n in range(2)] + [asks("p", "b", 3, 3)]
    cluster = teams(
        bare("n", cpu="10", memory="10Gi"),
        *pods,
        groups={"a": of("q1"), "b": of("q2")},
        q1={"weight": 1},
        q2={"weight": 9},
    )
    outcome = volcano(cluster, "reclaim", *PLUGINS)
    assert evicted(outcome) == []
    assert promised(outcome) == {"p": "n"}


# -- Volcano's tiers: gang and conformance in the first, proportion in the second


def in_tiers(cluster: Cluster):
    return cycle(cluster, actions=("allocate", "reclaim"), plugins=load(VOLCANO_HELM).plugins)


def two_queues(minimum: int, *more: Pod, weight: int = 1, pods: int = 4) -> Cluster:
    """A node of four CPUs, with a job of the first queue on it; a job of two pods of the second waits."""
    running = [asks(f"a-{n}", "a", 1, on="n", created=str(2000 + n)) for n in range(pods)]
    waiting = [asks(f"b-{n}", "b", 1) for n in range(2)]
    groups = {"a": of("q1", minimum), "b": of("q2", 2), "c": of("q3", 1)}
    return teams(bare("n", cpu="4"), *running, *waiting, *more, groups=groups, q1={"weight": weight}, q2={}, q3={})


def test_a_job_gives_back_what_it_has_beyond_its_minimum():
    assert evicted(in_tiers(two_queues(1))) == ["a-2", "a-3"]


def test_a_gang_beyond_the_share_of_its_queue_goes_whole_where_a_later_tier_than_that_of_gang_decides():
    """In Volcano gang names nobody then, and the tier of proportion is asked; two pods go, and the gang is broken."""
    outcome = in_tiers(two_queues(4))
    assert evicted(outcome) == [f"a-{n}" for n in range(4)]
    assert set(promised(outcome)) == {"b-0", "b-1"}


def test_gang_protects_gangs_from_the_plugins_of_its_own_tier():
    assert evicted(volcano(two_queues(4), "reclaim", *PLUGINS)) == []


def test_a_queue_within_its_share_gives_up_nothing_not_even_surplus():
    """In Volcano's first tier gang and conformance decide alone, and the second queue's surplus would go."""
    others = [asks(f"c-{n}", "c", 1, on="n", created="1999") for n in range(2)]
    cluster = two_queues(2, *others, pods=2)
    outcome = in_tiers(cluster)
    assert evicted(outcome) == []
    (waits,) = outcome.document.jobs
    assert waits.name == "default/b"


# -- Volcano's capacity


def amounts(cpu: float = 0, memory: float = 0, gpus: int = 0) -> dict[str, str | int | float]:
    every = {"cpu": cpu, "memory": f"{memory}Gi", "nvidia.com/gpu": gpus}
    return {key: value for key, value in every.items() if value not in (0, "0Gi")}


@pytest.mark.parametrize(("most", "where"), [(2, "n1"), (1.5, None)])
def test_volcano_28_reclaim_too_keeps_to_the_capability(most, where):
    pods = [asks("runs", "a", 1, 1, on="n1"), asks("p", "a", 1, 1, selector={"name": "n1"})]
    nodes = [bare(name, cpu="2", memory="4Gi", labels={"name": name}) for name in ("n1", "n2")]
    limit = {"capability": {"cpu": str(most), "memory": "2Gi"}, "deserved": amounts(2, 2)}
    outcome = volcano(teams(*nodes, *pods, groups={"a": of("q")}, q=limit), "reclaim", *CAPACITY)
    assert evicted(outcome) == []
    assert outcome.decisions["p"].node == where


def test_volcano_29_a_queue_takes_back_what_it_deserves_from_the_pod_that_may_be_stopped():
    pods = [asks("p5", "pg3", 2, 4, on="n1", stays=True), asks("p6", "pg3", 2, 4, on="n2"), asks("p7", "pg4", 2, 4)]
    nodes = [bare(name, cpu="2", memory="4Gi") for name in ("n1", "n2")]
    has = {"deserved": amounts(2, 4)}
    cluster = teams(*nodes, *pods, groups={"pg3": of("q3", 1), "pg4": of("q4", 1)}, q3=has, q4=has)
    outcome = volcano(cluster, "reclaim", *CAPACITY)
    assert evicted(outcome) == ["p6"]
    assert promised(outcome) == {"p7": "n2"}


def test_volcano_31_case_7_who_has_no_more_than_it_deserves_gives_nothing_up():
    """The one pod that may go gives no CPUs, and those are what is missing."""
    pods = [
        asks("p22", "g14", 2, 4, on="n"),
        asks("p23", "g15", gpus=1, on="n"),
        asks("p24", "g16", 2, 1, gpus=1, on="n"),
    ]
    n, has = bare("n", gpus=4, slots=1, cpu="4", memory="8Gi"), {"deserved": amounts(2, 4, 2)}
    groups = {f"g{n}": of(f"q{n}") for n in (14, 15, 16)}
    cluster = teams(n, *pods, asks("p25", "g16", 2, 3, gpus=1), groups=groups, q14=has, q15={}, q16=has)
    assert evicted(volcano(cluster, "reclaim", *CAPACITY)) == []


def test_volcano_31_case_8_only_the_pod_with_the_card_goes():
    pods = [asks("p26", "g17", memory=4, on="n"), asks("p27", "g17", 1, on="n"), asks("p28", "g17", gpus=1, on="n")]
    pods += [asks("p29", "g18", 2, 4, on="n"), asks("p30", "g18", 1, gpus=1)]
    cluster = teams(
        bare("n", gpus=1, slots=1, cpu="4", memory="8Gi"),
        *pods,
        groups={f"g{n}": of(f"q{n}") for n in (17, 18)},
        q17={"deserved": amounts(2, 2)},
        q18={"deserved": amounts(2, 4, 1)},
    )
    outcome = volcano(cluster, "reclaim", *CAPACITY)
    assert evicted(outcome) == ["p28"]
    assert promised(outcome) == {"p30": "n"}


def test_volcano_31_case_9_a_card_that_its_queue_deserves_is_not_lost_for_processors():
    cluster = teams(
        bare("n", gpus=1, slots=1, cpu="4", memory="8Gi"),
        *[asks("p31", "g19", 4, 4, gpus=1, on="n"), asks("p32", "g20", 1, 1)],
        groups={f"g{n}": of(f"q{n}") for n in (19, 20)},
        q19={"deserved": amounts(gpus=1)},
        q20={"deserved": amounts(2, 2)},
    )
    assert evicted(volcano(cluster, "reclaim", *CAPACITY)) == []


def test_volcano_31_case_10_nothing_is_taken_back_beyond_the_capability():
    nodes = [bare(name, cpu="8", memory="100Gi") for name in ("n9", "n10")]
    pods = [asks("p33", "g21", 7, 90, on="n9"), asks("p34", "g21", 2, 5), asks("p35", "g22", 2, 5, on="n10")]
    cluster = teams(
        *nodes,
        *pods,
        groups={f"g{n}": of(f"q{n}") for n in (21, 22)},
        q21={"deserved": amounts(8, 100), "capability": amounts(8, 100)},
        q22={"capability": amounts(2, 5)},
    )
    outcome = volcano(cluster, "reclaim", *CAPACITY)
    assert evicted(outcome) == []
    (waits,) = outcome.document.jobs
    assert waits.waits_for[0].reason == "QueueOverCapability"


# -- KAI


def test_kai_22_two_queues_give_up_their_least_important_job_each():
    running = [job(f"{q}-{n}", q, priority=40 if n == 0 else 50, on="n0") for q in ("a", "b") for n in range(3)]
    queues = [team("a", 1), team("b", 1), team("new", 2, weight=0)]
    outcome = kai(crowd(node("n0", 6), *queues, *running, job("gang", "new", pods=2)), "reclaim")
    assert evicted(outcome) == ["a-0-0", "b-0-0"]
    assert promised(outcome) == {"gang-0": "n0", "gang-1": "n0"}
    assert outcome.decisions["gang-0"].waits_for == ["default/a-0-0", "default/b-0-0"]


def test_kai_queues_that_have_equal_shares_take_nothing_from_each_other():
    running = [job(f"{q}-{n}", q, on="n0") for q in ("a", "b") for n in range(2)]
    waiting = [job(f"{q}-more", q) for q in ("a", "b")]
    outcome = kai(crowd(node("n0", 4), team("a", 2), team("b", 2), *running, *waiting), "reclaim")
    assert evicted(outcome) == []
    assert outcome.waiting == {"a-more-0", "b-more-0"}


def test_kai_an_elastic_victim_loses_only_what_it_has_beyond_its_minimum():
    elastic = job("elastic", "a", pods=2, minimum=1, on="n0")
    outcome = kai(crowd(node("n0", 2), team("a", 1), team("b", 1), elastic, job("p", "b")), "reclaim")
    assert evicted(outcome) == ["elastic-1"]


def test_kai_the_less_important_victim_goes_first():
    running = [job("later", "a", priority=50, on="n0"), job("sooner", "a", priority=75, on="n0")]
    outcome = kai(crowd(node("n0", 2), team("a", 1), team("b", 1), *running, job("p", "b")), "reclaim")
    assert evicted(outcome) == ["later-0"]


def test_kai_a_gang_of_11_nodes_finds_its_44_victims():
    nodes = [node(f"n{n:02}", 4) for n in range(11)]
    running = [job(f"r{n:02}-{m}", "a", on=f"n{n:02}") for n in range(11) for m in range(4)]
    outcome = kai(crowd(*nodes, team("a", 0), team("b", 44), *running, job("gang", "b", 4, pods=11)), "reclaim")
    assert len(evicted(outcome)) == 44
    assert sorted(promised(outcome).values()) == [f"n{n:02}" for n in range(11)]


def test_kai_a_queue_that_keeps_its_pods_does_not_hide_one_that_has_to_give_some_back():
    kept = [job(f"kept-{n}", "within", priority=1, on="n0") for n in range(2)]
    lost = [job(f"lost-{n}", "beyond", priority=75, on="n0") for n in range(2)]
    queues = [team("within", 2), team("beyond", 0), team("new", 2)]
    outcome = kai(crowd(node("n0", 4), *queues, *kept, *lost, job("gang", "new", pods=2)), "reclaim")
    assert evicted(outcome) == ["lost-0-0", "lost-1-0"]


def test_some_are_lost_and_some_move_for_one_gang():
    """Two cards are due; each pod of the gang needs two on one node, so a third job moves to the card that is free."""
    nodes = [node("n1", 4), node("n2", 4), node("n3", 2)]
    running = [job(f"a{n}", "a", on="n1" if n < 4 else "n2") for n in range(6)]
    own = [job("b1", "b", on="n2"), job("b2", "b", on="n3")]
    cluster = crowd(*nodes, team("a", 4), team("b", 6), *running, *own, job("gang", "b", 2, pods=2))
    outcome = kai(cluster, "reclaim")
    assert (evicted(outcome), moved(outcome)) == (["a3-0", "a5-0"], {"a2-0": "n3"})
    assert promised(outcome) == {"gang-0": "n1", "gang-1": "n2"}


def test_a_gang_that_has_to_go_goes_with_its_pods_on_other_nodes():
    """Two cards of n0 are needed, and the gang cannot do with one pod, so that the one on n1 has no use."""
    gang = job("gang", "a", pods=3, minimum=2, on=["n0", "n0", "n1"])
    outcome = kai(crowd(node("n0", 2), node("n1", 1), team("a", 0), team("b", 2), gang, job("p", "b", 2)), "reclaim")
    assert evicted(outcome) == ["gang-0", "gang-1", "gang-2"]
    assert promised(outcome) == {"p-0": "n0"}


def test_of_queues_that_have_equal_shares_the_last_gives_up_its_pod_whatever_came_first():
    pods = [asks(f"{name}-0", name, 1, 1, on="n") for name in ("a", "b", "c")]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        cluster = teams(
            bare("n", cpu="3", memory="3Gi"),
            *[pods[place] for place in order],
            asks("p", "d", 1, 1),
            groups={name: of(f"q-{name}") for name in "abcd"},
            **{f"q-{name}": {"weight": 3 if name == "d" else 1} for name in "dcba"},
        )
        assert evicted(volcano(cluster, "reclaim", *PLUGINS)) == ["c-0"]


def test_a_job_that_must_not_be_stopped_takes_back_no_more_than_its_queue_deserves():
    running = [job(f"r-{n}", "a", on="n0") for n in range(2)]
    outcome = kai(
        crowd(node("n0", 2), team("a", 0), team("b", 1), *running, job("p", "b", 2, priority=BUILD)), "reclaim"
    )
    assert evicted(outcome) == []
    (waits,) = outcome.document.jobs
    assert (waits.name, waits.asks) == ("default/p", "1 × 2 nvidia.com/gpu")

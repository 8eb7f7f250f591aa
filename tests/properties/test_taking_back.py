"""Random queues and pods: what may be taken back is justified, in the order asked, and asking leaves no trace."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import add, group, kai_group, member, queue
from tests.plugins.queues.teams import job, team
from tests.properties.worlds import examples
from tests.scenario import plain, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.queues.capacity import HIERARCHY, Capacity
from tonnage.plugins.queues.proportion import Proportion

CARD = "nvidia.com/gpu"
QUEUES = ("q0", "q1", "q2", "q3")

worlds = st.fixed_dictionaries(
    {
        "deserved": st.lists(st.integers(0, 6), min_size=4, max_size=4),
        "weight": st.lists(st.integers(0, 3), min_size=4, max_size=4),
        "running": st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=8),
        "gangs": st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4)), max_size=3),
        "asks": st.tuples(st.integers(0, 3), st.integers(1, 3)),
        "departments": st.booleans(),
        "order": st.randoms(use_true_random=False),
    }
)


def build(world: dict[str, Any], by_kai: bool) -> Cluster:
    """Cards on one node, as many as are held; one pod waits."""
    held = sum(size for _, size in world["running"]) + sum(size for _, size, _ in world["gangs"])
    cluster = scenario(plain("n", held))
    for number, name in enumerate(QUEUES):
        deserved, weight = world["deserved"][number], world["weight"][number]
        parent = f"d{number % 2}" if world["departments"] else None
        if by_kai:
            add(cluster, team(name, deserved, weight=weight, parentQueue=parent))
        else:
            add(cluster, queue(name, weight=weight + 1, deserved={CARD: deserved}, parent=parent))
    for name in ("d0", "d1") if world["departments"] else ():
        add(cluster, team(name, 3) if by_kai else queue(name, deserved={CARD: 3}))
    for number, (where, size) in enumerate(world["running"]):
        cluster.upsert_pod(job(f"r{number}", QUEUES[where], size, on="n"))
    for number, (where, size, minimum) in enumerate(world["gangs"]):
        name, of = f"g{number}", QUEUES[where]
        add(cluster, kai_group(name, minimum, queue=of) if by_kai else group(name, minimum, queue=of))
        for one in range(size):
            if by_kai:
                cluster.upsert_pod(pod(f"{name}-{one}", 1, on="n", annotations={KAI_GROUP: name}))
            else:
                cluster.upsert_pod(member(f"{name}-{one}", name, 1, on="n"))
    cluster.upsert_pod(job("wants", QUEUES[world["asks"][0]], world["asks"][1]))
    return cluster


def tree() -> Plugin:
    return Capacity().with_options(switched_on=frozenset((HIERARCHY,)))


def shown(session: Session, name: str, field: str) -> float:
    """What a queue deserves, holds or can count on, in cards."""
    (record,) = (one for one in session.queues.records() if one.name == name)
    share = next(iter(record.resources.values()))
    return float(getattr(share, field))


KINDS = {
    "KAI": (Proportion, True),
    "Volcano": (Proportion, False),
    "capacity": (Capacity, False),
    "tree": (tree, False),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(150))
@given(world=worlds)
def test_the_answer_is_part_of_the_question_in_its_order_and_asking_changes_nothing(kind, world):
    make, by_kai = KINDS[kind]
    cluster = build(world, by_kai)
    victims = sorted(cluster.running.values(), key=lambda task: task.key)
    world["order"].shuffle(victims)
    with Session(cluster, [make()]) as session:
        wants = session.job_of(cluster.waiting["default/wants"])
        before = session.queues.records()
        gate = session.jobs.why_not_reclaimer(wants, wants.asking())
        order = session.queues.victim_order()
        answer = session.jobs.reclaimable(wants, victims)
        for task in victims:
            order.give_up(task)
        assert answer == [task for task in victims if task in answer]
        assert not any(session.job_of(task).queue == wants.queue for task in answer)
        assert session.queues.records() == before
        assert session.jobs.reclaimable(wants, victims) == answer
        # Nothing that may be taken becomes less so because what must stay is left out.
        assert session.jobs.reclaimable(wants, answer) == answer
        assert session.jobs.why_not_reclaimer(wants, wants.asking()) == gate


@pytest.mark.parametrize("kind", ["KAI", "Volcano", "capacity"])
@settings(max_examples=examples(150))
@given(world=worlds)
def test_nobody_within_what_it_deserves_loses_anything(kind, world):
    """Queues side by side: before a loss its queue holds more than it deserves, or than its share if that is due."""
    make, by_kai = KINDS[kind]
    world["departments"] = False
    cluster = build(world, by_kai)
    victims = sorted(cluster.running.values(), key=lambda task: task.key)
    world["order"].shuffle(victims)
    with Session(cluster, [make()]) as session:
        wants = session.job_of(cluster.waiting["default/wants"])
        mine = shown(session, wants.queue, "allocated") + world["asks"][1]
        starved = mine <= shown(session, wants.queue, "deserved")
        left = {name: shown(session, name, "allocated") for name in QUEUES}
        gone: set[str] = set()
        for task in session.jobs.reclaimable(wants, victims):
            victim = session.job_of(task)
            own = shown(session, victim.queue, "deserved")
            due = own if starved or not by_kai else max(own, shown(session, victim.queue, "fair_share"))
            # A gang below its minimum goes as one.
            assert left[victim.queue] > due or victim.key in gone or (kind != "KAI" and own == 0)
            gone.add(victim.key)
            left[victim.queue] -= dict(task.requests).get(CARD, 0)


@settings(max_examples=examples(100))
@given(world=worlds)
def test_what_may_be_taken_one_by_one_may_be_taken_in_steps(world):
    """To evict the first half and ask about the rest is the same as to ask about all, for pods without gangs."""
    world["gangs"] = []
    cluster = build(world, by_kai=True)
    victims = sorted(cluster.running.values(), key=lambda task: task.key)
    with Session(cluster, [Proportion()]) as session:
        wants = session.job_of(cluster.waiting["default/wants"])
        if session.jobs.why_not_reclaimer(wants, wants.asking()) is not None:
            return
        answer = session.jobs.reclaimable(wants, victims)
        half = answer[: len(answer) // 2]
        for task in half:
            session.evict(task)
        assert session.jobs.reclaimable(wants, answer[len(half) :]) == answer[len(half) :]


def test_the_worlds_are_not_all_alike():
    """A pod of a queue that deserves nothing goes; one of a queue that deserves it stays."""
    world = {"deserved": [2, 0, 2, 0], "weight": [1] * 4, "running": [(1, 2), (2, 2)], "gangs": [], "asks": (0, 2)}
    for kind in ("KAI", "capacity", "tree"):
        make, by_kai = KINDS[kind]
        cluster = build(world | {"departments": False}, by_kai)
        with Session(cluster, [make()]) as session:
            wants = session.job_of(cluster.waiting["default/wants"])
            victims = [cluster.running["default/r1"], cluster.running["default/r0"]]
            assert [task.name for task in session.jobs.reclaimable(wants, victims)] == ["r0"]

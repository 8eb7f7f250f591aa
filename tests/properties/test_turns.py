"""Turns that are kept up to date are the same as asking about everybody every time, whatever happens in between."""

from functools import cmp_to_key
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.texts import KAI_DEFAULT, VOLCANO_BUILT_IN
from tests.groups import add, group, kai_group, kai_queue, member, priority_class, queue
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.actions.jobqueue import QueueOrder
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP
from tonnage.config.load import load_text
from tonnage.framework.session import Session

NODES = 3
CAPACITY = VOLCANO_BUILT_IN.replace("name: proportion\n", "name: capacity\n    enableHierarchy: true\n")
"""Volcano's, with queues that are parts of others."""
STEPS = ("place", "place", "place", "unplace", "evict", "restore", "next", "next", "done", "drop")

queues = st.lists(
    st.fixed_dictionaries(
        {
            "parent": st.integers(0, 5),
            "quota": st.sampled_from([-1, 0, 1, 2, 4]),
            "weight": st.integers(0, 2),
            "priority": st.sampled_from([100, 100, 200]),
        }
    ),
    min_size=1,
    max_size=9,
)
jobs = st.lists(
    st.fixed_dictionaries(
        {
            "queue": st.integers(0, 8),
            "gpus": st.lists(st.integers(1, 3), min_size=1, max_size=3),
            "minimum": st.integers(1, 3),
            "priority": st.sampled_from([0, 50, 100]),
            "created": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]),
            "runs": st.booleans(),
        }
    ),
    min_size=1,
    max_size=10,
)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 20)), max_size=15)


def build(by_kai: bool, given_queues: list[dict[str, Any]], given_jobs: list[dict[str, Any]]) -> Cluster:
    """A tree of KAI's or Volcano's queues, with jobs that wait and some that run."""
    cluster = scenario(*(node(f"n{number}", gpus=4) for number in range(NODES)))
    for number, one in enumerate(given_queues):
        name = f"q{number}"
        above = f"q{one['parent']}" if one["parent"] < number else None
        if by_kai:
            parent = {"parentQueue": above} if above else {}
            share = {"gpu": {"quota": one["quota"], "limit": -1, "overQuotaWeight": one["weight"]}}
            add(cluster, kai_queue(name, priority=one["priority"], resources=share, **parent))
        else:
            parent = {"parent": above} if above else {}
            deserved = {"nvidia.com/gpu": max(one["quota"], 0)}
            add(cluster, queue(name, weight=one["weight"] + 1, priority=one["priority"], deserved=deserved, **parent))
    for number, one in enumerate(given_jobs):
        name, about = f"j{number}", {"queue": f"q{one['queue'] % len(given_queues)}", "created": one["created"]}
        add(cluster, priority_class(f"p{one['priority']}", one["priority"]))
        about["priorityClassName"] = f"p{one['priority']}"
        add(cluster, kai_group(name, one["minimum"], **about) if by_kai else group(name, one["minimum"], **about))
        for place, gpus in enumerate(one["gpus"]):
            on = f"n{number % NODES}" if one["runs"] and not place else None
            if by_kai:
                cluster.upsert_pod(pod(f"{name}-{place}", gpus, on=on, annotations={KAI_GROUP: name}))
            else:
                cluster.upsert_pod(member(f"{name}-{place}", name, gpus, on=on))
    return cluster


def happen(session: Session, order: QueueOrder, left: list[str], what: str, which: int) -> None:
    """Something that actions do."""
    cluster = session.cluster
    tasks = list({"place": cluster.waiting, "unplace": cluster.reserved}.get(what, cluster.running).values())
    if what in ("place", "unplace", "evict", "restore") and tasks:
        task = tasks[which % len(tasks)]
        if what == "unplace":
            session.unplace(task.key)
        else:
            {"place": session.place, "evict": session.evict, "restore": session.restore}[what](task)
    elif what in ("next", "done"):
        waiting = session.waiting_jobs()
        name = left[which % len(left)]
        of_queue = [job for job in waiting if job.queue == name]
        session.set_next_job(name, of_queue[which % len(of_queue)] if of_queue and what == "next" else None)
    elif what == "drop" and len(left) > 1:
        order.drop(left.pop(which % len(left)))


@settings(max_examples=examples(60))
@given(st.sampled_from([KAI_DEFAULT, VOLCANO_BUILT_IN, CAPACITY]), queues, jobs, steps)
def test_the_queue_served_next_is_the_first_of_all(text, given_queues, given_jobs, given_steps):
    cluster = build(text == KAI_DEFAULT, given_queues, given_jobs)
    divided = cluster.groups.hierarchy().children
    left = sorted(name for name in cluster.queues if name not in divided)
    with Session(cluster, load_text(text, "FILE").plugins) as session:
        order = QueueOrder(session, left)
        for what, which in [*given_steps, ("", 0)]:
            first = min([cluster.queues[name] for name in left], key=cmp_to_key(session.queues.compare))
            assert order.first() == first
            happen(session, order, left, what, which)


@settings(max_examples=examples(40))
@given(st.booleans(), jobs)
def test_jobs_are_in_the_order_that_comparing_them_gives(by_kai, given_jobs):
    cluster = build(by_kai, [{"parent": 0, "quota": 1, "weight": 1, "priority": 100}], given_jobs)
    with Session(cluster, load_text(KAI_DEFAULT if by_kai else VOLCANO_BUILT_IN, "FILE").plugins) as session:
        found = session.waiting_jobs()
        assert session.jobs.ordered(found) == sorted(found, key=cmp_to_key(session.jobs.compare))


@settings(max_examples=examples(25))
@given(jobs, steps)
def test_a_warm_session_decides_as_a_new_one_does(given_jobs, given_steps):
    cluster = build(True, [{"parent": 0, "quota": 1, "weight": 1, "priority": 100}], given_jobs)
    plugins, others = (load_text(KAI_DEFAULT, "FILE").plugins for _ in range(2))
    with Session(cluster, plugins) as session:
        order = QueueOrder(session, ["q0"])
        for what, which in given_steps:
            happen(session, order, ["q0"], what, which)
            for task in list(cluster.waiting.values())[:3]:
                warm = session.decide(task).record()
                with Session(cluster, others) as fresh:
                    assert warm == fresh.decide(task).record()

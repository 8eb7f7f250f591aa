"""Random crowds: room is made whole or not at all, nothing is given twice, losses are due, and cycles come to rest."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.crowds import ACTIONS, QUEUES, VOLCANOS_ACTIONS, Crowd, overfull, picture, plugins, worlds
from tests.properties.restless import Restless
from tests.properties.worlds import examples, phases
from tonnage.actions.catalog import make_actions
from tonnage.actions.eviction.consolidation import Consolidation
from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.actions.eviction.preempt import Preempt
from tonnage.actions.eviction.reclaim import Reclaim
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.cycle import document, run_cycle
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session

MOST_CYCLES = 6
"""After so many cycles nobody is stopped any more."""


def started(cluster: Cluster) -> dict[str, int]:
    """How many pods of each job run and stay, or have a place."""
    return {key: job.started() for key, job in cluster.groups.jobs.items()}


@settings(max_examples=examples(60), deadline=None, phases=phases())
@given(world=worlds)
def test_a_gang_gets_all_it_needs_or_nothing_and_nothing_is_given_twice(world):
    crowd = Crowd(world)
    cluster = crowd.build()
    assert overfull(cluster) == []
    before = started(cluster)
    with Session(cluster, plugins(world)) as session:
        run_cycle(session, make_actions(ACTIONS))
        assert overfull(cluster) == []
        with session.looking_ahead():
            assert (cluster.columns.free >= 0).all()
            assert (cluster.columns.card_free >= 0).all()
        for key, job in cluster.groups.jobs.items():
            if any(task.key in cluster.reserved for task in job.tasks.values()):
                assert not job.lacking(), key
            gone = {one.pod for one in session.evictions} & job.tasks.keys()
            assert all(job.may_evict(job.tasks[pod]) for pod in gone), gone
            left = sum(task.key in cluster.running and task.key not in cluster.leaving for task in job.tasks.values())
            again = sum(f"{key} (again)" in cluster.reserved for key in gone)
            if gone and left:
                assert left + again >= min(job.minimum, before[key]), key


class Watched(EvictionAction):
    """Looks whether an attempt for a job that came to nothing has left any trace."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0
        self._last: tuple[Sequence[Task], Any] | None = None

    def why_not(self, session: Session, job: Job, tasks: Sequence[Task]) -> Reason | None:
        self.compare(session)
        self._last = tasks, picture(session)
        return super().why_not(session, job, tasks)

    def run(self, session: Session) -> None:
        super().run(session)
        self.compare(session)

    def compare(self, session: Session) -> None:
        if self._last is not None and not any(task.key in session.cluster.reserved for task in self._last[0]):
            assert picture(session) == self._last[1]
            self.compared += 1
        self._last = None


@pytest.mark.parametrize("action", [Preempt, Reclaim, Consolidation])
def test_an_attempt_that_comes_to_nothing_leaves_everything_as_it_was(action):
    compared = 0

    @settings(max_examples=examples(40), deadline=None, phases=phases())
    @given(world=worlds)
    def holds(world):
        nonlocal compared
        watched = type("Watching", (Watched, action), {})()
        with Session(Crowd(world).build(), plugins(world)) as session:
            session.queues.records()
            run_cycle(session, [watched])
        compared += watched.compared

    holds()
    assert compared >= 5, "too few attempts came to nothing"


def cards_of(crowd: Crowd, cluster: Cluster, queue: int) -> float:
    """What the pods of a queue hold that stay, in cards."""
    sizes = {"whole": lambda job: job["cards"], "half": lambda job: 0.5, "slice": lambda job: 0.5}
    held = 0.0
    for number, job in enumerate(crowd.world["jobs"]):
        if job["queue"] == queue:
            pods = [f"default/j{number}-{place}" for place in range(job["pods"])]
            held += sizes[job["kind"]](job) * len([pod for pod in pods if pod in cluster.running])
    return held


def test_nobody_within_what_it_deserves_loses_anything_to_another_queue():
    compared = 0

    @settings(max_examples=examples(80), deadline=None, phases=phases())
    @given(world=worlds)
    def holds(world):
        nonlocal compared
        world |= {"rules": "kai", "departments": False}
        crowd = Crowd(world)
        cluster = crowd.build()
        held = [cards_of(crowd, cluster, number) for number in range(len(QUEUES))]
        with Session(cluster, plugins(world)) as session:
            run_cycle(session, make_actions(["reclaim"]))
            lucky = {decision.job.queue for decision in session.decisions.values() if decision.node is not None}
            for eviction in session.evictions:
                queue = session.job_of(cluster.running[eviction.pod]).queue
                number = QUEUES.index(queue)
                if queue not in lucky and not eviction.to:
                    limit = world["limit"][number]
                    due = world["deserved"][number]
                    assert held[number] > (due if limit < 0 else min(due, limit)), eviction
                    compared += 1

    holds()
    assert compared >= 5, "too few evictions to say anything"


def evictions_by_cycle(world: dict[str, Any], actions: Sequence[str], *, keeps_promises: bool) -> list[list[Any]]:
    """Who was stopped in each of some cycles more than it should take until nobody is."""
    crowd = Crowd(world)
    cluster = crowd.build()
    history = []
    for _ in range(MOST_CYCLES + 2):
        with Session(cluster, plugins(world)) as session:
            run_cycle(session, make_actions(actions))
            history.append([(one.pod, one.for_, one.reason, one.to) for one in session.evictions])
            crowd.settle(session, keeps_promises)
    return history


@settings(max_examples=examples(30), deadline=None, phases=phases())
@given(world=worlds)
def test_cycles_come_to_rest(world):
    history = evictions_by_cycle(world, ACTIONS, keeps_promises=True)
    assert history[MOST_CYCLES:] == [[], []], history


@settings(max_examples=examples(30), deadline=None, phases=phases())
@given(world=worlds)
def test_cycles_come_to_rest_even_if_promises_are_forgotten(world):
    """With the actions of the peer whose rules they are: nobody is stopped whose place would be given back.

    Where nodes or cards are filled evenly, as by Volcano's plugins here, pods that move may come back to where they
    were if nobody keeps the place for which they went.
    """
    by_kai = world["rules"] == "kai"
    history = evictions_by_cycle(world, ACTIONS if by_kai else VOLCANOS_ACTIONS, keeps_promises=False)
    if by_kai or not any(to for cycle in history for *_, to in cycle):
        assert history[MOST_CYCLES:] == [[], []], history


@settings(max_examples=examples(40), deadline=None, phases=phases())
@given(world=worlds, chance=st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_told_makes_no_difference(world, chance):
    crowd = Crowd(world)
    told = []
    for cluster in (crowd.build(), crowd.build(chance)):
        with Session(cluster, plugins(world)) as session:
            told.append(document(session, run_cycle(session, make_actions(ACTIONS))))
    assert told[1].evictions == told[0].evictions
    assert told[1].jobs == told[0].jobs
    assert told[1].queues == told[0].queues
    places = [{record.pod: (record.outcome, record.node) for record in one.decisions} for one in told]
    assert places[1] == places[0]


def could_stay(world: dict[str, Any]) -> dict[str, bool]:
    """One pod waits: whether it would fit in its place with each of the jobs that lose pods back in theirs."""
    waiting = [job for job in world["jobs"] if not job["runs"]][:1]
    world["jobs"] = [job for job in world["jobs"] if job["runs"]] + [job | {"pods": 1} for job in waiting]
    crowd = Crowd(world)
    with Session(crowd.build(), plugins(world)) as session:
        run_cycle(session, make_actions(ACTIONS))
        found = [decision for decision in session.decisions.values() if decision.node is not None]
        evictions = list(session.evictions)
        victims = {one.pod: session.job_of(session.cluster.running[one.pod]) for one in evictions}
    if not evictions or len(found) > 1 or any(one.to for one in evictions):
        return {}
    (placed,) = found
    answers = {}
    for back in Counter(job.key for job in victims.values()):
        cluster = crowd.build()
        for pod, job in victims.items():
            if job.key != back:
                cluster.remove_pod(pod)
        with Session(cluster, plugins(world)) as session:
            task = cluster.waiting[placed.task.key]
            queue = cluster.queues[placed.job.queue]
            among = cluster.mask((placed.node,))
            fits = not session.queues.why_not_allocatable(queue, task) and session.decide(task, among).node is not None
            answers[back] = fits
    return answers


def test_nobody_has_to_go_who_could_have_stayed():
    compared = 0

    @settings(max_examples=examples(50), deadline=None, phases=phases())
    @given(world=worlds)
    def holds(world):
        nonlocal compared
        answers = could_stay(world)
        assert not any(answers.values()), answers
        compared += len(answers)

    holds()
    assert compared >= 5, "too few evictions to say anything"


@settings(max_examples=examples(8), deadline=None, phases=phases())
@given(world=worlds, chance=st.randoms(use_true_random=False))
def test_evictions_end_although_controllers_make_stopped_pods_again(world, chance):
    """With every action for every kind of rules; after the last arrival, nobody is stopped for ever."""
    ongoing = Restless(world, ACTIONS, chance)
    ongoing.run(200)
    assert not any(ongoing.history[150:]), ongoing.history

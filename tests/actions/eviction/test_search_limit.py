"""The limit of searches: pods of one tenant for whom searches never end slow down nobody's else, and no job starves."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.actions.eviction.making_room import BUILD, INFERENCE, crowd, evicted, job, kai, node
from tests.config.texts import KAI_DEFAULT, load
from tests.groups import Outcome
from tests.neighbours import HOST, labelled, term
from tests.plugins.queues.teams import team
from tonnage.actions.catalog import make_actions
from tonnage.actions.eviction import searchlimit
from tonnage.actions.eviction.searchlimit import SearchLimit
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.framework.action import Action
from tonnage.framework.cycle import document, run_cycle
from tonnage.framework.reasons import NOT_FINISHED
from tonnage.framework.session import Session
from tonnage.model.pod import Pod

NODES, VICTIMS = 20, 4


def of(namespace: str, things: list[Any], *, app: str = "", far: tuple[str, ...] = ()) -> list[Any]:
    """A job in a namespace, whose pods belong to an app and must be far from those of others, in any namespace."""
    made = []
    for one in things:
        one = replace(one, metadata=replace(one.metadata, namespace=namespace, labels={"app": app}))
        if isinstance(one, Pod):
            terms = [term(HOST, name, namespaces=["default", "hostile", "honest"]) for name in far]
            one = replace(one, spec=replace(one.spec, affinity=labelled("x", far=terms).spec.affinity))
        made.append(one)
    return made


def shared(*more: Any) -> Cluster:
    """Full nodes. On each, one pod may not be stopped; on all but the last it is of the app that enemies avoid."""
    nodes = [node(f"n{n:02d}", VICTIMS + 1) for n in range(NODES)]
    for one in nodes:
        one.metadata.labels[HOST] = one.metadata.name
    running = [
        *[of("default", job(f"run-{n:02d}-{m}", "q", on=f"n{n:02d}")) for n in range(NODES) for m in range(VICTIMS)],
        *[
            of("default", job(f"stay-{n:02d}", "q", priority=INFERENCE, on=f"n{n:02d}"), app=f"stay{n > 0:d}")
            for n in range(NODES)
        ],
    ]
    return crowd(*nodes, team("q", NODES * (VICTIMS + 1)), *running, *more)


def enemies(count: int) -> list[list[Any]]:
    """Jobs for which a search looks at all nodes in vain, each with terms of its own."""
    far = ("stay0", "stay1", *(f"none-{n}" for n in range(40)))
    return [of("hostile", job(f"enemy-{n:02d}", "q", priority=BUILD), app=f"enemy-{n}", far=far) for n in range(count)]


def preempting(limit: int, monkeypatch: pytest.MonkeyPatch) -> list[Action]:
    """The action preempt with a limit of so many trials."""
    monkeypatch.setattr(searchlimit, "FEWEST_TRIALS", 1)
    actions = make_actions(("preempt",))
    actions[0]._limit = SearchLimit(limit)
    return actions


def another_cycle(cluster: Cluster, actions: list[Action]) -> Outcome:
    with Session(cluster, load(KAI_DEFAULT).plugins) as session:
        return Outcome(session, document(session, run_cycle(session, actions)))


def unfinished(outcome: Outcome) -> list[str]:
    waits = outcome.session.waits.items()
    return sorted(job.partition("/")[2] for job, reasons in waits if reasons["preempt"].name == NOT_FINISHED)


def test_one_tenants_many_searches_cost_no_more_than_the_limit_and_others_get_their_room(removed):
    honest = of("honest", job("honest", "q", priority=BUILD))
    cluster = shared(*enemies(30), honest)
    outcome = kai(cluster, "allocate", "preempt")
    assert len(evicted(outcome)) == 1
    assert [eviction.for_ for eviction in outcome.session.evictions] == ["honest/honest"]
    # Without a limit each of the 30 would cost 200 removals, each of which is more than one trial.
    assert len(removed) < searchlimit.MOST_TRIALS / 2 / (1 + 42 // searchlimit.TERMS_PER_TRIAL)
    assert "enemy-29" in unfinished(outcome)
    message = outcome.session.waits["hostile/enemy-29"]["preempt"].message
    assert "it is not the turn of hostile/enemy-29" in message


def test_a_search_that_was_stopped_goes_on_until_it_finds_the_only_place(monkeypatch):
    picky = of("hostile", job("picky", "q", priority=BUILD), far=("stay1",))
    cluster, actions = shared(picky), preempting(200, monkeypatch)
    outcomes = [another_cycle(cluster, actions)]
    while unfinished(outcomes[-1]):
        assert not evicted(outcomes[-1])
        outcomes.append(another_cycle(cluster, actions))
        assert len(outcomes) < 50
    assert len(outcomes) > 3
    assert evicted(outcomes[-1])[0].startswith("run-00")


def test_a_search_in_vain_ends_after_some_cycles(monkeypatch):
    cluster, actions = shared(*enemies(1)), preempting(1000, monkeypatch)
    cycles = 1
    while unfinished(outcome := another_cycle(cluster, actions)):
        cycles += 1
        assert cycles < 50
    assert cycles > 3
    assert outcome.session.waits["hostile/enemy-00"]["preempt"].name == "NoRoomCanBeMade"


def test_every_job_of_a_namespace_gets_its_turn(monkeypatch):
    picky = of("hostile", job("picky", "q", priority=BUILD, created="2030-01-01T00:00:00Z"), far=("stay1",))
    cluster, actions = shared(*enemies(5), picky), preempting(5000, monkeypatch)
    for _ in range(50):
        outcome = another_cycle(cluster, actions)
        if evicted(outcome):
            break
    assert [eviction.for_ for eviction in outcome.session.evictions] == ["hostile/picky"]


def test_once_all_had_their_turn_all_have_another(monkeypatch):
    cluster, actions = shared(*enemies(4)), preempting(6000, monkeypatch)
    ended: dict[str, int] = {}
    for _ in range(30):
        for name, reasons in another_cycle(cluster, actions).session.waits.items():
            ended[name] = ended.get(name, 0) + (reasons["preempt"].name == "NoRoomCanBeMade")
    assert len(ended) == 4
    assert min(ended.values()) > 1
    assert max(ended.values()) - min(ended.values()) <= 1


def test_namespaces_share_the_trials_and_pay_back_what_they_spent_beyond():
    limit = SearchLimit(10_000)
    jobs = [Job(key, {}) for key in ("a/one", "a/two", "b/one")]
    limit.begin(jobs)
    assert limit.allowance == 5000
    progress = limit.turn(jobs[0])
    progress._count(12_000)
    progress.found(0)
    assert not progress.is_over
    limit.ended(jobs[0], progress, room_was_made=False)
    assert limit.turn(jobs[1]) is None
    assert limit.turn(jobs[2]) is not None
    limit.begin(jobs)
    assert limit.turn(jobs[1]) is None
    limit.begin(jobs)
    assert limit.turn(jobs[0]) is None, "the other one comes first"
    assert limit.turn(jobs[1]).allowance == 3000


def test_however_many_namespaces_each_may_try_something():
    limit = SearchLimit()
    limit.begin([Job(f"ns-{n}/job", {}) for n in range(1000)])
    assert limit.allowance == searchlimit.FEWEST_TRIALS

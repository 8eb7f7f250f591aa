"""Random clusters and gangs: whole or not at all, nothing over-committed, and what is undone leaves no trace."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import add, cycle, group, member
from tests.properties.worlds import examples
from tests.scenario import node, pod, scenario
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.framework.cycle import run_cycle
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins

ROLES = ("a", "b")

sizes = st.lists(st.integers(0, 3), min_size=1, max_size=6)
gangs = st.fixed_dictionaries(
    {
        "sizes": sizes,
        "minimum": st.integers(0, 6),
        "roles": st.dictionaries(st.sampled_from(ROLES), st.integers(0, 3)),
        "priority": st.integers(0, 2),
        "running": st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=2),
    }
)
worlds = st.fixed_dictionaries(
    {"nodes": st.lists(st.integers(0, 5), min_size=1, max_size=4), "gangs": st.lists(gangs, min_size=1, max_size=4)}
)


def build(world: dict[str, Any]) -> Cluster:
    cluster = scenario(*(node(f"n{i}", gpus=cards, slots=1) for i, cards in enumerate(world["nodes"])))
    for number, gang in enumerate(world["gangs"]):
        name = f"g{number}"
        add(cluster, group(name, gang["minimum"], minTaskMember=gang["roles"]))
        for i, cards in enumerate(gang["sizes"]):
            role = ROLES[i % 2]
            cluster.upsert_pod(member(f"{name}-{i}", name, cards, role=role, priority=gang["priority"]))
        for i, (where, leaves) in enumerate(gang["running"]):
            on = f"n{where % len(world['nodes'])}"
            cluster.upsert_pod(member(f"{name}-r{i}", name, role="a", on=on, terminating=leaves))
    cluster.upsert_pod(pod("plain", 1))
    return cluster


def picture(cluster: Cluster) -> tuple[Any, ...]:
    """Everything that a cycle can change."""
    cluster.settle()
    columns = cluster.columns
    counts = {key: [job.count(status) for status in range(6)] for key, job in cluster.groups.jobs.items()}
    arrays = tuple(array.tobytes() for array in (columns.free, columns.card_free, columns.node_used))
    return arrays, set(cluster.waiting), dict(cluster.holders), set(cluster.pipelined), set(cluster.leaving), counts


class Never(Plugin):
    """Finds no job ready."""

    name = "never"

    def on_session_open(self, session: Session) -> None:
        session.add_job_ready(lambda job: False)
        session.add_job_pipelined(lambda job: False)


@settings(max_examples=examples(150))
@given(worlds)
def test_a_gang_is_placed_whole_or_not_at_all_and_nothing_is_given_twice(world):
    cluster = build(world)
    before = {key: job.started() for key, job in cluster.groups.jobs.items()}
    done = cycle(cluster, actions=("allocate", "backfill"))
    assert set(done.decisions) == {key.partition("/")[2] for key in {*cluster.waiting, *cluster.reserved}}
    for key, job in cluster.groups.jobs.items():
        starts = sum(d.outcome == "placed" for d in done.decisions.values() if d.job.key == key)
        held = sum(task.key in cluster.reserved for task in job.tasks.values())
        assert job.started() == before[key] + starts
        if starts:
            assert job.started() >= job.minimum
        if held:
            assert not job.lacking()
    assert (cluster.columns.free >= 0).all()
    assert (cluster.columns.card_free >= 0).all()
    held_cards = sorted(c for d in done.decisions.values() if d.node for c in [g.uuid for g in d.devices])
    assert len(held_cards) == len(set(held_cards))


@settings(max_examples=examples(60))
@given(worlds)
def test_jobs_that_are_never_ready_leave_everything_as_it_was(world):
    cluster = build(world)
    before = picture(cluster)
    with Session(cluster, [*default_plugins(), Never()]) as session:
        run_cycle(session, make_actions(("enqueue", "allocate", "backfill")))
        assert not any(decision.outcome == "placed" for decision in session.decisions.values())
    assert picture(cluster) == before


@settings(max_examples=examples(60))
@given(worlds)
def test_cycles_take_nothing_away_and_come_to_rest(world):
    """A later cycle may place a gang that an earlier one did not: others have taken places in between, and pods are
    tried in order without searching for a better combination. But every such cycle places something."""
    cluster = build(world)
    for _ in range(len(world["gangs"]) + 2):
        before = picture(cluster)
        placed = cycle(cluster, actions=("allocate", "backfill")).placed
        after = picture(cluster)
        assert before[2].items() <= after[2].items()
        if not placed:
            break
    assert not placed
    assert cycle(cluster, actions=("allocate", "backfill")).placed == {}
    again = picture(cluster)
    assert all(np.array_equal(one, other) for one, other in zip(after[0], again[0], strict=True))
    assert after[1:] == again[1:]

"""Random clusters at random times: who is young keeps what it needs, and without a time nobody is stopped."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import add, cycle, group, member
from tests.properties.worlds import examples
from tests.scenario import node, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import LAST_START, STALE_SINCE
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.timestamp import rfc3339
from tonnage.plugins.jobs.minruntime import MinRuntime

NOW = 1_800_000_000
MINIMUM = 300
ROLES = ("a", "b")

ages = st.one_of(st.none(), st.integers(-10, 600))
jobs = st.fixed_dictionaries(
    {
        "minimum": st.integers(0, 6),
        "roles": st.dictionaries(st.sampled_from(ROLES), st.integers(0, 3)),
        "phases": st.lists(st.sampled_from(("Running", "Running", "Pending", "Succeeded", "leaves")), max_size=7),
        "started": ages,
        "pods_started": ages,
        "stale": ages,
    }
)
worlds = st.lists(jobs, min_size=1, max_size=4)


def build(world: list[dict[str, Any]], now: int | None) -> Cluster:
    cluster = scenario(node("n", pods="1000"))
    cluster.now = now
    for number, facts in enumerate(world):
        said = {LAST_START: facts["started"], STALE_SINCE: facts["stale"]}
        annotations = {name: rfc3339(NOW - age) for name, age in said.items() if age is not None}
        add(cluster, group(f"g{number}", facts["minimum"], minTaskMember=facts["roles"], annotations=annotations))
        for i, phase in enumerate(facts["phases"]):
            started = None if facts["pods_started"] is None else rfc3339(NOW - facts["pods_started"] - i)
            state: dict[str, Any] = {"terminating": True} if phase == "leaves" else {"phase": phase}
            cluster.upsert_pod(
                member(f"g{number}-{i}", f"g{number}", role=ROLES[i % 2], on="n", started=started, **state)
            )
    return cluster


def is_young(facts: dict[str, Any], job: Job) -> bool:
    """Whether a job is known to have run for less than the minimum, by its annotation and by its pods.

    A job is as old as the last pod of its minimum, and older if its annotation says so; a time to come is none.
    """
    running = {int(task.name.rpartition("-")[2]) for task in job.tasks_that(PodStatus.RUNNING)}
    if facts["pods_started"] is not None:
        ages = sorted((age for i in running if (age := facts["pods_started"] + i) >= 0), reverse=True)
    else:
        ages = [0 for i in running if facts["phases"][i] == "Pending"]
    known = ages[max(min(job.minimum, len(ages)) - 1, 0) :][:1]
    if facts["started"] is not None and facts["started"] >= 0:
        known.append(facts["started"])
    return bool(known and max(known) < MINIMUM)


class AllowsAll(Plugin):
    name = "allows-all"

    def on_session_open(self, session: Session) -> None:
        session.add_preemptable(lambda job, victims: victims)
        session.add_reclaimable(lambda job, victims: victims)


def ask(cluster: Cluster, order: Any) -> list[str]:
    """Which pods minimum runtimes leave to be stopped."""
    both = {"default_preempt_min_runtime": f"{MINIMUM}s", "default_reclaim_min_runtime": f"{MINIMUM}s"}
    with Session(cluster, [MinRuntime(MinRuntime.Arguments(**both)), AllowsAll()]) as session:
        victims = [cluster.running[key] for key in order if key not in cluster.leaving]
        found = session.jobs.preemptable(Job("default/urgent", {}), victims)
        assert found == session.jobs.reclaimable(Job("default/urgent", {}), victims)
        assert found == [task for task in victims if task in found]
    return [task.key for task in found]


@settings(max_examples=examples(200))
@given(worlds, st.randoms(use_true_random=False))
def test_a_young_job_keeps_its_minimum_and_no_more_than_that_is_kept(world, random):
    cluster = build(world, NOW)
    order = sorted(cluster.running)
    random.shuffle(order)
    allowed = set(ask(cluster, order))
    for number, facts in enumerate(world):
        job = cluster.groups.jobs.get(f"default/g{number}")
        if job is None:
            continue
        running = job.tasks_that(PodStatus.RUNNING)
        lost = [task for task in running if task.key in allowed]
        if not is_young(facts, job):
            assert len(lost) == len(running)
            continue
        assert not lost or job.count(PodStatus.RUNNING, PodStatus.SUCCEEDED) - len(lost) >= job.minimum
        for role, minimum in job.roles.items():
            of_role = [task for task in lost if job.group is not None and job.group.role(task.pod) == role]
            assert not of_role or job.count(PodStatus.RUNNING, PodStatus.SUCCEEDED, role=role) - len(of_role) >= minimum
        if not job.roles:
            surplus = job.count(PodStatus.RUNNING, PodStatus.SUCCEEDED) - job.minimum
            assert len(lost) == min(max(surplus, 0), len(running))


@settings(max_examples=examples(100))
@given(worlds)
def test_without_a_time_nothing_is_evicted_and_nobody_is_spared(world):
    cluster = build(world, None)
    before = set(cluster.leaving)
    order = sorted(cluster.running)
    assert ask(cluster, order) == [key for key in order if key not in before]
    done = cycle(cluster, actions=("allocate", "stalegangeviction"))
    assert (done.document.evictions, done.document.stale) == ([], [])
    assert cluster.leaving == before


@settings(max_examples=examples(200))
@given(worlds)
def test_stale_gangs_go_whole_or_not_at_all_and_nobody_else_does(world):
    cluster = build(world, NOW)
    stale = {}
    for key, job in cluster.groups.jobs.items():
        lacks = job.count(PodStatus.RUNNING) and not job.count(PodStatus.SUCCEEDED) and job.lacking()
        stale[key] = {task.key for task in job.tasks_that(PodStatus.RUNNING)} if lacks else set()
    done = cycle(cluster, actions=("stalegangeviction",))
    assert [gang.job for gang in done.document.stale] == sorted(key for key in stale if stale[key])
    expected = set()
    for number, facts in enumerate(world):
        if facts["stale"] is not None and facts["stale"] >= 60:
            expected |= stale.get(f"default/g{number}", set())
    assert {eviction.pod for eviction in done.document.evictions} == expected

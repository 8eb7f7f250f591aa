"""Cycles that raise: the job at fault is set aside, the others are placed at once, and nothing is half done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.actions.eviction.making_room import crowd, job, node
from tests.config.texts import KAI_DEFAULT, load
from tests.injecting import raising_at
from tests.plugins.queues.teams import team
from tests.recounting import differences
from tests.scenario import node as bare
from tests.scenario import pod, scenario
from tests.scheduler.evictions.evicting import Stage, names
from tests.scheduler.poison import EVENT, OPEN, ORDER, VALID, VICTIM, Poison, poisoned
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.framework.plugin import Plugin
from tonnage.model.pod import Pod
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleFailedError, CycleRunner
from tonnage.scheduler.setaside import LONGEST_BACKOFF, MOST_FAILURES, PERIOD

HIGH = 75


def with_poison() -> list[Plugin]:
    return [*default_plugins(), Poison()]


def stage(*things: Any, actions: tuple[str, ...] = ("allocate",)) -> Stage:
    return Stage(scenario(*things), *actions, plugins=with_poison)


def set_aside(made: Stage) -> list[str]:
    return [failure.job.key for failure in made.cycle_runner.take_failed()]


@pytest.mark.parametrize("point", [VALID, ORDER, EVENT])
def test_the_others_are_placed_in_the_same_cycle(point: str) -> None:
    """Wherever one job makes the cycle raise: about the job, about the order of jobs, or while it is placed."""
    pods = [pod(f"good{number}", cpu="1") for number in range(5)]
    made = stage(bare("a", cpu="8"), *pods, poisoned(pod("bad", cpu="1"), point))
    done = made.cycle()
    assert names(done) == {f"good{number}": "a" for number in range(5)}
    assert set_aside(made) == ["default/bad"]
    assert made.cluster.reserved == {}
    assert made.cycle_runner.failed_cycles()["allocate"] >= 1


def test_the_message_names_the_action_and_nothing_of_the_error_but_its_kind() -> None:
    made = stage(bare("a", cpu="8"), poisoned(pod("bad", cpu="1"), VALID))
    made.cycle()
    (failure,) = made.cycle_runner.take_failed()
    assert "RuntimeError in allocate" in failure.message
    assert "poisoned by" not in failure.message


def test_it_comes_back_after_a_backoff_that_doubles_and_is_bounded() -> None:
    made = stage(bare("a", cpu="8"), poisoned(pod("bad", cpu="1"), VALID))
    now, waits = 1000.0, []
    for _ in range(12):
        made.cycle(now=now)
        assert set_aside(made) == ["default/bad"]
        back = made.cycle_runner.set_aside.next_return()
        assert back is not None
        made.cycle(now=back - 0.1)
        assert set_aside(made) == [], "nobody looks at it before"
        waits.append(back - now)
        now = back
    assert waits[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert waits[-1] == LONGEST_BACKOFF


def test_a_job_that_is_mended_is_placed_at_once() -> None:
    made = stage(bare("a", cpu="8"), poisoned(pod("bad", cpu="1"), VALID))
    made.cycle(now=1000.0)
    made.cluster.upsert_pod(pod("bad", cpu="1"))
    assert names(made.cycle(now=1000.1)) == {"bad": "a"}
    assert not made.cycle_runner.set_aside


def test_a_status_that_changes_is_no_mending() -> None:
    bad = poisoned(pod("bad", cpu="1"), VALID)
    made = stage(bare("a", cpu="8"), bad)
    made.cycle(now=1000.0)
    made.cycle_runner.take_failed()
    made.cluster.upsert_pod(replace(bad, status=replace(bad.status, nominatedNodeName="a")))
    made.cycle(now=1000.1)
    assert set_aside(made) == []


def test_a_namespace_that_fails_again_and_again_is_left_out_as_a_whole() -> None:
    """Every failure costs another run, so whoever makes ever new poisoned jobs gets no turn for a minute."""
    bad = [poisoned(pod(f"bad{number}", cpu="1", namespace="foe"), VALID) for number in range(MOST_FAILURES + 5)]
    made = stage(bare("a", cpu="8"), *bad, pod("good", cpu="1", namespace="friend"))
    assert names(made.cycle(now=1000.0)) == {"good": "a"}
    assert len(set_aside(made)) == MOST_FAILURES + 1
    made.cluster.upsert_pod(pod("new", cpu="1", namespace="foe"))
    made.cluster.upsert_pod(pod("other", cpu="1", namespace="friend"))
    assert names(made.cycle(now=1001.0)) == {"other": "a"}
    assert set_aside(made) == []
    for one in bad:
        made.cluster.remove_pod(one.key)
    assert names(made.cycle(now=1001.0 + PERIOD)) == {"new": "a"}


def test_a_gang_is_set_aside_as_a_whole() -> None:
    group, *pods = job("gang", "q", 1, pods=3)
    last = pods.pop()
    assert isinstance(last, Pod)
    cluster = crowd(node("n0", 8), team("q", 8), [group, *pods, poisoned(last, EVENT)], job("good", "q", 1))
    made = Stage(cluster, "allocate", plugins=lambda: [*load(KAI_DEFAULT).plugins, Poison()])
    assert names(made.cycle()) == {"good-0": "n0"}
    assert cluster.waiting.keys() == {f"default/gang-{number}" for number in range(3)}


def test_an_action_that_fails_because_of_a_running_pod_is_left_out_and_nobody_is_blamed() -> None:
    """Whoever preempts meets the poisoned victim; `allocate` goes on for all of them."""
    victim = poisoned(pod("victim", cpu="8", on="a", namespace="foe"), VICTIM)
    high = [pod("high", cpu="8", priority=HIGH, namespace=f"team{number}") for number in range(5)]
    made = stage(
        bare("a", cpu="8"), bare("b", cpu="1"), victim, *high, pod("small", cpu="1"), actions=("allocate", "preempt")
    )
    done = made.cycle(now=1000.0)
    assert names(done) == {"small": "b"}
    assert set_aside(made) == []
    assert len(done.waiting) == 5
    assert made.promised == {}
    assert not made.cluster.leaving
    assert made.cycle_runner.failed_cycles()["preempt"] >= 1


def test_plugins_that_cannot_be_opened_fail_the_cycle_and_leave_nothing() -> None:
    made = stage(bare("a", cpu="8"), pod("good", cpu="1"), poisoned(pod("bad", cpu="1"), OPEN))
    with pytest.raises(CycleFailedError, match="poisoned by default/bad"):
        made.cycle()
    assert made.cluster.reserved == {}
    made.cluster.upsert_pod(pod("bad", cpu="1"))
    assert len(names(made.cycle())) == 2


def test_a_promised_place_is_freed_when_its_job_is_set_aside() -> None:
    made = stage(
        bare("a", cpu="2"),
        pod("low", cpu="2", on="a"),
        pod("high", cpu="2", priority=HIGH),
        actions=("allocate", "preempt"),
    )
    made.cycle(now=1000.0)
    assert made.promised == {"high": "a"}
    high = made.cluster.reserved["default/high"].pod
    made.cluster.upsert_pod(poisoned(high, VALID))
    made.cycle(now=1001.0)
    assert set_aside(made) == ["default/high"]
    assert made.promised == {}
    assert made.cluster.reserved == {}
    assert not made.cluster.leaving, "nobody is stopped for it"


# -- at any point


def busy() -> Stage:
    """A cluster where a cycle does all that it can: it places, promises, evicts and renews a promise."""
    there = [job(f"low{number}", "q", 1, on=f"n{number // 2}") for number in range(6)]
    nodes = [node(f"n{number}", 2) for number in range(5)]
    made = Stage(crowd(*nodes[:3], team("q", 4), team("r", 4), *there, job("first", "q", 2, priority=HIGH)))
    made.cycle()
    assert made.promised
    for one in nodes[3:]:
        made.cluster.upsert_node(one)
    for things in (
        job("gang", "q", 1, pods=2, minimum=2, priority=HIGH),
        job("claims", "r", 3, priority=HIGH),
        job("high", "q", 2, priority=HIGH),
        job("higher", "q", 2, priority=HIGH + 5),
        job("huge", "r", 9),
    ):
        for one in things:
            if isinstance(one, Pod):
                made.cluster.upsert_pod(one)
            else:
                made.cluster.groups.upsert(one)
    return made


@contextmanager
def failing_at(line: int) -> Iterator[list[int]]:
    """Count the lines of a cycle's first run, and raise at one of them."""
    seen, decide = [0], CycleRunner._decide
    with pytest.MonkeyPatch.context() as patch:

        def traced(runner: CycleRunner, *about: Any) -> Any:
            patch.undo()
            with raising_at(line) as lines:
                try:
                    return decide(runner, *about)
                finally:
                    seen[:] = lines

        patch.setattr(CycleRunner, "_decide", traced)
        yield seen


def statuses(cluster: Cluster, one: Job) -> list[int]:
    """The number of a job's pods by status, counted one by one."""
    there = [cluster.status(key) for key in one.tasks] + [PodStatus.SUCCEEDED] * len(one.finished)
    return [there.count(status) for status in PodStatus]


def lines_of_a_cycle() -> int:
    made = busy()
    with failing_at(-1) as seen:
        done = made.cycle(now=1000.0)
    assert done.placed
    assert done.plans
    return seen[0]


LINES = lines_of_a_cycle()


@given(line=st.integers(1, LINES))
@settings(max_examples=40, deadline=None)
def test_after_a_raise_at_any_line_nothing_is_half_done(line: int) -> None:
    made = busy()
    with failing_at(line):
        done = made.cycle_runner.run(frozenset(), 1000.0)
    cluster = made.cluster
    assert differences(cluster) == []
    bound = {decision.task.key for decision in done.placed}
    promised = {d.task.key for _, d in made.cycle_runner.nominations.nominated()}
    assert cluster.reserved.keys() == bound | promised, "a place is reserved that nobody binds"
    assert cluster.pipelined == promised
    victims = {v.key for plan in made.cycle_runner.nominations.plans for v in plan.victims}
    assert cluster.leaving <= victims, "a pod counts as leaving that nobody evicts"
    for one in cluster.groups.jobs.values():
        assert [one.count(status) for status in PodStatus] == statuses(cluster, one), one.key

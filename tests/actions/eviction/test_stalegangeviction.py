"""Gangs that have lost pods are stopped after a while, so that they can start whole again."""

import pytest

from tests.groups import add, cycle, group, kai_group, member, members
from tests.kai_cases import NOW
from tests.scenario import node, pod, scenario
from tonnage.cluster.jobs.group import STALE_SINCE
from tonnage.framework.decision import Eviction
from tonnage.model.timestamp import rfc3339

ACTIONS = ("allocate", "stalegangeviction")


def since(seconds):
    return {STALE_SINCE: rfc3339(NOW - seconds)}


def world(*things, now=NOW):
    pods = [thing for thing in things if hasattr(thing, "node")]
    cluster = scenario(node("a", gpus=2, slots=1), *pods)
    cluster.now = now
    return add(cluster, *(thing for thing in things if thing not in pods))


def evicted(cluster):
    return [eviction.pod for eviction in cycle(cluster, actions=ACTIONS).session.evictions]


@pytest.mark.parametrize("make", [group, kai_group])
def test_what_is_left_of_a_gang_goes_after_its_grace_period(make):
    cluster = world(make("train", 3, annotations=since(61)), *members("train", 2, 1, on="a"))
    done = cycle(cluster, actions=ACTIONS)
    reason = "StaleGang: default/train runs with 2 of 3 pods for 1m1s, and may for 1m"
    assert done.document.evictions == [
        Eviction(f"default/train-{i}", "a", "default/train", reason, action="stalegangeviction") for i in range(2)
    ]
    assert cluster.leaving == {"default/train-0", "default/train-1"}


def test_a_gang_that_was_not_known_to_lack_pods_stays_and_the_cycle_says_since_when_it_does():
    cluster = world(kai_group("train", 3), *members("train", 2, 1, on="a"))
    done = cycle(cluster, actions=ACTIONS)
    assert done.document.evictions == []
    (stale,) = done.document.stale
    assert (stale.job, stale.since, stale.grace) == ("default/train", rfc3339(NOW), 60)
    assert stale.message == "default/train runs with 2 of 3 pods"
    # Whoever runs cycles writes that to the group, and a later cycle reads it.
    add(cluster, kai_group("train", 3, annotations={STALE_SINCE: stale.since}))
    for later, gone in ((59, 0), (60, 2)):
        cluster.now = NOW + later
        assert len(evicted(cluster)) == gone


@pytest.mark.parametrize(
    ("grace", "age", "goes"),
    [(None, 59, False), (None, 60, True), ("10s", 9, False), ("10s", 10, True), ("0s", 0, True), ("-1s", 9**9, False)],
)
def test_the_group_may_say_how_long(grace, age, goes):
    spec = {} if grace is None else {"stalenessGracePeriod": grace}
    cluster = world(kai_group("train", 2, annotations=since(age), **spec), member("p", "train", on="a"))
    done = cycle(cluster, actions=ACTIONS)
    assert bool(done.session.evictions) is goes
    (stale,) = done.session.stale
    assert stale.grace == (None if grace == "-1s" else 60 if grace is None else float(grace[:-1]))


@pytest.mark.parametrize("said", ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", rfc3339(NOW + 1)])
def test_a_time_that_is_still_to_come_counts_as_absent(said):
    cluster = world(kai_group("train", 2, annotations={STALE_SINCE: said}), member("p", "train", on="a"))
    done = cycle(cluster, actions=ACTIONS)
    assert done.session.evictions == []
    assert [stale.since for stale in done.session.stale] == [rfc3339(NOW)]


def test_roles_that_lack_pods_count():
    cluster = world(
        group("ray", 3, minTaskMember={"head": 1, "worker": 2}, annotations=since(61)),
        *(member(f"w{i}", "ray", role="worker", on="a") for i in range(3)),
    )
    done = cycle(cluster, actions=ACTIONS)
    assert [eviction.pod for eviction in done.session.evictions] == ["default/w0", "default/w1", "default/w2"]
    assert "runs with 3 of 3 pods, 0 of 1 of role head for" in done.session.evictions[0].reason


@pytest.mark.parametrize(
    "other",
    [
        member("other", "train", on="a", phase="Succeeded"),
        member("other", "train", on="a"),
        member("other", "train"),
    ],
    ids=["has succeeded", "runs", "gets a place in this cycle"],
)
def test_a_gang_that_has_its_pods_stays(other):
    least = 3 if other.status.phase == "Succeeded" else 2
    cluster = world(kai_group("train", least, annotations=since(1000)), member("p", "train", on="a"), other)
    done = cycle(cluster, actions=ACTIONS)
    assert (done.session.evictions, done.session.stale) == ([], [])


def test_pods_that_leave_or_failed_are_no_pods_of_a_gang():
    cluster = world(
        kai_group("train", 3, annotations=since(61)),
        member("a", "train", on="a"),
        member("b", "train", on="a", terminating=True),
        member("c", "train", on="a", phase="Failed"),
    )
    assert evicted(cluster) == ["default/a"]


def test_gangs_that_only_wait_are_left_alone():
    cluster = world(kai_group("train", 3, annotations=since(61)), *members("train", 2, 1))
    done = cycle(cluster, actions=ACTIONS)
    assert (done.session.evictions, done.session.stale) == ([], [])


def test_groups_that_are_not_understood_or_are_no_objects_are_left_alone():
    own = {"tonnage.io/min-members": "2"}
    cluster = world(
        kai_group("odd", 3, minSubGroup=2, annotations=since(61)),
        member("p", "odd", on="a"),
        pod("own", on="a", annotations=own),
    )
    done = cycle(cluster, actions=ACTIONS)
    assert (done.session.evictions, done.session.stale) == ([], [])
    assert [problem.object for problem in done.document.problems] == ["PodGroup/default/odd"]


def test_without_a_time_nothing_is_done():
    cluster = world(kai_group("train", 3, annotations=since(61)), *members("train", 2, on="a"), now=None)
    done = cycle(cluster, actions=ACTIONS)
    assert (done.session.evictions, done.session.stale) == ([], [])


def test_a_time_that_cannot_be_read_counts_as_none_and_is_a_problem():
    cluster = world(kai_group("train", 2, annotations={STALE_SINCE: "long ago"}), member("p", "train", on="a"))
    done = cycle(cluster, actions=ACTIONS)
    assert done.session.evictions == []
    assert done.session.stale[0].since == rfc3339(NOW)
    assert [problem.field for problem in done.document.problems] == [f"metadata.annotations[{STALE_SINCE}]"]

"""A group may ask for time to pass before pods of others are stopped for it."""

import pytest

from tests.groups import add, kai_group, member
from tests.scenario import node, pod, scenario
from tonnage.cluster.jobs.group import LAST_EVICTION
from tonnage.framework.decision import Reason
from tonnage.framework.session import Session
from tonnage.model.timestamp import timestamp

CREATED = "2026-01-31T12:00:00Z"
EVICTED = "2026-01-31T13:00:00Z"


def why(now, *, evicted=None, created=CREATED, delay="5m"):
    cluster = scenario(node("a"), member("p", "train", 1))
    annotations = {LAST_EVICTION: evicted} if evicted else {}
    spec = {} if delay is None else {"preemptionDelay": delay}
    add(cluster, kai_group("train", 1, created=created, annotations=annotations, **spec))
    cluster.now = None if now is None else timestamp(now)
    with Session(cluster, []) as session:
        return session.why_not_yet(cluster.groups.jobs["default/train"])


def test_it_waits_after_it_came():
    message = "default/train asks for 5m before others are stopped for it; it has waited 1m"
    assert why("2026-01-31T12:01:00Z") == Reason("PreemptionDelayNotElapsed", message)
    assert why("2026-01-31T12:04:59Z") is not None
    assert why("2026-01-31T12:05:00Z") is None


def test_it_waits_again_after_it_was_evicted():
    assert why("2026-01-31T13:04:59Z", evicted=EVICTED) is not None
    assert why("2026-01-31T13:05:00Z", evicted=EVICTED) is None
    assert why("2026-01-31T13:04:59Z", evicted=EVICTED, created=None) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"delay": None},
        {"delay": "0s"},
        {"created": None},
        {"created": "some day"},
    ],
)
def test_it_does_not_wait_if_it_does_not_ask_to_or_nobody_knows_since_when(given):
    assert why(CREATED, **given) is None


def test_it_does_not_wait_if_nobody_says_what_time_it_is():
    assert why(None) is None


def test_a_plain_pod_does_not_wait():
    cluster = scenario(node("a"), pod("p", 1, created=CREATED))
    cluster.now = timestamp(CREATED)
    with Session(cluster, []) as session:
        assert session.why_not_yet(session.job_of(cluster.waiting["default/p"])) is None

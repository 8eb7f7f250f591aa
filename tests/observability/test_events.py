"""Kubernetes Events: their form, counting up, the limits on them, and an API server that refuses or is away."""

import asyncio
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extender.recording import Api
from tests.virtualtime import VirtualLoop
from tests.waiting import PATIENCE
from tonnage.kube.errors import AccessError, ConnectionLostError, StatusError
from tonnage.model.excerpt import one_line
from tonnage.observability import events as module
from tonnage.observability.events import (
    BINDING_FAILED,
    BINDING_SUCCEED,
    FILTERING_FAILED,
    EventRecorder,
    ObjectRef,
    event_name,
)
from tonnage.observability.messages import LONGEST_MESSAGE, shortened

P = ObjectRef("team", "p", "uid-1")
Q = ObjectRef("team", "q", "uid-2")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Desk:
    """Events on an API server that takes notes, at a time that stands still."""

    runner: asyncio.Runner

    def __init__(self, *planned, **limits):
        self.api = Api(*planned)
        self.now = 1_700_000_000.9
        self.outcomes = Counter()
        self.events = EventRecorder(self.api, lambda: self.now, "hami-scheduler", self.count, **limits)

    def count(self, outcome):
        self.outcomes[outcome] += 1

    def until(self, outcomes):
        """Write until that many Events had an outcome."""

        async def main():
            running = asyncio.create_task(self.events.run())
            while self.outcomes.total() < outcomes:
                await asyncio.sleep(0.001)
                assert not running.done()
            running.cancel()

        self.runner.run(asyncio.wait_for(main(), PATIENCE))
        return self


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0.001)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        monkeypatch.setattr(Desk, "runner", runner, raising=False)
        yield


def test_an_event_has_this_form():
    desk = Desk()
    desk.events.record(P, FILTERING_FAILED, "no available node")
    desk.until(1)
    ((method, path, body),) = desk.api.written
    assert (method, path) == ("POST", "/api/v1/namespaces/team/events")
    assert re.fullmatch(r"p\.[0-9a-f]{16}", body["metadata"].pop("name"))
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p", "uid": "uid-1"},
        "reason": "FilteringFailed",
        "message": "no available node",
        "type": "Warning",
        "source": {"component": "hami-scheduler"},
        "reportingComponent": "hami-scheduler",
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "count": 1,
    }
    assert desk.outcomes == {"written": 1}


def test_what_went_well_is_no_warning():
    desk = Desk()
    desk.events.record(P, BINDING_SUCCEED, "bound")
    assert desk.until(1).api.written[0][2]["type"] == "Normal"


def test_what_is_written_is_never_longer_than_the_api_server_takes():
    desk = Desk()
    desk.events.record(P, FILTERING_FAILED, "…" * 1000)
    desk.until(1)
    desk.events.record(P, FILTERING_FAILED, "…" * 1000)
    desk.until(2)
    assert [len(body["message"].encode()) for _, _, body in desk.api.written] == [1023, 1023]


def test_the_same_again_counts_up_the_event_and_shows_the_latest_numbers():
    desk = Desk()
    desk.events.record(P, FILTERING_FAILED, "2000 MiB free", alike="memory")
    desk.until(1)
    desk.now += 60
    desk.events.record(P, FILTERING_FAILED, "1000 MiB free", alike="memory")
    desk.until(2)
    (_, _, made), (method, path, body) = desk.api.written
    assert (method, path) == ("PATCH", f"/api/v1/namespaces/team/events/{made['metadata']['name']}")
    assert body == {"count": 2, "lastTimestamp": "2023-11-14T22:14:20Z", "message": "1000 MiB free"}
    assert desk.outcomes == {"written": 1, "repeated": 1}


def test_what_is_told_again_before_it_is_written_is_one_write():
    desk = Desk()
    for _ in range(5):
        desk.events.record(P, BINDING_FAILED, "busy")
    assert desk.events.queued == 1
    desk.until(1)
    assert [body["count"] for _, _, body in desk.api.written] == [5]


def test_other_pods_reasons_and_messages_have_events_of_their_own():
    desk = Desk()
    for pod, reason, message in (
        (P, BINDING_FAILED, "busy"),
        (Q, BINDING_FAILED, "busy"),
        (P, FILTERING_FAILED, "busy"),
        (P, BINDING_FAILED, "refused"),
        (P._replace(uid="uid-9"), BINDING_FAILED, "busy"),
    ):
        desk.events.record(pod, reason, message)
    desk.until(5)
    assert desk.outcomes == {"written": 5}
    assert len({body["metadata"]["name"] for _, _, body in desk.api.written}) == 5


def test_an_event_that_the_api_server_has_forgotten_is_made_anew():
    desk = Desk(None, StatusError(404, "NotFound", "gone"))
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(1)
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(2)
    assert [method for method, _, _ in desk.api.written] == ["POST", "PATCH", "POST"]
    assert desk.api.written[-1][2]["count"] == 2


@pytest.mark.parametrize("failure", [ConnectionLostError("reset"), StatusError(503, "", ""), StatusError(429, "", "")])
def test_a_write_whose_outcome_is_not_known_is_repeated_under_the_same_name(failure):
    desk = Desk(failure)
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(1)
    first, second = desk.api.written
    assert first == second
    assert desk.outcomes == {"written": 1}


def test_a_repeated_write_that_finds_the_event_there_has_succeeded():
    desk = Desk(ConnectionLostError("reset"), StatusError(409, "AlreadyExists", ""))
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(1)
    assert desk.outcomes == {"written": 1}
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(2)
    assert desk.api.written[-1][0] == "PATCH"


def test_a_refused_event_is_not_tried_again_and_others_go_on():
    desk = Desk(StatusError(403, "Forbidden", "namespace is being terminated"))
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.events.record(Q, BINDING_FAILED, "busy")
    desk.until(2)
    assert desk.outcomes == {"refused": 1, "written": 1}


@pytest.mark.parametrize("failure", [ConnectionLostError("reset"), AccessError("no token"), ValueError("a mistake")])
def test_an_api_server_that_stays_away_costs_events_and_nothing_else(failure):
    desk = Desk(failure, failure, failure)
    desk.events.record(P, BINDING_FAILED, "busy")
    desk.until(1)
    assert desk.outcomes == {"dropped": 1}
    desk.api.planned.clear()
    desk.events.record(Q, BINDING_FAILED, "busy")
    desk.until(2)
    assert desk.outcomes == {"dropped": 1, "written": 1}


def test_no_message_is_made_for_an_event_that_finds_no_room():
    desk, made = Desk(most=2), []
    desk.events.record(P, BINDING_SUCCEED, lambda: "bound")
    assert desk.events.queued == 1
    desk.events.record(Q, BINDING_SUCCEED, lambda: made.append("q") or "bound")
    assert (made, desk.outcomes["dropped"]) == ([], 1)
    desk.events.record(P, BINDING_SUCCEED, lambda: "bound")
    assert desk.outcomes["dropped"] == 1, "what waits already counts up"
    desk.events.record(Q, BINDING_FAILED, lambda: "refused")
    assert desk.events.queued == 2


def test_a_full_queue_drops_and_keeps_room_for_warnings():
    desk = Desk(most=10)
    for number in range(10):
        desk.events.record(ObjectRef("team", f"well-{number}", ""), BINDING_SUCCEED, "bound")
    assert desk.events.queued == 5
    for number in range(10):
        desk.events.record(ObjectRef("team", f"ill-{number}", ""), FILTERING_FAILED, "no")
    assert desk.events.queued == 10
    assert desk.outcomes == {"dropped": 10}
    # What is queued already may be counted up.
    desk.events.record(ObjectRef("team", "ill-0", ""), FILTERING_FAILED, "no")
    assert desk.outcomes == {"dropped": 10}
    desk.until(20)
    assert desk.outcomes == {"dropped": 10, "written": 10}


def test_no_more_than_the_burst_is_written_at_once():
    desk = Desk(per_second=0.001, burst=3)
    for number in range(10):
        desk.events.record(ObjectRef("team", f"p{number}", ""), BINDING_FAILED, "busy")

    async def main():
        running = asyncio.create_task(desk.events.run())
        await asyncio.sleep(0.1)
        running.cancel()

    desk.runner.run(main())
    assert desk.outcomes == {"written": 3}
    assert desk.events.queued == 7


def test_what_was_told_long_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    desk = Desk()
    for number in range(4):
        desk.events.record(ObjectRef("team", f"p{number}", ""), BINDING_FAILED, "busy")
    desk.until(4)
    desk.events.record(ObjectRef("team", "p0", ""), BINDING_FAILED, "busy")
    desk.events.record(ObjectRef("team", "p3", ""), BINDING_FAILED, "busy")
    desk.until(6)
    assert [method for method, _, _ in desk.api.written[4:]] == ["POST", "PATCH"]


def test_what_was_told_about_a_pod_that_is_gone_is_forgotten_but_still_written():
    desk = Desk()
    for pod in (P, Q):
        desk.events.record(pod, BINDING_FAILED, "busy")
        desk.events.record(pod, FILTERING_FAILED, "full")
    desk.events.forget("team/p")
    desk.events.forget("team/nobody")
    desk.until(4)
    for pod in (P, Q):
        desk.events.record(pod, BINDING_FAILED, "busy")
    desk.until(6)
    assert [method for method, _, _ in desk.api.written] == ["POST"] * 5 + ["PATCH"]


LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
POD_NAMES = st.lists(LABEL, min_size=1, max_size=6).map(lambda parts: ".".join(parts)[:253].rstrip("-."))


@given(POD_NAMES)
def test_every_name_of_a_pod_gives_the_name_of_an_event(name):
    made = event_name((ObjectRef("team", name, "u"), BINDING_FAILED, "m"), 1.0)
    assert len(made) <= 253
    assert SUBDOMAIN.fullmatch(made)
    assert made != event_name((ObjectRef("team", name, "u"), BINDING_FAILED, "m"), 2.0)


def test_the_longest_names_are_cut_where_that_is_allowed():
    for tail in ("a", "-a", ".a", "--a"):
        name = ("x" * (236 - 1) + tail + "y" * 40)[:253]
        assert SUBDOMAIN.fullmatch(event_name((ObjectRef("team", name, "u"), BINDING_FAILED, "m"), 1.0))


@given(st.text(max_size=3000))
def test_messages_are_cut_to_what_the_api_server_takes_and_are_one_line(message):
    short, message = shortened(message), one_line(message)
    assert len(short.splitlines()) <= 1
    assert len(short.encode()) <= LONGEST_MESSAGE
    assert short == message or (short.endswith("…") and message.startswith(short[:-1]))

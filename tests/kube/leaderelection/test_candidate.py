"""Who holds the Lease and until when it may write, by what each candidate sees; the clocks are the test's."""

import itertools
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.worlds import examples
from tonnage.kube.leaderelection.candidate import Candidate, Durations
from tonnage.kube.leaderelection.lease import Lease, LeaseRecord

DURATIONS = Durations()
DURATION, DEADLINE = 9, 6


class Server:
    """One Lease, which takes only writes that name its version."""

    def __init__(self):
        self.record = LeaseRecord()
        self._versions = itertools.count(1)

    def write(self, lease, version):
        """The new record; nothing if the Lease has another version."""
        if version != self.record.resource_version:
            return None
        if lease != self.record.lease:
            self.record = LeaseRecord(lease, str(next(self._versions)))
        return self.record


class Campaigner:
    """Looks and writes in one go."""

    def __init__(self, server, name="a"):
        self.server, self.candidate = server, Candidate(name, DURATIONS)

    def step(self, now, stamp=None, takes=0.0):
        """One look if it is needed, then a write if there is one; whether one was written."""
        candidate = self.candidate
        if candidate.must_read:
            candidate.observe(self.server.record, now)
        wish = candidate.desired(now, str(now) if stamp is None else stamp)
        record = wish and self.server.write(wish, candidate.resource_version)
        if record is None:
            candidate.doubt()
            return False
        candidate.confirm(record, now, now + takes)
        candidate.start_leading(candidate.term)
        return True

    def left(self, now):
        return self.candidate.may_write(now)


@pytest.fixture
def server():
    return Server()


def test_the_first_one_makes_the_lease_and_may_write_until_the_deadline(server):
    a = Campaigner(server)
    assert a.step(10)
    assert server.record.lease == Lease("a", DURATION, 0, "10", "10")
    assert a.left(10) == DEADLINE
    assert a.left(15.5) == 0.5
    assert a.left(16) == 0


def test_while_it_is_renewed_the_holder_goes_on_in_the_same_term(server):
    a, b = Campaigner(server), Campaigner(server, "b")
    for second in range(30):
        assert a.step(second)
        assert not b.step(second + 0.5)
        assert a.left(second) == DEADLINE
    assert a.candidate.term == 1
    assert server.record.lease == Lease("a", DURATION, 0, "29", "0")


def test_the_deadline_counts_from_when_the_renewal_was_sent_not_from_its_answer(server):
    a = Campaigner(server)
    a.step(0)
    a.step(1, takes=3)
    assert a.left(4) == 1 + DEADLINE - 4


def test_a_lease_that_was_not_seen_to_change_for_its_duration_is_taken(server):
    a, b = Campaigner(server), Campaigner(server, "b")
    a.step(0)
    assert [b.step(second) for second in range(3, 13)] == [False] * 9 + [True], "b has seen it since 3"
    assert server.record.lease == Lease("b", DURATION, 1, "12", "12")
    assert b.left(12) == DEADLINE


def test_how_old_a_lease_says_to_be_does_not_matter(server):
    a, b = Campaigner(server), Campaigner(server, "b")
    a.step(0, stamp="long ago")
    assert not b.step(100)
    assert not b.step(100 + DURATION - 0.1)
    assert b.step(100 + DURATION)


def test_the_duration_of_the_one_who_holds_it_counts(server):
    server.write(Lease("other", 30, 4, "0"), "")
    b = Campaigner(server, "b")
    assert not b.step(0)
    assert not b.step(29)
    assert b.step(30)
    assert server.record.lease.lease_transitions == 5


def test_one_that_was_given_back_is_taken_at_once(server):
    a, b = Campaigner(server), Campaigner(server, "b")
    a.step(0)
    server.write(a.candidate.released("1"), a.candidate.resource_version)
    assert server.record.lease.holder == ""
    assert b.step(1)
    assert server.record.lease == Lease("b", DURATION, 1, "1", "1")


def test_one_that_vanished_under_its_holder_is_left_until_that_one_is_certainly_done(server):
    a, b = Campaigner(server), Campaigner(server, "b")
    a.step(0)
    b.step(1)
    server.record = LeaseRecord()
    assert not b.step(2)
    assert not b.step(2 + DURATION - 0.1)
    assert b.step(2 + DURATION)
    server.record = LeaseRecord()
    assert not b.step(12)
    assert b.step(13), "its own it makes anew"


def test_after_a_lapse_everything_is_made_ready_anew_even_if_nobody_else_led(server):
    a = Campaigner(server)
    a.step(0)
    first = a.candidate.term
    assert a.left(20) == 0
    candidate = a.candidate
    candidate.confirm(server.write(candidate.desired(20, "20"), candidate.resource_version), 20, 20)
    assert candidate.may_write(20) == 0
    candidate.start_leading(first)
    assert candidate.may_write(20) == 0, "that was for the term before"
    candidate.start_leading(candidate.term)
    assert candidate.may_write(20) == DEADLINE


def test_one_whose_write_is_refused_looks_before_it_goes_on(server):
    a = Campaigner(server)
    a.step(0)
    server.write(Lease("b", DURATION, 1, "1"), server.record.resource_version)
    assert not a.step(1)
    assert a.left(1) == 5, "that another holds it is not known yet"
    assert not a.step(2)
    assert a.left(2) == 0
    assert a.candidate.holder == "b"


def test_a_take_over_without_an_answer_counts_only_from_the_next_write(server):
    a = Campaigner(server)
    a.candidate.observe(server.record, 0)
    server.write(a.candidate.desired(0, "0"), "")
    a.candidate.doubt()
    a.candidate.observe(server.record, 3)
    assert a.candidate.is_holder
    assert a.candidate.time_left(3) == 0
    a.step(4)
    assert a.left(4) == DEADLINE


def test_what_was_renewed_before_another_held_it_does_not_count(server):
    a = Campaigner(server)
    a.step(0)
    server.write(Lease(None, DURATION, 0, "1"), server.record.resource_version)
    a.step(1)
    a.candidate.observe(server.record, 1)
    server.write(a.candidate.desired(2, "2"), server.record.resource_version)
    a.candidate.observe(server.record, 3)
    assert a.candidate.is_holder
    assert a.candidate.time_left(3) == 0, "its last write got no answer"


def test_a_renewal_that_changed_nothing_is_none(server):
    a = Campaigner(server)
    a.step(0, stamp="stopped clock")
    a.step(5, stamp="stopped clock")
    assert a.left(6) == 0


@pytest.mark.parametrize(
    ("durations", "words"),
    [
        (
            Durations(lease_duration=9, renew_deadline=9),
            r"renew deadline \(9s\) must be shorter than the lease duration \(9s\)",
        ),
        (Durations(lease_duration=1.5, renew_deadline=1), r"lease duration \(1.5s\) must be whole seconds"),
        (Durations(lease_duration=0, renew_deadline=-1), "whole seconds"),
        (Durations(renew_deadline=1.2), r"more than 1.2 times the retry period \(1s\)"),
        (Durations(retry_period=0), "retry period"),
        (Durations(), "^$"),
        (Durations(lease_duration=15, renew_deadline=10, retry_period=2), "^$"),
    ],
)
def test_durations_that_do_not_go_together_are_refused(durations, words):
    assert re.search(words, durations.problem())


# -- several of them, whatever happens


@dataclass
class Request:
    """A look or a write on its way: sent, then done by the server, then answered."""

    sent: float
    wish: Lease | None = None
    version: str = ""
    is_done: bool = False
    answer: LeaseRecord | None = None


@dataclass
class Replica:
    """A process with a clock of its own; a request may be held up at any place for any time."""

    server: Server
    name: str
    rate: float
    starts: int = 0
    resigns: bool = False
    request: Request | None = None
    lost: list[Request] = field(default_factory=list)

    def __post_init__(self):
        self.start()

    def start(self):
        self.starts += 1
        self.candidate, self.resigns, self.request = Candidate(f"{self.name}{self.starts}", DURATIONS), False, None

    def clock(self, time):
        return time * self.rate

    def may_write(self, time):
        return not self.resigns and self.candidate.may_write(self.clock(time)) > 0

    def do(self, what, time):
        if what == "restart":
            self.lose()
            self.start()
        elif what == "lose":
            self.lose()
            self.candidate.doubt()
        elif what == "late" and self.lost:
            self.serve(self.lost.pop(0))
        elif what == "resign" and self.request is None and not self.candidate.must_read:
            self.resigns = True
            wish = self.candidate.released(str(time))
            self.request = Request(self.clock(time), wish, self.candidate.resource_version)
        elif what == "go on":
            self.go_on(time)
        elif what == "step":
            for _ in range(4):
                self.go_on(time)

    def lose(self):
        if self.request is not None and not self.request.is_done:
            self.lost.append(self.request)
        self.request = None

    def serve(self, request):
        request.is_done = True
        request.answer = self.server.record
        if request.wish is not None:
            request.answer = self.server.write(request.wish, request.version)

    def go_on(self, time):
        if self.request is None:
            if not self.resigns:
                self.send(time)
        elif not self.request.is_done:
            self.serve(self.request)
        else:
            request, self.request = self.request, None
            if request.answer is None:
                self.candidate.doubt()
            elif request.wish is not None:
                self.candidate.confirm(request.answer, request.sent, self.clock(time))
                self.candidate.start_leading(self.candidate.term)
            else:
                self.candidate.observe(request.answer, self.clock(time))
                self.send(time, looked=True)

    def send(self, time, looked=False):
        now = self.clock(time)
        if self.candidate.must_read and not looked:
            self.request = Request(now)
        elif (wish := self.candidate.desired(now, f"{self.name} {time}")) is not None:
            self.request = Request(now, wish, self.candidate.resource_version)
            self.candidate.doubt()


GAPS = st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0, 1.0, 2.0, 4.0])
DEEDS = st.sampled_from(["go on"] * 4 + ["step"] * 8 + ["lose", "late", "resign", "restart"])


@settings(max_examples=examples(300))
@given(
    rates=st.tuples(*[st.sampled_from([0.9, 1.0, 1.1])] * 3),
    deeds=st.lists(st.tuples(GAPS, st.integers(0, 2), DEEDS), min_size=80, max_size=80),
)
def test_never_may_two_write_at_the_same_time(rates, deeds):
    server, time = Server(), 1000.0
    replicas = [Replica(server, name, rate) for name, rate in zip("abc", rates, strict=True)]
    for gap, who, what in deeds:
        time += gap
        replicas[who].do(what, time)
        assert sum(replica.may_write(time) for replica in replicas) <= 1


def test_in_that_play_all_come_to_write():
    server, led = Server(), set()
    replicas = [Replica(server, name, 1.0) for name in "abc"]
    for step in range(3000):
        time = 1000 + step / 10
        replicas[step % 3].do("go on", time)
        leadership = [replica.name for replica in replicas if replica.may_write(time)]
        led.update(leadership)
        if leadership and step % 400 == 0:
            next(one for one in replicas if one.name in leadership).do("restart", time)
    assert led == {"a", "b", "c"}

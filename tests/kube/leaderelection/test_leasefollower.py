"""Who leads, and until when it may write, from what is seen of the Lease; the clock is the test's."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.properties.worlds import examples
from tonnage.kube.leaderelection.lease import Lease
from tonnage.kube.leaderelection.leasefollower import LeaseFollower, host_of

DURATION, DEADLINE, GIVEN_UP = 9, 6, 7
"""A Lease of 9 s is relied on for 6; who holds it tries for 7 to renew it."""


def lease(holder, renewed=0, transitions=0):
    return Lease(holder, DURATION, transitions, str(renewed))


def leadership(host="a", at=0.0):
    """A replica that has seen its kube-scheduler renew the Lease one second after taking it."""
    follower = LeaseFollower(host)
    follower.observe(lease(f"{host}_1", 0), at, at)
    follower.observe(lease(f"{host}_1", 1), at + 1, at + 1)
    assert follower.start_leading(follower.term)
    return follower


def test_it_leads_while_the_kube_scheduler_beside_it_renews_the_lease():
    follower = leadership()
    for second in range(2, 20):
        follower.observe(lease("a_1", second), second, second + 0.1)
        assert follower.may_write(second + 0.1) > 4


def test_the_first_look_does_not_tell_when_the_lease_was_renewed_so_nothing_is_written_yet():
    follower = LeaseFollower("a")
    follower.observe(lease("a_1"), 0, 0)
    assert follower.start_leading(follower.term)
    assert follower.may_write(0) == 0
    follower.observe(lease("a_1"), 1, 1)
    assert follower.may_write(1) == 0
    follower.observe(lease("a_1", 1), 2, 2)
    assert follower.may_write(2) == 5


def test_the_deadline_runs_from_the_last_look_that_showed_the_lease_as_it_was_before():
    follower = leadership()
    follower.observe(lease("a_1", 1), 2, 2.5)
    # This answer took long: the lease may have been renewed at any time since the question before.
    follower.observe(lease("a_1", 2), 3, 7)
    assert follower.may_write(7) == 2 + DEADLINE - 7
    assert follower.may_write(8) == 0


def test_without_news_of_a_renewal_writing_ends_by_itself():
    follower = leadership()
    assert follower.may_write(5.9) > 0
    assert follower.may_write(6) == 0
    follower.observe(lease("a_1", 1), 6, 6)
    assert follower.may_write(6) == 0


def test_after_a_lapse_in_the_same_term_it_goes_on():
    follower = leadership()
    assert follower.may_write(30) == 0
    follower.observe(lease("a_1", 30), 30, 30)
    assert follower.may_write(30) == 0
    follower.observe(lease("a_1", 31), 31, 31)
    assert follower.may_write(31) == 5


def test_if_another_led_in_between_everything_must_be_made_ready_again():
    follower = leadership()
    follower.observe(lease("a_1", 30, transitions=2), 30, 30)
    follower.observe(lease("a_1", 31, transitions=2), 31, 31)
    assert follower.is_own
    assert follower.may_write(31) == 0
    assert follower.start_leading(follower.term)
    assert follower.may_write(31) == 5


def test_what_was_made_ready_for_a_term_that_is_over_does_not_count():
    follower = leadership()
    term = follower.term
    follower.observe(lease("b_1", 2, transitions=1), 2, 2)
    assert not follower.start_leading(term)
    assert follower.may_write(2) == 0
    assert follower.leader == "b"


@pytest.mark.parametrize("holder", ["ab_1", "b_1", "b_a", "", "x.a_1"])
def test_a_holder_of_another_name_is_not_the_kube_scheduler_beside(holder):
    follower = LeaseFollower("a")
    follower.observe(lease(holder, 0), 0, 0)
    follower.observe(lease(holder, 1), 1, 1)
    assert not follower.is_own
    assert not follower.start_leading(follower.term)
    assert follower.may_write(1) == 0


def test_hosts_are_what_stands_before_the_random_part():
    assert host_of("tonnage-scheduler-7f9-x2_0a1b") == "tonnage-scheduler-7f9-x2"
    assert host_of("one_two_0a1b") == "one_two"
    assert host_of("plain") == "plain"
    assert host_of("") == ""


# -- when the one before is certainly done


def test_one_that_gave_the_lease_back_is_waited_for():
    follower = LeaseFollower("b")
    follower.observe(lease("a_1", 0), 0, 0)
    follower.observe(lease("a_1", 1), 1, 1)
    follower.observe(lease("b_1", 2, transitions=1), 2, 2.5)
    assert follower.clear_at == 2.5 + DEADLINE
    assert follower.previous_host == "a"


def test_one_that_was_silent_until_the_lease_ran_out_need_not_be_waited_for():
    follower = LeaseFollower("b")
    follower.observe(lease("a_1", 0), 0, 0)
    for second in range(1, 9):
        follower.observe(lease("a_1", 0), second, second)
    follower.observe(lease("b_1", 9, transitions=1), 9, 9.5)
    assert follower.clear_at == DEADLINE


def test_one_that_was_not_looked_at_was_not_silent():
    follower = LeaseFollower("b")
    follower.observe(lease("a_1", 0), 0, 0)
    follower.observe(lease("a_1", 0), 2, 2)
    follower.observe(lease("b_1", 9, transitions=1), 9, 9.5)
    assert follower.clear_at == 9.5 + DEADLINE


def test_a_replica_that_starts_waits_for_whoever_may_have_led_before():
    follower = LeaseFollower("b")
    follower.observe(lease("b_1", 0, transitions=3), 10, 10)
    assert follower.clear_at == 10 + DEADLINE
    assert follower.previous_host == ""


def test_the_first_holder_ever_waits_for_nobody():
    follower = LeaseFollower("b")
    follower.observe(Lease(), 0, 0)
    follower.observe(lease("b_1", 0), 1, 1)
    assert follower.clear_at < 0


def test_a_lease_that_was_given_back_before_the_first_look_is_waited_for_too():
    follower = LeaseFollower("b")
    follower.observe(Lease("", 1, 3, "0"), 0, 0)
    follower.observe(lease("b_1", 1, transitions=4), 1, 1)
    assert follower.clear_at == 1 + DEADLINE


def test_a_kube_scheduler_that_comes_back_beside_the_same_replica_is_not_waited_for():
    follower = leadership()
    follower.observe(lease("", 2), 2, 2)
    follower.observe(lease("a_2", 3, transitions=1), 3, 3)
    assert follower.is_own
    assert follower.clear_at < 0


def test_one_that_led_and_ceased_between_two_looks_is_waited_for():
    follower = leadership()
    follower.observe(lease("a_1", 30, transitions=2), 30, 31)
    assert follower.clear_at == 31 + DEADLINE
    follower = leadership()
    follower.observe(Lease("", 1, 1, "30"), 30, 31)
    follower.observe(lease("a_1", 32, transitions=2), 32, 32)
    assert follower.clear_at == 32 + DEADLINE


# -- two of them


class Scheduler:
    """kube-schedulers that keep the rules of their Lease; time goes in steps."""

    def __init__(self):
        self.lease = Lease()
        self.renewed = 0

    def step(self, now, deed):
        holder = self.lease.holder
        other = "b_1" if holder == "a_1" else "a_1"
        if deed == "renew" and holder and now - self.renewed <= GIVEN_UP:
            self._write(holder, now, self.lease.lease_transitions)
        elif deed in ("give back", "hand over") and holder:
            self.lease = Lease("", 1, self.lease.lease_transitions, str(now))
            if deed == "hand over":
                self._take(other, now)
        elif deed in ("a_1", "b_1") and (not holder or (holder != deed and now - self.renewed >= DURATION)):
            self._take(deed, now)

    def _take(self, name, now):
        transitions = self.lease.lease_transitions
        self._write(name, now, 0 if transitions is None else transitions + 1)

    def _write(self, name, now, transitions):
        self.lease, self.renewed = lease(name, now, transitions), now


class Replica:
    """Looks at the Lease now and then; between question, reading and answer any time may pass."""

    def __init__(self, host, begins):
        self.follower, self.begins = LeaseFollower(host), begins
        self.asked = self.read = None

    def step(self, now, steps, current):
        for _ in range(steps if now >= self.begins else 0):
            if self.asked is None:
                self.asked = now
            elif self.read is None:
                self.read = current
            else:
                self.follower.observe(self.read, self.asked, now)
                self.asked = self.read = None
        if self.follower.is_own and now >= self.follower.clear_at:
            self.follower.start_leading(self.follower.term)


DEEDS = st.sampled_from(["renew"] * 9 + ["nothing", "give back", "hand over", "a_1", "b_1"])
LOOKS = st.sampled_from([0, 0, 1, 3, 3])
SPARSE = [
    *[("b_1", (0, 0)), ("renew", (3, 0)), ("nothing", (0, 3)), ("nothing", (3, 0)), ("renew", (0, 0))],
    *[("renew", (0, 0)), ("renew", (0, 3)), ("hand over", (3, 0)), *[("renew", (0, 0))] * 10],
]
"""One renews while the other does not look, and hands over."""


@settings(max_examples=examples(200))
@example(begins=(0, 0), deeds=[(deed, *looks) for deed, looks in SPARSE])
@given(
    begins=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    deeds=st.lists(st.tuples(DEEDS, LOOKS, LOOKS), min_size=60, max_size=60),
)
def test_two_replicas_never_may_write_at_the_same_time(begins, deeds):
    scheduler = Scheduler()
    replicas = [Replica("a", begins[0]), Replica("b", begins[1])]
    for now, (deed, *steps) in enumerate(deeds):
        scheduler.step(now, deed)
        for replica, count in zip(replicas, steps, strict=True):
            replica.step(now, count, scheduler.lease)
        assert sum(replica.follower.may_write(now) > 0 for replica in replicas) <= 1


def test_in_that_play_both_do_come_to_write():
    scheduler, replicas = Scheduler(), [Replica("a", 0), Replica("b", 0)]
    wrote = set()
    for now in range(60):
        scheduler.step(now, "a_1" if now == 1 else "hand over" if now == 30 else "renew")
        for replica in replicas:
            replica.step(now, 3, scheduler.lease)
            if replica.follower.may_write(now) > 0:
                wrote.add(replica.follower.leader)
    assert wrote == {"a", "b"}

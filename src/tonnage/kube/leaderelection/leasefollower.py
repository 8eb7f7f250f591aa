"""The follower of kube-scheduler's Lease: whether this replica leads, and how long it may write. It does no I/O.

A replica may lead while the kube-scheduler beside it holds the Lease. A Lease is no fence: it does not stop the
previous holder. So a replica stops by itself when it has not seen the Lease renewed for two thirds of its duration, by
a monotonic clock, and one that starts leading first lets that time pass for the previous leader.
"""

from math import inf
from typing import NamedTuple

from tonnage.kube.leaderelection.lease import Lease

RENEW_DEADLINE = 2 / 3
"""The part of a Lease's duration for which a replica relies on a renewal: 10 of 15 s."""
GIVEN_UP = 4 / 5
"""The part for which a holder tries to renew the Lease before it gives up: 12 of 15 s, kube-scheduler's own.

A holder that was silent for so long has not renewed the Lease afterwards either.
"""
RETRY_PERIOD = 1 / 15
"""How often the Lease is read, as a part of its duration; also the least time that must be left to begin a write."""

_SHORTEST, _WITHOUT_HOLDER = 0.1, 0.5


class LeaseTerm(NamedTuple):
    """An uninterrupted time in which one kube-scheduler holds the Lease."""

    holder: str
    transitions: int


class LeaseFollower:
    """One replica, with kube-scheduler's Lease as it last observed it."""

    def __init__(self, host: str) -> None:
        self._host = host
        """The name of the pod or machine that this replica and its kube-scheduler run in."""
        self._lease: Lease | None = None
        self._asked = -inf
        self._earliest = -inf
        """The present renewal was not written before this."""
        self._first_seen = -inf
        """When the Lease was first observed as it is."""
        self._transitions: int | None = None
        """The leaseTransitions of the last Lease with a holder."""
        self._led: LeaseTerm | None = None
        self.clear_at = -inf
        """From this time on no previous leader writes."""
        self.previous_host = ""
        """The host of the previous leader, if it is known and another one."""

    # -- reads

    def observe(self, lease: Lease, asked: float, answered: float) -> None:
        """Take in a read of the Lease, with the times at which it was asked for and answered."""
        known = self._lease
        if known is None or lease != known:
            if known is None or term_of(lease) != term_of(known):
                self._change_term(known, lease, answered)
            self._earliest, self._first_seen = self._asked, answered
            self._lease = lease
        self._asked = asked

    def _change_term(self, known: Lease | None, lease: Lease, answered: float) -> None:
        """The Lease has a new term: note until when the previous leader may still write."""
        if lease.holder and self._has_skipped(lease):
            self.clear_at, self.previous_host = answered + lease.duration * RENEW_DEADLINE, ""
        elif known is not None and known.holder and not self._is_own(known):
            silent = self._asked - self._first_seen >= known.duration * GIVEN_UP
            since = self._first_seen if silent else answered
            self.clear_at = max(self.clear_at, since + known.duration * RENEW_DEADLINE)
            self.previous_host = host_of(known.holder)
        if lease.holder:
            self._transitions = lease.lease_transitions or 0

    def _has_skipped(self, lease: Lease) -> bool:
        """Whether a leader was missed between two reads: each new holder adds one to leaseTransitions."""
        now = lease.lease_transitions or 0
        return now > 0 if self._transitions is None else now - self._transitions not in (0, 1)

    # -- leading

    @property
    def asked_at(self) -> float:
        """When the last answered read was asked for."""
        return self._asked

    @property
    def term(self) -> LeaseTerm:
        """The present term; without a holder if nobody leads."""
        return term_of(self._lease or Lease())

    @property
    def is_own(self) -> bool:
        """Whether the kube-scheduler beside this replica holds the Lease."""
        return self._lease is not None and self._is_own(self._lease)

    @property
    def leader(self) -> str:
        """The host of the kube-scheduler that holds the Lease; empty if none does."""
        return host_of(self.term.holder)

    @property
    def retry_period(self) -> float:
        """Seconds between two reads of the Lease."""
        if self._lease is None or not self._lease.holder:
            return _WITHOUT_HOLDER
        return max(_SHORTEST, self._lease.duration * RETRY_PERIOD)

    def start_leading(self, term: LeaseTerm) -> bool:
        """Lead in that term, which this replica has prepared for; False if the term is over."""
        if self.is_own and term == self.term:
            self._led = term
        return self._led == self.term

    def resign(self) -> None:
        """Stop leading, whatever the Lease says."""
        self._led = None

    def time_left(self, now: float) -> float:
        """For how many seconds this replica may rely on the Lease, whether or not it has prepared to lead."""
        if self._lease is None or not self.is_own:
            return 0.0
        return max(0.0, self._earliest + self._lease.duration * RENEW_DEADLINE - now)

    def may_write(self, now: float) -> float:
        """For how many seconds this replica may still write; 0 unless it leads."""
        return self.time_left(now) if self._led is not None and self._led == self.term else 0.0

    def _is_own(self, lease: Lease) -> bool:
        return host_of(lease.holder) == self._host


def term_of(lease: Lease) -> LeaseTerm:
    """The term that a Lease tells of."""
    return LeaseTerm(lease.holder, lease.lease_transitions or 0)


def host_of(identity: str) -> str:
    """kube-scheduler calls itself by its host, an underscore and a random part; hosts have no underscore."""
    return identity.rpartition("_")[0] or identity

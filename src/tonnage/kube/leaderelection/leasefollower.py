"""Where a replica stands: whether it leads, and for how much longer it may write. Nothing here does I/O.

A replica may lead while the kube-scheduler beside it holds the Lease. A Lease is no fence: it does not stop who held it
before. So a replica ends by itself when it has not seen the Lease renewed for two thirds of its duration, by a clock
that never goes back, and one that comes to lead first lets that time pass for whoever led before.
"""

from math import inf
from typing import NamedTuple

from tonnage.kube.leaderelection.lease import Lease

DEADLINE = 2 / 3
"""The part of a Lease's duration for which a replica relies on it after it was renewed: 10 of 15 s."""
GIVEN_UP = 4 / 5
"""The part for which a holder tries to renew it before it gives up: 12 of 15 s, kube-scheduler's own.

One that was seen silent for so long has not renewed it afterwards either.
"""
PERIOD = 1 / 15
"""How often the Lease is looked at, as a part of its duration; also the least time in which a write is begun."""

_SHORTEST, _WITHOUT_HOLDER = 0.1, 0.5


class LeaseTerm(NamedTuple):
    """An uninterrupted time in which one kube-scheduler holds the Lease."""

    holder: str
    transitions: int


class LeaseFollower:
    """What one replica knows of the Lease."""

    def __init__(self, host: str) -> None:
        self._host = host
        """The name of the pod or machine that this replica and its kube-scheduler run in."""
        self._lease: Lease | None = None
        self._asked = -inf
        self._earliest = -inf
        """The Lease as it is was not written before this."""
        self._first_seen = -inf
        """When the Lease was first seen as it is."""
        self._transitions: int | None = None
        """How often the Lease had changed hands when a holder was last seen."""
        self._led: LeaseTerm | None = None
        self.clear = -inf
        """From this time on nobody who led before writes any more."""
        self.before = ""
        """The host that led before, as far as it is known and another one."""

    # -- what is seen

    def observe(self, lease: Lease, asked: float, answered: float) -> None:
        """Take over how the Lease was at some time between a question and its answer."""
        known = self._lease
        if known is None or lease != known:
            if known is None or term_of(lease) != term_of(known):
                self._turn(known, lease, answered)
            self._earliest, self._first_seen = self._asked, answered
            self._lease = lease
        self._asked = asked

    def _turn(self, known: Lease | None, lease: Lease, answered: float) -> None:
        """Somebody else, or somebody anew, holds the Lease: note until when the one before may still write."""
        if lease.holder and self._has_skipped(lease):
            self.clear, self.before = answered + lease.duration * DEADLINE, ""
        elif known is not None and known.holder and not self._is_own(known):
            silent = self._asked - self._first_seen >= known.duration * GIVEN_UP
            since = self._first_seen if silent else answered
            self.clear = max(self.clear, since + known.duration * DEADLINE)
            self.before = host_of(known.holder)
        if lease.holder:
            self._transitions = lease.lease_transitions or 0

    def _has_skipped(self, lease: Lease) -> bool:
        """Whether somebody may have led whom we did not see: every other holder counts up by one."""
        now = lease.lease_transitions or 0
        return now > 0 if self._transitions is None else now - self._transitions not in (0, 1)

    # -- what follows

    @property
    def asked(self) -> float:
        """When the last answer was asked for."""
        return self._asked

    @property
    def term(self) -> LeaseTerm:
        """The present one; without a holder if nobody leads."""
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
    def period(self) -> float:
        """Seconds between two looks at the Lease."""
        if self._lease is None or not self._lease.holder:
            return _WITHOUT_HOLDER
        return max(_SHORTEST, self._lease.duration * PERIOD)

    def lead(self, term: LeaseTerm) -> bool:
        """Everything is ready for leading in that term; whether it is still the present one."""
        if self.is_own and term == self.term:
            self._led = term
        return self._led == self.term

    def resign(self) -> None:
        """Do not lead any more, whatever the Lease says."""
        self._led = None

    def left(self, now: float) -> float:
        """For how many seconds the Lease may still be relied on, whether or not this replica is ready to lead."""
        if self._lease is None or not self.is_own:
            return 0.0
        return max(0.0, self._earliest + self._lease.duration * DEADLINE - now)

    def may_write(self, now: float) -> float:
        """For how many seconds this replica may still write; 0 unless it leads."""
        return self.left(now) if self._led is not None and self._led == self.term else 0.0

    def _is_own(self, lease: Lease) -> bool:
        return host_of(lease.holder) == self._host


def term_of(lease: Lease) -> LeaseTerm:
    """The term that a Lease tells of."""
    return LeaseTerm(lease.holder, lease.lease_transitions or 0)


def host_of(identity: str) -> str:
    """kube-scheduler calls itself by its host, an underscore and a random part; hosts have no underscore."""
    return identity.rpartition("_")[0] or identity

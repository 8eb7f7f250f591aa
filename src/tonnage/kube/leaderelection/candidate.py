"""The candidate for a Lease: when it acquires and renews it, and until when it may write. Nothing here does I/O.

The rules are those of client-go's leader election. A candidate takes another's Lease for expired when it has not seen
it change for the whole lease duration, by its own clock; it never compares that clock with times that others wrote.
Every write names the resourceVersion that it replaces, so one of several candidates succeeds.

The holder writes nothing once its renew deadline has passed. The deadline is shorter than the lease duration and counts
from when the holder sent the last renewal that was answered, which is before anybody else can have seen it. The next
holder therefore need not wait for the one before.
"""

from math import inf

import msgspec

from tonnage.kube.leaderelection.lease import Lease, LeaseRecord
from tonnage.model.duration import format_seconds

JITTER = 1.2
"""How many times the retry period the renew deadline must exceed, as in client-go."""


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """client-go's LeaseDuration, RenewDeadline and RetryPeriod, in seconds."""

    lease_duration: float = 9.0
    """Others may acquire a Lease that was not renewed for so long."""
    renew_deadline: float = 6.0
    """The holder writes nothing once it has not renewed the Lease for so long."""
    retry_period: float = 1.0
    """How often the Lease is renewed or read; also the least time that must be left to begin a write."""

    def problem(self) -> str:
        """Why these do not go together; empty if they do."""
        given = self.lease_duration, self.renew_deadline, self.retry_period
        lease, deadline, period = (f"({format_seconds(seconds)})" for seconds in given)
        if self.lease_duration < 1 or self.lease_duration != int(self.lease_duration):
            return f"the lease duration {lease} must be whole seconds"
        if self.renew_deadline >= self.lease_duration:
            return f"the renew deadline {deadline} must be shorter than the lease duration {lease}"
        if self.retry_period <= 0 or self.renew_deadline <= self.retry_period * JITTER:
            return f"the renew deadline {deadline} must be more than {JITTER} times the retry period {period}"
        return ""


class Candidate:
    """One candidate, with the Lease as it last observed it."""

    def __init__(self, identity: str, durations: Durations) -> None:
        self.identity = identity
        """Unique among all processes, past ones included."""
        self._durations = durations
        self._observed = LeaseRecord()
        self._is_doubtful = True
        """Whether the Lease may differ from the observed one: none was read yet, or a write got no answer."""
        self._observed_at = -inf
        """When the Lease was first observed as it is."""
        self._vacant_until = -inf
        """A Lease that was deleted under its holder is not created anew before this."""
        self._renewed_at = -inf
        """When the last renewal that was answered was sent."""
        self.term = 0
        """Counts how often the Lease was acquired, or renewed too late: the replica must prepare anew for each."""
        self._led_term = 0

    # -- reads and writes

    def observe(self, record: LeaseRecord, now: float) -> None:
        """Take in the answer to a read of the Lease."""
        known, self._observed = self._observed.lease, record
        if record.lease != known:
            self._observed_at = now
            if not record.resource_version and known.holder not in ("", self.identity):
                self._vacant_until = now + known.duration
        self._is_doubtful = False
        if not self.is_holder:
            self._renewed_at = -inf

    def confirm(self, record: LeaseRecord, sent: float, now: float) -> None:
        """Take in the answer to a write of the Lease."""
        known, self._observed = self._observed.lease, record
        # Other candidates cannot see a renewal that changed nothing.
        if record.lease != known:
            if not self.time_left(now):
                self.term += 1
            self._observed_at, self._renewed_at = now, sent
        self._is_doubtful = False

    def doubt(self) -> None:
        """A write was refused or not answered."""
        self._is_doubtful = True

    # -- the next write

    @property
    def must_read(self) -> bool:
        """Whether to read the Lease before writing it."""
        return self._is_doubtful or not self.is_holder

    @property
    def resource_version(self) -> str:
        """The resourceVersion that the next write replaces."""
        return self._observed.resource_version

    def desired(self, now: float, stamp: str) -> Lease | None:
        """The Lease to write to renew or acquire it; None while another candidate holds it."""
        known, duration = self._observed.lease, int(self._durations.lease_duration)
        if self.is_holder:
            return msgspec.structs.replace(known, lease_duration_seconds=duration, renew_time=stamp)
        if now < (self._observed_at + known.duration if known.holder else self._vacant_until):
            return None
        transitions = (known.lease_transitions or 0) + 1 if self._observed.resource_version else 0
        return Lease(self.identity, duration, transitions, renew_time=stamp, acquire_time=stamp)

    def released(self, stamp: str) -> Lease:
        """The Lease to write so that others may acquire it at once."""
        return msgspec.structs.replace(self._observed.lease, holder_identity=None, renew_time=stamp)

    # -- leading

    @property
    def holder(self) -> str:
        """The observed holder; empty if nobody holds the Lease."""
        return self._observed.lease.holder

    @property
    def is_holder(self) -> bool:
        """Whether this candidate is the observed holder."""
        return self.holder == self.identity

    def time_left(self, now: float) -> float:
        """For how many seconds nobody else may write, whether or not this candidate is ready to lead."""
        return max(0.0, self._renewed_at + self._durations.renew_deadline - now) if self.is_holder else 0.0

    def start_leading(self, term: int) -> None:
        """Lead in that term, which the replica has prepared for, if it is still the present one."""
        if term == self.term:
            self._led_term = term

    def may_write(self, now: float) -> float:
        """For how many seconds this candidate may still write; 0 unless it leads."""
        return self.time_left(now) if self._led_term == self.term else 0.0

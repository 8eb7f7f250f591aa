"""A candidate for a Lease: when it takes and renews it, and until when it may write. Nothing here does I/O.

The rules are those of Kubernetes' own programs. Another's Lease is taken for run out when it was not seen to change for
its whole duration, by our own clock; times that others wrote are never compared with it. Every write names the version
that it replaces, so of several candidates one succeeds.

The holder writes nothing once its deadline has passed. That is shorter than the duration and counts from when it sent
the last renewal that was answered, which is before anybody else can have seen it. Whoever finds the Lease run out
therefore need not wait for the one before.
"""

from math import inf

import msgspec

from tonnage.kube.leaderelection.lease import Lease, Record

JITTER = 1.2
"""How much longer than the period the deadline must be at least, as with Kubernetes' own programs."""


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds."""

    lease: float = 9.0
    """Others may take a Lease that was not renewed for so long."""
    deadline: float = 6.0
    """The holder writes nothing once it has not renewed it for so long."""
    period: float = 1.0
    """How often the Lease is renewed or looked at; also the least time in which a write is begun."""

    def problem(self) -> str:
        """Why these do not go together; empty if they do."""
        lease, deadline, period = (f"({seconds:g}s)" for seconds in (self.lease, self.deadline, self.period))
        if self.lease < 1 or self.lease != int(self.lease):
            return f"the lease duration {lease} must be whole seconds"
        if self.deadline >= self.lease:
            return f"the renew deadline {deadline} must be shorter than the lease duration {lease}"
        if self.period <= 0 or self.deadline <= self.period * JITTER:
            return f"the renew deadline {deadline} must be more than {JITTER} times the retry period {period}"
        return ""


class Candidate:
    """What one candidate knows of the Lease."""

    def __init__(self, identity: str, durations: Durations) -> None:
        self.identity = identity
        """What no other process calls itself, now or before."""
        self._durations = durations
        self._known = Record()
        self._is_doubtful = True
        """Whether the Lease may be another than is known: nothing was seen yet, or a write got no answer."""
        self._since = -inf
        """When the Lease was first seen as it is."""
        self._vacant = -inf
        """A Lease that vanished under its holder is not made anew before this."""
        self._sent = -inf
        """When the last renewal that was answered was sent."""
        self.term = 0
        """Counts how often the Lease was taken, or renewed too late: everything must be made ready anew then."""
        self._led = 0

    # -- what is seen and written

    def saw(self, record: Record, now: float) -> None:
        """Take over an answer to the question how the Lease is."""
        known, self._known = self._known.lease, record
        if record.lease != known:
            self._since = now
            if not record.version and known.holder not in ("", self.identity):
                self._vacant = now + known.duration
        self._is_doubtful = False
        if not self.is_holder:
            self._sent = -inf

    def wrote(self, record: Record, sent: float, now: float) -> None:
        """Take over the answer to a write of ours."""
        known, self._known = self._known.lease, record
        # Nobody could see a renewal that changed nothing.
        if record.lease != known:
            if not self.left(now):
                self.term += 1
            self._since, self._sent = now, sent
        self._is_doubtful = False

    def doubt(self) -> None:
        """A write was refused or not answered."""
        self._is_doubtful = True

    # -- what to do

    @property
    def must_look(self) -> bool:
        """Whether to look at the Lease before anything is written."""
        return self._is_doubtful or not self.is_holder

    @property
    def version(self) -> str:
        """The version that the next write replaces."""
        return self._known.version

    def wish(self, now: float, stamp: str) -> Lease | None:
        """What to write, to renew the Lease or to take it; nothing while another holds it."""
        known, duration = self._known.lease, int(self._durations.lease)
        if self.is_holder:
            return msgspec.structs.replace(known, lease_duration_seconds=duration, renew_time=stamp)
        if now < (self._since + known.duration if known.holder else self._vacant):
            return None
        transitions = (known.lease_transitions or 0) + 1 if self._known.version else 0
        return Lease(self.identity, duration, transitions, renew_time=stamp, acquire_time=stamp)

    def given_back(self, stamp: str) -> Lease:
        """What to write to let others take the Lease at once."""
        return msgspec.structs.replace(self._known.lease, holder_identity=None, renew_time=stamp)

    # -- what follows

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as is known; empty if nobody does."""
        return self._known.lease.holder

    @property
    def is_holder(self) -> bool:
        """Whether this candidate holds the Lease as far as is known."""
        return self.holder == self.identity

    def left(self, now: float) -> float:
        """For how many seconds nobody else may write, whether or not this candidate is ready to lead."""
        return max(0.0, self._sent + self._durations.deadline - now) if self.is_holder else 0.0

    def lead(self, term: int) -> None:
        """Everything is ready for leading in that term, if it is still the present one."""
        if term == self.term:
            self._led = term

    def may_write(self, now: float) -> float:
        """For how many seconds this candidate may still write; 0 unless it leads."""
        return self.left(now) if self._led == self.term else 0.0

"""Actions `gangpreempt` and `gangreclaim`: as `preempt` and `reclaim`, and gangs may go whole whatever `gang` says."""

from functools import partial

from tonnage.actions.eviction.preempt import Preempt
from tonnage.actions.eviction.reclaim import Reclaim
from tonnage.actions.eviction.search import Allows
from tonnage.framework.session import Session


class GangPreempt(Preempt):
    """Makes room within a queue: from gangs their surplus first, then gangs as a whole."""

    name = "gangpreempt"

    def allows(self, session: Session) -> Allows | None:
        return partial(session.jobs.preemptable, whole_gangs=True)


class GangReclaim(Reclaim):
    """The same across queues."""

    name = "gangreclaim"

    def allows(self, session: Session) -> Allows | None:
        return partial(session.jobs.reclaimable, whole_gangs=True)

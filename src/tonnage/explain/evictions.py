"""Evictions for one job: the cheapest that the configured actions allow, or the rule that forbids them."""

from collections.abc import Sequence

from tonnage.actions.catalog import make_actions
from tonnage.actions.eviction.evictionaction import EvictionAction
from tonnage.cluster.jobs.job import Job
from tonnage.framework.cycle import acting
from tonnage.framework.decision import Eviction, Reason
from tonnage.framework.session import Session


def evictions_for(session: Session, job: Job, actions: Sequence[str]) -> tuple[list[Eviction], dict[str, Reason]]:
    """The evictions for a job once the evicting actions have run, else why there are none; changes the session.

    The actions go over all waiting jobs in their order, as in a cycle: others may come first.
    """
    for action in make_actions(actions):
        if isinstance(action, EvictionAction):
            with acting(session, action):
                action.run(session)
    evictions = [one for one in session.evictions if one.for_ == job.key]
    return evictions, {} if evictions else dict(session.waits.get(job.key, {}))


def evicts(actions: Sequence[str]) -> bool:
    """Whether any of the actions evicts pods for waiting ones."""
    return any(isinstance(action, EvictionAction) for action in make_actions(actions))

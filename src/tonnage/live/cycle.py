"""A scheduling cycle that is only looked at: what the configuration would decide now, and the cluster as before."""

from collections.abc import Mapping
from typing import NamedTuple

from tonnage.actions.catalog import make_actions
from tonnage.cluster.savepoint import Savepoint
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision, DecisionOutcome, QueueFigures
from tonnage.framework.failures import failure
from tonnage.live.view import ClusterView


class CycleDecisions(NamedTuple):
    """What one cycle would decide."""

    waiting: Mapping[str, Decision]
    """Decisions about pods that would go on waiting, by pod."""
    placed: Mapping[str, Decision]
    """Decisions about pods that the next cycle of a scheduler would place, by pod."""
    queues: Mapping[str, Mapping[str, QueueFigures]]
    """What each queue deserves, holds and wants of each resource, if a plugin gives queues shares."""
    fault: str = ""
    """Why there are no decisions: a plugin cannot be opened, or failed."""


def dry_cycle(view: ClusterView) -> CycleDecisions:
    """Run the actions of a view's configuration over its cluster, and undo all that they did."""
    savepoint = Savepoint(view.cluster)
    try:
        with view.session(brief=True) as session:
            # Before the actions, which move pods to places that they do not have.
            queues = {name: dict(figures) for name, figures in session.queues.figures().items()}
            decisions = run_cycle(session, make_actions(view.actions))
    except Exception as error:
        # A plugin of somebody else's may fail in any way; whoever looks sees the rest.
        return CycleDecisions({}, {}, {}, failure(error))
    finally:
        savepoint.roll_back()
    waiting = {one.task.key: one for one in decisions if one.outcome != DecisionOutcome.PLACED}
    placed = {one.task.key: one for one in decisions if one.outcome == DecisionOutcome.PLACED}
    return CycleDecisions(waiting, placed, queues)

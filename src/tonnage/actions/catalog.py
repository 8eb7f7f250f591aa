"""Catalog of the actions, by name."""

from collections.abc import Sequence

from tonnage.actions.allocate import Allocate
from tonnage.actions.backfill import Backfill
from tonnage.actions.enqueue import Enqueue
from tonnage.actions.eviction.consolidation import Consolidation
from tonnage.actions.eviction.gangactions import GangPreempt, GangReclaim
from tonnage.actions.eviction.preempt import Preempt
from tonnage.actions.eviction.reclaim import Reclaim
from tonnage.actions.eviction.stalegangeviction import StaleGangEviction
from tonnage.framework.action import Action

ACTIONS = (
    Enqueue.name,
    Allocate.name,
    Backfill.name,
    Consolidation.name,
    Reclaim.name,
    Preempt.name,
    GangReclaim.name,
    GangPreempt.name,
    StaleGangEviction.name,
)


def make_actions(names: Sequence[str] = (Allocate.name,)) -> list[Action]:
    """The actions of those names; unknown names are left out."""
    made: dict[str, Action] = {
        Enqueue.name: Enqueue(),
        Allocate.name: Allocate(best_effort=Backfill.name not in names),
        Backfill.name: Backfill(),
        Consolidation.name: Consolidation(),
        Reclaim.name: Reclaim(),
        Preempt.name: Preempt(),
        GangReclaim.name: GangReclaim(),
        GangPreempt.name: GangPreempt(),
        StaleGangEviction.name: StaleGangEviction(),
    }
    return [made[name] for name in names if name in made]

"""The actions that there are, by name."""

from collections.abc import Sequence

from tonnage.actions.allocate import Allocate
from tonnage.actions.backfill import Backfill
from tonnage.actions.enqueue import Enqueue
from tonnage.framework.action import Action

ACTIONS = (Enqueue.name, Allocate.name, Backfill.name)


def make_actions(names: Sequence[str] = (Allocate.name,)) -> list[Action]:
    """The actions of those names; names that are not among them are left out."""
    made: dict[str, Action] = {
        Enqueue.name: Enqueue(),
        Allocate.name: Allocate(best_effort=Backfill.name not in names),
        Backfill.name: Backfill(),
    }
    return [made[name] for name in names if name in made]

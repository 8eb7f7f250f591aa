"""Action `allocate`: places waiting pods where they fit now, or once leaving pods have left."""

from tonnage.actions.joballocator import JobAllocator
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Allocate(Action):
    """Places the waiting pods of one job after another; it leaves best-effort pods to `backfill` if that runs too."""

    name = "allocate"

    def __init__(self, best_effort: bool = True) -> None:
        self._best_effort = best_effort

    def run(self, session: Session) -> None:
        JobAllocator(session, self.name, lambda task: self._best_effort or not task.is_best_effort).run()

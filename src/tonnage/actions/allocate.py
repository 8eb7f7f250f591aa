"""Allocate: give waiting pods a place where they fit now, or once the pods that are leaving have left."""

from tonnage.actions.joballocator import JobAllocator
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Allocate(Action):
    """Places the waiting pods of each job in its turn; pods that ask for nothing are left to `backfill` if it runs."""

    name = "allocate"

    def __init__(self, best_effort: bool = True) -> None:
        self._best_effort = best_effort

    def run(self, session: Session) -> None:
        JobAllocator(session, self.name, lambda task: self._best_effort or not task.is_best_effort).run()

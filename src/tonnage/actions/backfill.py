"""Backfill: give pods that ask for nothing a place."""

from tonnage.actions.joballocator import JobAllocator
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Backfill(Action):
    """Places the waiting pods that request nothing, also those of queues that have had their share of everything."""

    name = "backfill"

    def run(self, session: Session) -> None:
        JobAllocator(session, self.name, lambda task: task.is_best_effort, mind_shares=False).run()

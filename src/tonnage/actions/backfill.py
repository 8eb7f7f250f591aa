"""Action `backfill`: places best-effort pods, which request nothing."""

from tonnage.actions.joballocator import JobAllocator
from tonnage.framework.action import Action
from tonnage.framework.session import Session


class Backfill(Action):
    """Places the waiting best-effort pods, also those of queues that have had their share."""

    name = "backfill"

    def run(self, session: Session) -> None:
        JobAllocator(session, self.name, lambda task: task.is_best_effort, skips_overused=False).run()

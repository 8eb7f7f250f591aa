"""Series of faults on batch schedulers."""

import random
from collections.abc import Callable, Mapping

from tests.chaos.run import Run
from tests.chaos.scheduler.arena import Yard
from tests.chaos.scheduler.faults import Fault, Ground
from tests.chaos.scheduler.jobs import Jobs
from tests.chaos.scheduler.rest import Rest


def batch_run(arena: Yard, kinds: Mapping[str, Fault], seed: int, tell: Callable[[str], None]) -> Run:
    """On batch schedulers, with gangs and pods of two queues and priorities."""
    rng = random.Random(seed)
    traffic = Jobs(arena, rng)
    traffic.make_queues()
    return Run(Ground(arena, traffic, rng), Rest(arena, traffic), kinds, tell)

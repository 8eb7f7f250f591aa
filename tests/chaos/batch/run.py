"""Series of faults on batch schedulers."""

import random
from collections.abc import Callable, Mapping

from tests.chaos.batch.arena import Yard
from tests.chaos.batch.faults import Fault, Ground
from tests.chaos.batch.jobs import Jobs
from tests.chaos.batch.rest import Rest
from tests.chaos.run import Run


def batch_run(arena: Yard, kinds: Mapping[str, Fault], seed: int, tell: Callable[[str], None]) -> Run:
    """On batch schedulers, with gangs and pods of two queues and priorities."""
    rng = random.Random(seed)
    traffic = Jobs(arena, rng)
    traffic.make_queues()
    return Run(Ground(arena, traffic, rng), Rest(arena, traffic), kinds, tell)

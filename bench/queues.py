"""Queue measurements: division into fair shares, charging a placement, and the reclaim check."""

import random
import time

from tonnage.plugins.queues._dominantshare import order_key
from tonnage.plugins.queues._fairshare import divide
from tonnage.plugins.queues._kaireclaim import reclaimable
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Dimension, QueueTable, QueueTerms
from tonnage.plugins.queues._queueusage import QueueUsage

DIMENSIONS = [Dimension("nvidia.com/gpu", 1000), Dimension("cpu"), Dimension("memory"), Dimension("pods")]
TOTAL = (8_000_000, 18_000_000, 2**44, 9000)
JOB = (1000, 4000, 2**33, 1)


def many_queues(count: int, parents: int = 20, seed: int = 1) -> QueueTable:
    """Teams in departments whose requests exceed the cluster."""
    draw = random.Random(seed).randrange
    departments = [QueueTerms(f"department-{n}", weight=(1 + n % 3, 1, 1, 1)) for n in range(parents)]
    teams = [
        QueueTerms(
            f"team-{n}",
            parent=f"department-{n % parents}",
            deserved=(draw(8) * 1000, 0, 0, 0),
            limit=(20_000 if n % 2 else -1, -1, -1, -1),
            weight=(1 + draw(8),) * 4,
            request=(draw(64) * 1000, draw(64) * 1000, draw(64) * 2**30, draw(64)),
        )
        for n in range(count - parents)
    ]
    return QueueTable(DIMENSIONS, departments + teams)


def seconds_per_division(table: QueueTable, runs: int = 50) -> float:
    """Time of dividing the cluster among all queues, the fastest."""
    spent = []
    for _ in range(runs):
        start = time.perf_counter()
        divide(table, TOTAL)
        spent.append(time.perf_counter() - start)
    return min(spent)


def seconds_per_placement(table: QueueTable, runs: int = 20) -> float:
    """Time of charging a placement to a queue and its parents and computing its new order key, the fastest."""
    usage = QueueUsage(table, divide(table, TOTAL), TOTAL)
    leaves = [row for row, queue in enumerate(table.queues) if queue.parent][:500]
    spent = []
    for _ in range(runs):
        start = time.perf_counter()
        for row in leaves:
            usage.charge(row, JOB)
            order_key(usage, row, JOB)
        spent.append((time.perf_counter() - start) / len(leaves))
    return min(spent)


def seconds_per_reclaim_check(runs: int = 200) -> float:
    """Time of checking whether a job may reclaim 10 pods; four queues in two departments, the fastest."""
    departments = [QueueTerms(f"department-{n}", deserved=(32_000,) * 4) for n in range(2)]
    teams = [
        QueueTerms(f"team-{n}", f"department-{n % 2}", deserved=(16_000,) * 4, allocated=(n * 10_000,) * 4)
        for n in range(4)
    ]
    table = QueueTable(DIMENSIONS, departments + teams)
    usage = QueueUsage(table, divide(table, TOTAL), TOTAL)
    losses = [Loss(table.rows[f"team-{1 + n % 3}"], JOB) for n in range(10)]
    row, spent = table.rows["team-0"], []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(20):
            reclaimable(usage, row, JOB, JOB, losses, 1.0)
        spent.append((time.perf_counter() - start) / 20)
    return min(spent)

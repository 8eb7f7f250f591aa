"""Eviction measurements: a gang on a full cluster reclaims its quota, is unschedulable, or fits by consolidation."""

import gc
import time
from collections.abc import Callable, Sequence

from bench.jobs import GPUS, job_pod, moment, plain_nodes, team_queue
from tests.config.texts import KAI_DEFAULT
from tests.groups import add, kai_group
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.config.load import load_text
from tonnage.framework.session import Session

ALL = ("allocate", "consolidation", "reclaim", "preempt")
BORROWER, OWNER = "team-a", "team-b"


def full_cluster(nodes: int, gang: int, deserved: int, per_node: int = GPUS, size: int = GPUS) -> Cluster:
    """Nodes with `per_node` running one-GPU jobs of one team, and a pending gang of another team with that quota."""
    cluster = plain_nodes(nodes)
    add(cluster, team_queue(BORROWER, nodes * GPUS - deserved))
    add(cluster, team_queue(OWNER, deserved))
    for number in range(nodes * per_node):
        name, created = f"run-{number:05d}", moment(number)
        add(cluster, kai_group(name, 1, created=created, queue=BORROWER))
        cluster.upsert_pod(job_pod(name, name, created, on=f"node-{number // per_node:05d}"))
    created = moment(nodes * per_node)
    add(cluster, kai_group("gang", gang, created=created, queue=OWNER))
    for number in range(gang):
        cluster.upsert_pod(job_pod(f"gang-{number:05d}", "gang", created, gpus=size))
    cluster.settle()
    return cluster


def seconds_to_make_room(
    make: Callable[[], Cluster], evicted: int, actions: Sequence[str] = ALL, runs: int = 3
) -> float:
    """CPU time of a session with these actions, the fastest; it must evict exactly `evicted` pods."""
    spent: list[float] = []
    for _ in range(runs):
        cluster, plugins = make(), load_text(KAI_DEFAULT, "KAI").plugins
        gc.collect()
        gc.freeze()
        start = time.process_time()
        with Session(cluster, plugins) as session:
            for action in make_actions(actions):
                action.run(session)
            spent.append(time.process_time() - start)
        gc.unfreeze()
        assert len(session.evictions) == evicted, f"the session evicts {len(session.evictions)} pods, not {evicted}"
    return min(spent)

"""Trials: one scheduling cycle on a copy of the cluster, under a policy or with more nodes, beside one without."""

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.explain.additions import copies_of
from tonnage.explain.moves import unplaced
from tonnage.explain.settling import settle_places
from tonnage.framework.cycle import run_cycle
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.overview.overview import ClusterTotals, Overview
from tonnage.server.copies import CopyError, in_copy
from tonnage.simulator.policies import policy_named

SECONDS = 60.0
"""How long one side of a trial may take."""
MOST_NODES = 500
"""The most nodes that may be added."""
MOST_DIFFERENCES = 100


class ClusterTrial(msgspec.Struct, frozen=True):
    """A question."""

    policy: str = ""
    """A policy by name; empty for the configuration in force."""
    add: int = 0
    """How many nodes to add."""
    like: str = ""
    """The node that they are like."""
    scope: str = "waiting"
    """`waiting`: pods that run stay where they are; `all`: every pod is placed anew, the oldest first."""


class TrialSide(msgspec.Struct, frozen=True):
    """What came out on one side."""

    name: str
    totals: ClusterTotals
    placed: int
    evicted: int
    places: dict[str, str]
    """The node of each pod that has one."""


class TrialDifference(msgspec.Struct, frozen=True):
    """A pod that fares differently."""

    pod: str
    before: str
    """Its node without the change; empty if it waits."""
    after: str


class TrialResult(msgspec.Struct, frozen=True):
    """An answer."""

    before: TrialSide
    after: TrialSide
    differences: list[TrialDifference]
    difference_count: int


def side(
    name: str, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str], trial: ClusterTrial
) -> TrialSide:
    """Change a cluster as a trial says, place its waiting pods, and see where they are."""
    settle_places(cluster)
    if trial.scope == "all":
        placed = list(cluster.running.values())
        for task in placed:
            cluster.remove_pod(task.key)
        for task in placed:
            cluster.upsert_pod(unplaced(cluster, task.pod))
    for node in added(cluster, trial.like, trial.add):
        cluster.upsert_node(node)
    with Session(cluster, [plugin.with_options() for plugin in plugins]) as session:
        run_cycle(session, make_actions(actions))
        evicted = len(session.evictions)
        new = sum(key not in cluster.pipelined for key in cluster.reserved)
        decisions, figures = session.decisions, session.queues.figures()
        totals = Overview(cluster, plugins).update(lambda task: decisions.get(task.key), figures).totals
    waiting = {*cluster.waiting, *cluster.pipelined}
    places = {key: node for key, node in cluster.holders.items() if key not in waiting}
    return TrialSide(name, totals, new, evicted, places)


def added(cluster: Cluster, like: str, count: int) -> list[Node]:
    """New nodes like one that there is; CopyError if there is no such node."""
    if not count:
        return []
    if like not in cluster.nodes:
        raise CopyError(f"there is no node {like} that new ones could be like")
    copies = copies_of(cluster.nodes[like], count, "added")
    return [replace(node, spec=replace(node.spec, unschedulable=None)) for node in copies]


async def try_out(
    cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str], trial: ClusterTrial, seconds: float = SECONDS
) -> TrialResult:
    """Both sides of a trial, one after the other; CopyError if one fails or takes too long."""
    same = ClusterTrial(scope=trial.scope)
    before = await in_copy(partial(side, "as it is", cluster, plugins, actions, same), TrialSide, seconds)
    chosen = policy_named(trial.policy).settings(None) if trial.policy else None
    words = [trial.policy or "the present policy", *([f"{trial.add} more nodes"] if trial.add else [])]
    decide = (plugins, actions) if chosen is None else (chosen.plugins, chosen.actions)
    after = await in_copy(partial(side, " and ".join(words), cluster, *decide, trial), TrialSide, seconds)
    differing = [
        TrialDifference(pod, before.places.get(pod, ""), after.places.get(pod, ""))
        for pod in sorted(before.places.keys() ^ after.places.keys())
    ]
    return TrialResult(before, after, differing[:MOST_DIFFERENCES], len(differing))

"""Words for scenarios of plans: pods that a controller makes again, and the plan for a cluster."""

from typing import Any

import msgspec

from tests.scenario import running
from tonnage.cluster.cluster import Cluster
from tonnage.model.meta import OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.plan.defrag.goals import Goal, GoalKind
from tonnage.plan.defrag.limits import Limits
from tonnage.plan.defrag.planner import Planner, PlanRequest
from tonnage.plan.defrag.prices import Prices
from tonnage.plan.defrag.record import DefragPlan
from tonnage.plugins.defaults import default_plugins

NOW = 1_800_000_000.0
FREE_GPUS, FREE_NODES = Goal(GoalKind.FREE_GPUS), Goal(GoalKind.FREE_NODES)
USABLE, START = Goal(GoalKind.USABLE), Goal(GoalKind.START)


def kept(
    name: str,
    *,
    hours: float = 1.0,
    owner: str = "ReplicaSet",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    priority: int | None = None,
    volumes: Any = None,
    **more: Any,
) -> Pod:
    """A pod that has run for some hours and that its controller makes again."""
    made = running(name, **more)
    metadata = msgspec.structs.replace(
        made.metadata,
        ownerReferences=[OwnerReference(name, True, owner)] if owner else None,
        annotations={**made.annotations, **(annotations or {})},
        labels=labels,
        creationTimestamp=rfc3339(NOW - hours * 3600.0),
    )
    return msgspec.structs.replace(
        made,
        metadata=metadata,
        spec=msgspec.structs.replace(made.spec, priority=priority, volumes=volumes),
        status=msgspec.structs.replace(made.status, startTime=rfc3339(NOW - hours * 3600.0)),
    )


def plan(
    cluster: Cluster,
    goal: Goal,
    *,
    prices: Prices | None = None,
    seconds: float = 60.0,
    gpu_policy: str = "binpack",
    **limits: Any,
) -> DefragPlan:
    """The plan for a cluster; seconds is the time that the search may take, which a test never waits for."""
    cluster.now = NOW
    planner = Planner(cluster, default_plugins("binpack", gpu_policy), ["allocate"], "HAMi's policies")
    return planner.plan(PlanRequest(goal, Limits(**limits), prices or Prices(), NOW), lambda: seconds)


def moves(found: DefragPlan) -> list[tuple[str, str, str]]:
    """Which pods go from where to where, in order."""
    return [(move.pod.removeprefix("default/"), move.node, move.to) for move in found.moves]

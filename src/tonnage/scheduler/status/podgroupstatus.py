"""The desired status of a PodGroup, in the terms of Volcano, KAI and the coscheduling plugin.

Nothing here does I/O. A field that needs no change comes out as it went in; so does a condition of which only the time
would change.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tonnage.cluster.jobs.group import LET_IN
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.framework.reasons import known_reason
from tonnage.model.group import CoschedulingPodGroup, KaiPodGroup, PodGroup, VolcanoPodGroup
from tonnage.model.number import LARGEST_COUNT, whole_number
from tonnage.observability.messages import shortened

Status = dict[str, Any]

UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
ON_NODE_POOL = "UnschedulableOnNodePool"
NODE_POOL, DEFAULT_POOL = "kai.scheduler/node-pool", "default"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
READY = "tasks in gang are ready to be scheduled"
POD_ERRORS = "PodSchedulingErrors"
_STAMPS = ("transitionID", "lastTransitionTime")
_COMPLETED = "Completed"
_ENDED = ("Finished", "Failed")


class Why(NamedTuple):
    """Why a group is pending."""

    reason: str
    message: str
    cycle: str
    """The cycle that found the reason."""


class Members(NamedTuple):
    """The number of a group's pods, by state."""

    pods: int
    """All pods but the failed ones."""
    bound: int
    """Pods with a node that have not finished."""
    running: int
    succeeded: int
    failed: int


def members_of(job: Job | None, failed: int) -> Members:
    """Count the pods of a group; failed pods are no part of its job any more."""
    if job is None:
        return Members(0, 0, 0, 0, failed)
    pods = [task.pod for task in job.tasks.values()]
    bound = [pod for pod in pods if pod.node is not None]
    running = sum(1 for pod in bound if pod.status.phase == "Running")
    return Members(len(pods) + len(job.finished), len(bound), running, len(job.finished), failed)


def status_of(
    thing: PodGroup, phase: str, job: Job | None, failed: int, why: Why | None, cycle: str, now: str
) -> Status:
    """The fields of a group's status; `phase` is the decided one, `cycle` and `now` are for conditions that change."""
    members = members_of(job, failed)
    if isinstance(thing, KaiPodGroup):
        return _kai(thing, job, why, now)
    if isinstance(thing, CoschedulingPodGroup):
        return _coscheduling(thing, members)
    return _volcano(thing, phase, members, job, why, cycle, now)


def seen_status(thing: PodGroup) -> Status:
    """The status of a group in the API server, as far as it is written here."""
    status = thing.status
    return {name: getattr(status, name) for name in status.__struct_fields__}


def without_stamps(value: Any) -> Any:
    """A field without the time and the cycle of its conditions."""
    if not isinstance(value, list):
        return value
    return [
        {key: part for key, part in one.items() if key not in _STAMPS} if isinstance(one, dict) else one
        for one in value
    ]


def latest_condition(fields: Status) -> tuple[str, str] | None:
    """The type and message of the condition that was added last; nothing if no conditions are written."""
    found = (fields.get("conditions") or fields.get("schedulingConditions") or [None])[-1]
    if not isinstance(found, dict):
        return None
    kind = found["reason"] if found["type"] == ON_NODE_POOL else found["type"]
    return kind, found.get("message") or found["reason"]


# -- Volcano


def _volcano(
    thing: VolcanoPodGroup, phase: str, members: Members, job: Job | None, why: Why | None, cycle: str, now: str
) -> Status:
    lacks = job is None or bool(job.lacking())
    waits = why if lacks else None
    conditions = _conditions(thing.status.conditions)
    if waits is not None:
        reason = known_reason(waits.reason).volcano or NOT_ENOUGH_RESOURCES
        conditions = _only(conditions, UNSCHEDULABLE, reason, waits.message, waits.cycle, now)
    elif job is not None and not lacks:
        conditions = _only(conditions, SCHEDULED, READY, "", cycle, now)
    status: Status = {"phase": volcano_phase(thing.spec.minMember, phase, members, lacks)}
    for name in ("running", "succeeded", "failed"):
        count, said = getattr(members, name), getattr(thing.status, name)
        # Volcano leaves a count of 0 out.
        status[name] = said if not count and not said else count
    if conditions or thing.status.conditions:
        status["conditions"] = conditions
    return status


def volcano_phase(minimum: int, phase: str, members: Members, lacks: bool) -> str:
    """The phase by Volcano's rule; a group lacks pods that cannot be placed, leave, or are not made again yet."""
    if members.running and lacks:
        return "Unknown"
    completed = members.succeeded + members.failed
    scheduled = members.bound + completed
    if scheduled and scheduled >= minimum:
        return _COMPLETED if scheduled == completed else "Running"
    if phase == _COMPLETED and not members.pods:
        # Its pods were cleaned up; Volcano would set it to Pending again.
        return phase
    return phase if phase == LET_IN else "Pending"


def _only(conditions: list[Any], kind: str, reason: str, message: str, cycle: str, now: str) -> list[Any]:
    """The conditions with exactly one of our two types, so that a reader who looks only at the type is not misled."""
    ours = {"type": kind, "status": "True", "reason": reason}
    if message:
        ours["message"] = shortened(message)
    for one in conditions:
        if without_stamps([one]) == [ours]:
            ours = one
    if "transitionID" not in ours:
        ours = ours | {"transitionID": cycle, "lastTransitionTime": now}
    return [one for one in conditions if _named(one, "type") not in (UNSCHEDULABLE, SCHEDULED)] + [ours]


# -- KAI


def _kai(thing: KaiPodGroup, job: Job | None, why: Why | None, now: str) -> Status:
    """One condition per node pool, the latest last, removed when no pod of the group is pending or being bound.

    The condition of a group of which some pods have places stays as it is.
    """
    given = thing.status.schedulingConditions
    conditions, pool = _conditions(given), thing.labels.get(NODE_POOL) or DEFAULT_POOL
    others = [one for one in conditions if _named(one, "nodePool") != pool]
    if job is None:
        found = conditions
    elif job.count(PodStatus.WAITING):
        holds = job.count(PodStatus.RUNNING, PodStatus.PLACED, PodStatus.PIPELINED)
        found = conditions if holds or why is None else [*others, _on_node_pool(conditions, pool, why, now)]
    else:
        found = conditions if job.count(PodStatus.PLACED, PodStatus.PIPELINED) else others
    return {"schedulingConditions": found} if found or given else {}


def _on_node_pool(conditions: list[Any], pool: str, why: Why, now: str) -> dict[str, Any]:
    message = shortened(why.message)
    ours = {
        "type": ON_NODE_POOL,
        "nodePool": pool,
        "reason": UNSCHEDULABLE,
        "message": message,
        "reasons": [{"reason": known_reason(why.reason).kai or POD_ERRORS, "message": message}],
        "status": "True",
    }
    if conditions and without_stamps(conditions[-1:]) == [ours]:
        found: dict[str, Any] = conditions[-1]
        return found
    said = [whole_number(_named(one, "transitionID"), 0, LARGEST_COUNT) for one in conditions]
    numbers = [number for number in said if number is not None]
    return ours | {"transitionID": str(max(numbers, default=0) + 1), "lastTransitionTime": now}


# -- coscheduling


def _coscheduling(thing: CoschedulingPodGroup, members: Members) -> Status:
    """The phase up to Running; its controller sets the end of a group."""
    said = thing.status.phase or ""
    minimum, scheduled = thing.spec.minMember, members.bound + members.succeeded + members.failed
    if said in _ENDED:
        phase = said
    elif members.pods < minimum or not members.pods:
        phase = "Pending"
    elif scheduled < minimum:
        phase = "Scheduling"
    else:
        phase = "Running" if members.running + members.succeeded >= minimum else "Scheduled"
    counts = {"scheduled": scheduled, "running": members.running, "succeeded": members.succeeded}
    status: Status = {"phase": phase}
    for name, count in {**counts, "failed": members.failed}.items():
        given = getattr(thing.status, name)
        status[name] = given if not count and not given else count
    return status


def _conditions(given: Any) -> list[Any]:
    """The conditions that are there; anything but a list of objects was not written by a scheduler."""
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _named(condition: Mapping[str, Any], field: str) -> str:
    value = condition.get(field, "")
    return value if isinstance(value, str) else ""

"""Tonnage's own annotations, with the keys that they had before the first release, and HAMi's about hand-overs."""

from collections.abc import Mapping

from tonnage.model.problem import Problem, annotation_field

QUEUE = "tonnage.io/queue"
MIN_MEMBERS = "tonnage.io/min-members"
MAX_MEMBERS = "tonnage.io/max-members"
TOPOLOGY_REQUIRED = "tonnage.io/topology-required"
TOPOLOGY_PREFERRED = "tonnage.io/topology-preferred"
REQUEUED = "tonnage.io/requeued"
CHECKPOINTED = "tonnage.io/checkpointed"
"""Of a pod: the time of its last checkpoint, such as 2026-01-31T12:00:00Z; work before it is not lost by moving it."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Of a pod: `false` if it must not be moved, `true` if it may be in spite of local volumes; the autoscaler's key."""
BIND_PHASE = "hami.io/bind-phase"
"""Of a pod: how far its hand-over to the device plugin is, in one of the three words."""
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
LOCK = "hami.io/mutex.lock"
"""Of a node: the pod that is being handed its devices."""
AGENT = "tonnage.io/agent"
"""Of a node: the version and boot id of the agent that serves it, which needs no lock."""
INVENTED_CARDS = "tonnage.io/invented-cards"
"""Label of a node whose cards are invented, for trials: `true`."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""What `kubectl apply` remembers: the whole object, with all environment variables of a pod."""
_RENAMED = {
    key.replace("tonnage.io/", "tonnage/"): key
    for key in (QUEUE, MIN_MEMBERS, MAX_MEMBERS, TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED)
}


def renamed_keys(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """The keys of before the first release that are in use and have no effect, each with its new name."""
    if _RENAMED.keys().isdisjoint(annotations):
        return []
    return [(old, new) for old, new in _RENAMED.items() if old in annotations]


def renamed_problem(name: str, old: str, new: str) -> Problem:
    """The problem of an object that uses such a key."""
    return Problem(name, annotation_field(old), "", new, f"{old} has no effect: the annotation is called {new}")

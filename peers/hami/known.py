"""Known differences between HAMi and Tonnage, each with the reason that a user of HAMi is given."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from peers.hami.outcomes import Placement, Review
from peers.hami.workload import TIGHT, Case


class KnownPlacement(NamedTuple):
    """A difference in where a pod goes."""

    name: str
    reason: str
    explains: Callable[[Case, Placement, Placement], bool]
    """Whether it explains these outcomes: ours, then HAMi's."""


class KnownReview(NamedTuple):
    """A difference in what admission makes of a pod."""

    name: str
    reason: str
    explains: Callable[[dict[str, Any], Review, Review], bool]


_SCORED_BY_VENDOR = ("ascend", "xpu", "vastai", "sgpu", "metax")
_SET_RULES = {
    "CardSetInfeasible": {
        "NumaNotFit",
        "CardUuidMismatch",
        "AllocatedCardsInsufficientRequest",
        "CardInsufficientMemory",
    },
    "CardTenancyMismatch": {"NumaNotFit"},
    "NodeUnregistered": {"node unregistered", "NodeInsufficientDevice"},
}
"""Reasons of ours for which HAMi has other names."""


def _no_place_there(case: Case, ours: Placement, theirs: Placement) -> bool:
    return bool(ours.node) and not theirs.node


def _same_failure(case: Case, ours: Placement, theirs: Placement) -> bool:
    """Whether only the names of reasons differ: ours is the card that came nearest, HAMi lists several or others."""
    if ours.node or theirs.node or ours.error or theirs.error:
        return False
    return all(
        reason in theirs.failed.get(node, "") or bool(_SET_RULES.get(reason, set()) & theirs.reasons(node))
        for node, reason in ours.failed.items()
    )


PLACEMENTS = (
    KnownPlacement(
        "old-nvidia-registration",
        "HAMi since 2.8 reads NVIDIA's registration as JSON only; Tonnage reads the texts of older plugins too",
        lambda case, ours, theirs: (
            ours.node.startswith("old-") or any(name.startswith("old-") for name in ours.fitting)
        ),
    ),
    KnownPlacement(
        "enflame-last-slice",
        "HAMi rounds an instance's compute up and adds it up, so that six slices of 17 % do not fit on a card of six",
        lambda case, ours, theirs: case.ware == "drs" and _no_place_there(case, ours, theirs),
    ),
    KnownPlacement(
        "exceeded-quota",
        "HAMi refuses pods that request nothing of a quota that is exceeded already; they do not make it worse",
        lambda case, ours, theirs: (
            case.pod["metadata"]["namespace"] == TIGHT
            and _no_place_there(case, ours, theirs)
            and "ResourceQuotaNotFit" in str(theirs.failed)
        ),
    ),
    KnownPlacement(
        "vendors-node-score",
        "HAMi adds vendors' scores for whole nodes by the cards that a pod would get; Tonnage does so for MetaX only",
        lambda case, ours, theirs: (
            case.ware in _SCORED_BY_VENDOR and bool(ours.node and theirs.node) and ours.node != theirs.node
        ),
    ),
    KnownPlacement(
        "request-in-card-score",
        "HAMi leaves the request out of the card score where a card's type is a model name; Tonnage counts it",
        lambda case, ours, theirs: (
            case.ware in ("nvidia", "mig", "amd", "vxpu", "dcu")
            and ours.node == theirs.node != ""
            and ours.fitting == theirs.fitting
            and "device-scoring-weights" in str(case.pod["metadata"]["annotations"])
        ),
    ),
    KnownPlacement("reason-names", "a node's reason here is the one of the card that came nearest", _same_failure),
    KnownPlacement(
        "invalid-request",
        "Tonnage refuses a request that can never be served, with a sentence; HAMi passes over parts of it",
        lambda case, ours, theirs: not ours.node and "InvalidRequest" in str(ours.failed),
    ),
    KnownPlacement(
        "one-of-many-whole-nodes",
        "asked about whole nodes HAMi names one that fits, Tonnage all",
        lambda case, ours, theirs: bool(case.templates) and bool(theirs.fitting) and theirs.fitting < ours.fitting,
    ),
)

REVIEWS = (
    KnownReview(
        "status-of-a-refusal",
        "a vendor's refusal has status 422 here and 500 in HAMi, because it is no fault of the server",
        lambda pod, ours, theirs: not ours.allowed and not theirs.allowed,
    ),
    KnownReview(
        "count-without-limit",
        "a count that stands only among the requests gets its limit here; without it the API server refuses the pod",
        lambda pod, ours, theirs: (
            _without_requested_limits(pod, ours) == _without_requested_limits(pod, theirs) != ""
            and _has_requested_limits(pod, ours)
        ),
    ),
    KnownReview(
        "nonsense-is-refused",
        "a quantity that makes no sense is refused here with what to write; HAMi passes over it",
        lambda pod, ours, theirs: ours.code == 422 and theirs.allowed,
    ),
)


def _has_requested_limits(pod: dict[str, Any], review: Review) -> bool:
    """Whether everything that the pod requests has a limit after the patch."""
    containers = zip(pod["spec"]["containers"], json.loads(review.pod)["spec"]["containers"], strict=True)
    return all(
        before["resources"].get("requests", {}).keys() <= after.get("resources", {}).get("limits", {}).keys()
        for before, after in containers
    )


def _without_requested_limits(pod: dict[str, Any], review: Review) -> str:
    """The pod after the patch without limits on what it only requested; empty if it was refused."""
    if not review.allowed:
        return ""
    after = json.loads(review.pod)
    for before, container in zip(pod["spec"]["containers"], after["spec"]["containers"], strict=True):
        resources, requested = container.get("resources", {}), before["resources"].get("requests", {})
        kept = {name: limit for name, limit in resources.pop("limits", {}).items() if name not in requested}
        resources |= {"limits": kept} if kept else {}
    return json.dumps(after, sort_keys=True)

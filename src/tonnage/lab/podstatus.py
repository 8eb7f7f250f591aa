"""The status that the lab's kubelets write for a pod: that it runs, and how and when it ends.

Nothing really runs, so the pod says for how long it would: `activeDeadlineSeconds` ends it as a kubelet does, and the
annotation `tonnage.io/lab-run-seconds` lets its containers end by themselves. As with a real kubelet, a pod whose
`restartPolicy` is Always starts them again and goes on.
"""

import math
from datetime import UTC, datetime
from typing import Any, NamedTuple

RUN_SECONDS = "tonnage.io/lab-run-seconds"
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
_LONGEST = 10.0**9


class PodEnd(NamedTuple):
    """How a pod ends, and how many seconds after its start."""

    seconds: float
    phase: str
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    """What its containers exit with; by the phase if it is not given."""


def end_of(pod: dict[str, Any]) -> PodEnd | None:
    """The end of a pod; nothing if it runs until it is deleted."""
    spec, ends = pod["spec"], []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        ends.append(PodEnd(deadline, FAILED, "DeadlineExceeded", "Pod was active longer than specified deadline"))
    written = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
    if written is not None:
        seconds = _seconds(written)
        if seconds is None:
            message = f"the annotation {RUN_SECONDS} must be a number of seconds such as 30, not {written[:40]!r}"
            return PodEnd(0.0, FAILED, "InvalidAnnotation", message)
        if spec.get("restartPolicy", "Always") != "Always":
            ends.append(PodEnd(seconds, SUCCEEDED))
    return min(ends, default=None)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _LONGEST else None


def running_status(pod: dict[str, Any]) -> dict[str, Any]:
    """The status of a pod whose containers have just started."""
    now = timestamp()
    conditions = [_condition(name, True, now) for name in ("Initialized", "ContainersReady", "Ready")]
    state = {"running": {"startedAt": now}}
    containers = [_container(one, state, is_ready=True) for one in pod["spec"]["containers"]]
    return {"phase": RUNNING, "startTime": now, "conditions": conditions, "containerStatuses": containers}


def ended_status(pod: dict[str, Any], end: PodEnd) -> dict[str, Any]:
    """The status of a pod that has just ended."""
    now = timestamp()
    conditions = [_condition(name, False, now) for name in ("ContainersReady", "Ready")]
    code, reason = (0, "Completed") if end.phase == SUCCEEDED else (137, "Error")
    code = code if end.exit_code is None else end.exit_code
    state = {"running": None, "terminated": {"exitCode": code, "reason": reason, "finishedAt": now}}
    containers = [_container(one, state, is_ready=False) for one in pod["spec"]["containers"]]
    status: dict[str, Any] = {"phase": end.phase, "conditions": conditions, "containerStatuses": containers}
    said = {"reason": end.reason, "message": end.message}
    return status | {key: value for key, value in said.items() if value}


def timestamp() -> str:
    """The present time as Kubernetes writes it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _condition(name: str, is_true: bool, now: str) -> dict[str, str]:
    return {"type": name, "status": "True" if is_true else "False", "lastTransitionTime": now}


def _container(container: dict[str, Any], state: dict[str, Any], is_ready: bool) -> dict[str, Any]:
    fixed = {"image": container.get("image", ""), "imageID": "", "restartCount": 0}
    return {"name": container["name"], "ready": is_ready, "started": is_ready, "state": state, **fixed}

"""Played kubelets for the peers' tests: containers whose commands sleep and exit do so, and nothing is executed.

A command is read as far as the tests need it: `sleep`, `exit`, and words that are no program. Any other program counts
as one that ends at once with success, and a container without a command runs until its pod is deleted, unless its
image is a shell.
"""

import re
from typing import Any

from tonnage.lab.podstatus import FAILED, SUCCEEDED, PodEnd

_SLEEP = re.compile(r"sleep (\d+)([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_EXIT = re.compile(r"exit (\d+)")
_NOT_FOUND = 127
_NO_SCRIPT = 2
_SHELL_IMAGES = ("busybox",)
_FOREGROUND = re.compile(r"sshd -D|ray start .*--block|while true|tail -f")
"""Programs that stay."""


def end_of_commands(pod: dict[str, Any]) -> PodEnd | None:
    """How and when the pod's containers end; nothing if one of them runs on, or is started again."""
    ends = [_end_of(container) for container in pod["spec"]["containers"]]
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Always" or None in ends:
        return None
    seconds = max(end[0] for end in ends if end)
    code = max(end[1] for end in ends if end)
    if code == 0:
        return PodEnd(seconds, SUCCEEDED, exit_code=0)
    return PodEnd(seconds, FAILED, exit_code=code) if policy == "Never" else None


def _end_of(container: dict[str, Any]) -> tuple[float, int] | None:
    """Seconds and exit code of one container."""
    words = [*container.get("command", ()), *container.get("args", ())]
    if not words:
        is_shell = container.get("image", "").split(":")[0] in _SHELL_IMAGES
        return (0.0, 0) if is_shell else None
    script = words[-1] if "-c" in words else " ".join(words)
    seconds = 0.0
    for step in (step.strip() for step in re.split(r"&&|;|\n", script)):
        if _FOREGROUND.search(step):
            return None
        if found := _SLEEP.fullmatch(step):
            seconds += int(found[1]) * _SECONDS[found[2]]
        elif found := _EXIT.fullmatch(step):
            return seconds, int(found[1])
        elif re.fullmatch(r"[x-z]+", step):
            return seconds, _NOT_FOUND
        elif step.startswith("sh "):
            return seconds, _NO_SCRIPT
    return seconds, 0

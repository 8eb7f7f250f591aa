"""Played containers: commands that sleep and exit, and those that run on."""

from typing import Any

import pytest

from peers.kubelets import end_of_commands
from tonnage.lab.podstatus import FAILED, SUCCEEDED, PodEnd


def played(script: str | None, policy: str = "Never", image: str = "nginx:1.29") -> PodEnd | None:
    container: dict[str, Any] = {"name": "main", "image": image}
    if script is not None:
        container |= {"command": ["/bin/sh"], "args": ["-c", script]}
    return end_of_commands({"spec": {"restartPolicy": policy, "containers": [container]}})


@pytest.mark.parametrize(
    ("script", "seconds", "code"),
    [
        ("sleep 10s", 10, 0),
        ("sleep 5", 5, 0),
        ("sleep 2m", 120, 0),
        ("sleep 10s && exit 3", 10, 3),
        ("sleep 10s && xxx", 10, 127),
        ("sh fake.sh", 0, 2),
        ("echo 'at' $(date); sleep 180", 180, 0),
    ],
)
def test_a_command_ends_when_its_steps_have_ended(script: str, seconds: float, code: int) -> None:
    end = played(script)
    assert end is not None
    assert (end.seconds, end.exit_code, end.phase) == (seconds, code, FAILED if code else SUCCEEDED)


def test_a_container_that_is_started_again_goes_on() -> None:
    assert played("sleep 5", "Always") is None
    assert played("exit 1", "OnFailure") is None
    assert played("exit 0", "OnFailure") is not None


def test_an_image_runs_on_unless_it_is_a_shell() -> None:
    assert played(None) is None
    assert played(None, image="busybox") == PodEnd(0.0, SUCCEEDED, exit_code=0)
    assert played("mkdir -p /run; /usr/sbin/sshd -D;") is None
    assert played("trap exit TERM; while true; do sleep 1; done") is None


def test_a_pod_lasts_as_long_as_its_last_container() -> None:
    containers = [{"name": name, "command": ["sleep", seconds]} for name, seconds in (("a", "5"), ("b", "7"))]
    end = end_of_commands({"spec": {"restartPolicy": "Never", "containers": containers}})
    assert end is not None
    assert end.seconds == 7

"""Pods that wait for cards run as soon as there is room, with a real kube-scheduler that nobody changed.

Pods are first left alone until kube-scheduler has put them aside: from then on it would take up to five minutes.
"""

import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.extending import SCHEDULER, World, extended, wanted
from tests.e2e.proxy import HeldWire, wire_beside
from tests.e2e.quotas import QUOTAS, set_quota
from tests.scenario import node
from tests.waiting import PATIENCE, until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

log = logging.getLogger(__name__)

REQUEUED = "tonnage.io/requeued"
QUIET = 2.5
"""Far less than the five minutes after which kube-scheduler would come by itself, and much for a busy machine."""
TIMES = 3


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes, pods and quotas, which is left without them again."""
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes", QUOTAS):
        control_plane.api.delete(path)


class Waking:
    """A world whose waiting pods are watched."""

    def __init__(self, world: World, metrics: int) -> None:
        self.world = world
        self.api = world.api
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"

    def until_put_aside(self) -> None:
        """Wait until kube-scheduler has not asked for a while."""
        last, since = -1.0, time.monotonic()
        while time.monotonic() - since < QUIET:
            asked = self.counted("tonnage_filter_duration_seconds_count")
            if asked != last:
                last, since = asked, time.monotonic()
            time.sleep(0.1)

    def counted(self, name: str) -> float:
        with urllib.request.urlopen(self._metrics, timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and not line.startswith("#"))

    @property
    def writes(self) -> int:
        return int(self.counted("tonnage_requeue_writes_total"))

    def waiting(self) -> set[str]:
        pods = self.api.get(pods_path())["items"]
        return {pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")}

    def until_bound(self, *names: str) -> float:
        """Seconds until one of the pods has a node."""
        begun = time.monotonic()
        until(lambda: not self.waiting() >= set(names), "nobody is bound")
        return time.monotonic() - begun


@contextmanager
def requeue(plane: ControlPlane, wire: HeldWire | None = None) -> Iterator[Waking]:
    user = None
    if wire is not None:
        config = json.loads(plane.kubeconfig().read_text())
        config["clusters"][0]["cluster"]["server"] = wire.address
        user = plane.folder / "through-the-wire"
        user.write_text(json.dumps(config))
    (port,) = free_ports(1)
    flags = (f"--scheduler-name={SCHEDULER}", f"--metrics-bind-address=127.0.0.1:{port}")
    with extended(plane, *flags, user=user) as world:
        yield Waking(world, port)


def told(what: str, seconds: list[float], writes: int) -> None:
    log.info("%s: bound after %s s, %d writes", what, ", ".join(f"{one:.2f}" for one in sorted(seconds)), writes)


def test_a_share_that_is_freed_goes_to_a_pod_that_waits(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with requeue(plane) as now:
        plane.api.create_pods([wanted("p0", 1, memory=8000)])
        now.world.until_running("p0")
        seconds = []
        for number in range(TIMES):
            plane.api.create_pods([wanted(f"p{number + 1}", 1, memory=8000)])
            now.until_put_aside()
            plane.api.delete(f"{pods_path()}/p{number}")
            seconds.append(now.until_bound(f"p{number + 1}"))
        told("a pod is deleted", seconds, now.writes)
        now.world.check()


def test_a_share_whose_end_kube_scheduler_has_seen_first_goes_to_a_pod_that_waits(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    with wire_beside(plane.server) as wire, requeue(plane, wire) as now:
        plane.api.create_pods([wanted("p0", 1, memory=8000)])
        now.world.until_running("p0")
        seconds = []
        for number in range(TIMES):
            plane.api.create_pods([wanted(f"p{number + 1}", 1, memory=8000)])
            now.until_put_aside()
            asked = now.counted("tonnage_filter_duration_seconds_count")
            wire.hold()
            plane.api.delete(f"{pods_path()}/p{number}")
            until(
                lambda asked=asked: now.counted("tonnage_filter_duration_seconds_count") > asked,
                "kube-scheduler does not ask",
            )
            now.until_put_aside()
            assert now.waiting() == {f"p{number + 1}"}
            wire.let_go()
            seconds.append(now.until_bound(f"p{number + 1}"))
            assert REQUEUED in now.world.pod(f"p{number + 1}")["metadata"]["annotations"]
        told("the watch is late, counted from when it has caught up", seconds, now.writes)
        assert now.writes == TIMES == now.counted("tonnage_pods_requeued_total")
        now.world.check()


def test_a_quota_that_has_room_again_goes_to_a_pod_that_waits(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=4, nvidia__com__gpu=40)])
    set_quota(plane, gpumem="1000")
    with requeue(plane) as now:
        plane.api.create_pods([wanted("p0", 1, memory=1000)])
        now.world.until_running("p0")
        seconds = []
        for number in range(1, TIMES + 1):
            plane.api.create_pods([wanted(f"p{number}", 1, memory=1000)])
            now.until_put_aside()
            plane.api.patch(f"{QUOTAS}/gpus", {"spec": {"hard": {"limits.nvidia.com/gpumem": f"{number + 1}000"}}})
            seconds.append(now.until_bound(f"p{number}"))
        told("a quota is raised", seconds, now.writes)
        assert now.writes == TIMES
        now.world.check()


def test_nodes_that_come_or_are_let_in_again_go_to_pods_that_wait(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a")])
    with wire_beside(plane.server) as wire, requeue(plane, wire) as now:
        plane.api.create_pods([wanted("p", 1, memory=8000)])
        now.until_put_aside()
        wire.hold()
        plane.api.create_nodes([node("b", gpus=1, nvidia__com__gpu=10)])
        time.sleep(QUIET)
        wire.let_go()
        added = now.until_bound("p")
        plane.api.create_nodes([node("c", gpus=1, nvidia__com__gpu=10, unschedulable=True)])
        plane.api.create_pods([wanted("q", 1, memory=8000)])
        now.until_put_aside()
        plane.api.patch("/api/v1/nodes/c", {"spec": {"unschedulable": None}})
        told("a node is added, another let in", [added, now.until_bound("q")], now.writes)
        now.world.check()


def test_many_that_wait_are_not_written_to_for_one_free_share(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=4, nvidia__com__gpu=40)])
    with wire_beside(plane.server) as wire, requeue(plane, wire) as now:
        plane.api.create_pods(wanted(f"r{number}", 1, memory=8000) for number in range(4))
        now.world.until_running(*(f"r{number}" for number in range(4)))
        plane.api.create_pods(wanted(f"p{number:02}", 1, memory=8000) for number in range(40))
        now.until_put_aside()
        seconds: list[float] = []
        for number in range(4):
            wire.hold()
            plane.api.delete(f"{pods_path()}/r{number}")
            now.until_put_aside()
            waited = now.waiting()
            wire.let_go()
            seconds.append(now.until_bound(*waited))
        time.sleep(3)
        told("one of 40", seconds, now.writes)
        assert len(now.waiting()) == 36
        assert now.writes <= 6
        now.world.check()


def test_pods_that_waited_when_the_extender_was_started_anew_are_called_too(plane: ControlPlane) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    set_quota(plane, gpumem="1000")
    with requeue(plane) as now:
        plane.api.create_pods([wanted("p", 1, memory=2000)])
        now.until_put_aside()
        now.world.extender.stop()
        plane.api.delete(f"{QUOTAS}/gpus")
        now.world.extender.start()
        told("the extender is started anew", [now.until_bound("p")], now.writes)
        now.world.check()

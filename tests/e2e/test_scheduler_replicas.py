"""Two replicas of `tonnage scheduler` with a real API server and the rights that `deploy/` gives."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.batching import Scheduler, wanted
from tests.e2e.deployment import apply, leader_flags
from tests.e2e.replicating import bind_by_hand
from tests.scenario import node, plain
from tests.waiting import PATIENCE, until
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane


class Pair:
    """Both replicas, as they are deployed."""

    def __init__(self, plane: ControlPlane) -> None:
        user = plane.kubeconfig_of("tonnage", "tonnage-scheduler")
        self.api = plane.api
        logs = [plane.folder / f"scheduler-{name}.log" for name in "ab"]
        with ThreadPoolExecutor() as pool:
            self.replicas = list(pool.map(lambda log: Scheduler(user, log, *leader_flags()), logs))

    def roles(self) -> tuple[Scheduler, Scheduler]:
        """The one that leads and the one that stands by, both ready."""
        for replica in self.replicas:
            if replica.process.poll() is not None:
                replica.start()
        until(lambda: self._leading() == [0.0, 1.0], "not one of the two leads", self.logs)
        first, second = self.replicas
        return (first, second) if first.metric("tonnage_leader") else (second, first)

    def _leading(self) -> list[float]:
        return sorted(replica.metric("tonnage_leader") for replica in self.replicas)

    def node_of(self, name: str) -> str | None:
        found: str | None = self.api.get(f"{pods_path()}/{name}")["spec"].get("nodeName")
        return found

    def holder(self) -> str:
        """Who holds the Lease."""
        (lease,) = self.api.get("/apis/coordination.k8s.io/v1/namespaces/tonnage/leases")["items"]
        return str(lease["spec"].get("holderIdentity"))

    def begin_to_bind(self) -> None:
        """Pods for all but 8 of 128 GPUs, some of which are bound."""
        self.api.create_nodes([plain(f"n{number:02}", 8) for number in range(16)])
        self.api.create_pods(wanted(f"p{number:03}", 1) for number in range(120))
        until(lambda: any(self.nodes()), "nothing is bound", self.logs)

    def check_gpus(self) -> None:
        """All pods are bound, one of them with 8 GPUs and the others with one, and no GPU is given out twice."""
        until(lambda: all(self.nodes()), "pods are left", self.logs)
        gpus = Counter([*self.nodes(), *[self.node_of("late")] * 7])
        assert set(gpus.values()) == {8}
        assert len(gpus) == 16

    def nodes(self) -> list[str | None]:
        return [pod["spec"].get("nodeName") for pod in self.api.get(pods_path())["items"]]

    def logs(self) -> str:
        return "\n".join(f"{replica.log}:\n{replica.log.read_text()[-2000:]}" for replica in self.replicas)

    def until_bound(self, name: str) -> None:
        until(lambda: self.node_of(name), f"{name} is not bound", self.logs)


@pytest.fixture(scope="module")
def replicas(control_plane: ControlPlane) -> Iterator[Pair]:
    apply(control_plane, "scheduler")
    made = Pair(control_plane)
    yield made
    for replica in made.replicas:
        replica.stop()
    assert not any("orbidden" in replica.log.read_text() for replica in made.replicas)


@pytest.fixture
def pair(replicas: Pair) -> Iterator[Pair]:
    """Both replicas and no nodes and pods, which are gone again afterwards."""
    yield replicas
    for path in (pods_path(), "/api/v1/nodes"):
        replicas.api.delete(path)


def test_another_takes_over_from_one_that_is_killed_while_it_binds(pair: Pair) -> None:
    leader, standby = pair.roles()
    pair.begin_to_bind()
    killed = time.monotonic()
    leader.stop(signal.SIGKILL)
    pair.api.create_pods([wanted("late", 8)])
    pair.until_bound("late")
    print(f"killed: the next pod was bound after {time.monotonic() - killed:.1f} s")  # noqa: T201  figures
    pair.check_gpus()
    assert standby.metric("tonnage_leader") == 1


def test_another_takes_over_at_once_from_one_that_is_told_to_stop_while_it_binds(pair: Pair) -> None:
    leader, standby = pair.roles()
    assert standby.get("/readyz") == "ok", "one that stands by is ready"
    takeovers = standby.metric("tonnage_leader_acquisitions_total")
    pair.begin_to_bind()
    stopped = time.monotonic()
    holder = pair.holder()
    leader.process.terminate()
    assert leader.process.wait(PATIENCE) == 0
    assert pair.holder() != holder, "it gives the Lease up when it ends"
    pair.api.create_pods([wanted("late", 8)])
    pair.until_bound("late")
    print(f"stopped: the next pod was bound after {time.monotonic() - stopped:.1f} s")  # noqa: T201  figures
    pair.check_gpus()
    assert standby.metric("tonnage_leader_acquisitions_total") == takeovers + 1
    assert standby.metric('tonnage_informer_lists_total{kind="Pod"}') >= 2, "it knew what was before"


def test_one_that_stood_still_while_another_took_over_binds_nothing_when_it_wakes(pair: Pair) -> None:
    leader, standby = pair.roles()
    pair.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    pair.api.create_pods([wanted("first", 1, memory=3000)])
    pair.until_bound("first")
    # Its place is reserved, and its turn comes when the device plugin has answered for the first.
    pair.api.create_pods([wanted("second", 1, memory=5000)])
    until(lambda: leader.metric("tonnage_binds_in_flight") == 1, "the second pod has no place")
    leader.process.send_signal(signal.SIGSTOP)
    try:
        pair.api.patch("/api/v1/nodes/a", {"spec": {"unschedulable": True}})
        until(lambda: standby.metric("tonnage_leader") == 1, "nobody takes over", pair.logs)
        pair.api.patch(f"{pods_path()}/first", {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}})
    finally:
        leader.process.send_signal(signal.SIGCONT)
    until(lambda: leader.metric("tonnage_binds_in_flight") == 0, "the place is not given up", pair.logs)
    assert leader.metric("tonnage_leader") == 0
    time.sleep(1)
    assert pair.node_of("second") is None, "only the one that stood still would have bound it"
    assert "leads no longer" in leader.log.read_text()


def test_a_pod_that_was_bound_over_another_one_is_evicted_and_told_why(pair: Pair) -> None:
    pair.roles()
    pair.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    pair.api.create_pods(wanted(name, 1, memory=5000, scheduler="another") for name in ("p", "q"))
    bind_by_hand(pair.api, "p", 5000)
    bind_by_hand(pair.api, "q", 5000)

    def leaving() -> set[str]:
        found = pair.api.get(pods_path())["items"]
        return {"p", "q"} - {pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]}

    until(lambda: leaving() == {"q"}, "the later pod is not evicted", pair.logs)

    def told() -> list[str]:
        events = pair.api.get("/api/v1/namespaces/default/events")["items"]
        return [one["message"] for one in events if one["reason"] == "DeviceOverlap"]

    until(lambda: bool(told()), "nothing is told", pair.logs)
    assert told()[0].startswith("evicted: holds 2000 memory too many (10000 of 8000 in use) of NVIDIA card a/0 of a")

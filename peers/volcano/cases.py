"""Cases beside Volcano's suites: volumes, a leader that is killed, groups of Deployments, and who is stopped for whom.

Volcano's tests of local volumes run commands on nodes first; the same StatefulSets are asked for here, on volumes that
only exist for the API server.
"""

import time
from collections.abc import Callable
from typing import Any

from peers.cases import name_of, until
from peers.cluster import Cluster
from peers.volcano.cluster import SCHEDULER_NAME, Scheduler
from tests.e2e.provisioning import CLASSES, VOLUMES, late_class, local_volume
from tonnage.lab.program import Program

_NAMESPACE = "cases"
_CLASS = "local"
_APP = "volumes"
_CLAIMS = f"/api/v1/namespaces/{_NAMESPACE}/persistentvolumeclaims"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_SETS = f"/apis/apps/v1/namespaces/{_NAMESPACE}/statefulsets"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments"
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_IMPORTANT = "important"
_JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{_NAMESPACE}/jobs"
_WORKERS = ("integration-worker", "integration-worker2", "integration-worker3", "integration-worker4")
_WATCHED = 8.0
CASES: dict[str, Callable[["World"], None]] = {}


class World:
    """A cluster with a scheduler and a standby, with words for cases."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler) -> None:
        self.api = cluster.api
        self.cluster = cluster
        self._scheduler = scheduler
        self._replicas: list[Program] = [scheduler.start(elects=True), scheduler.start(elects=True)]
        cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}])
        self.api.create(CLASSES, late_class(_CLASS, "kubernetes.io/no-provisioner"))
        self.api.create(_PRIORITIES, {"metadata": {"name": _IMPORTANT}, "value": 1000})

    def kill_leader(self) -> None:
        """Kill the replica that has led so far, and start another."""
        self.cluster.stop_program(self._replicas.pop(0))
        self._replicas.append(self._scheduler.start(elects=True))

    def volumes(self, nodes: tuple[str, ...], count: int) -> None:
        for node in nodes:
            for number in range(count):
                self.api.create(VOLUMES, local_volume(f"{node}-{number}", node, _CLASS, "1Gi"))

    def stateful_set(self, replicas: int, claims: int, anti: bool, parallel: bool) -> None:
        """Pods that must be apart or together, each with volumes on its node."""
        labels = {"app": _APP}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {
            "podAntiAffinity" if anti else "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        names = [f"vol{number}" for number in range(claims)]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
        pod = {
            "schedulerName": SCHEDULER_NAME,
            "affinity": affinity,
            "containers": [{"name": "main", "image": "nginx", "volumeMounts": mounts}],
        }
        spec = {
            "replicas": replicas,
            "serviceName": _APP,
            "selector": {"matchLabels": labels},
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [_claim(name) for name in names],
        }
        body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": _APP}, "spec": spec}
        self.api.create(_SETS, body)

    def deployment(self, name: str, count: int, cpu: str, scheduler: str, least: int = 1) -> None:
        """A Deployment, of which Volcano's controllers make a group with that minimum if its scheduler is theirs."""
        labels = {"app": name}
        pod = {"schedulerName": scheduler, "containers": [_container(cpu)]}
        spec = {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        metadata = {"name": name, "annotations": {"scheduling.volcano.sh/group-min-member": str(least)}}
        self.api.create(
            _DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        )

    def job(self, name: str, count: int, cpu: str = "100m", *, least: int | None = None, priority: str = "") -> None:
        """A Volcano Job whose pods start together, or at least that many of them; those of no class may be stopped."""
        template = {
            "metadata": {"annotations": {} if priority else {"volcano.sh/preemptable": "true"}},
            "spec": {"restartPolicy": "Never", "containers": [_container(cpu)]},
        }
        spec = {
            "schedulerName": SCHEDULER_NAME,
            "minAvailable": count if least is None else least,
            "tasks": [{"name": "main", "replicas": count, "template": template}],
            **({"priorityClassName": priority} if priority else {}),
        }
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.api.create(_JOBS, body)

    def nodes(self) -> dict[str, str]:
        """The nodes of pods that run, by the pod's name."""
        pods = self.api.get(_PODS)["items"]
        return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if one["status"]["phase"] == "Running"}

    def running(self, prefix: str = "") -> set[str]:
        return {name for name in self.nodes() if name.startswith(prefix)}

    def until_running(self, count: int, prefix: str = "") -> None:
        until(lambda: len(self.running(prefix)) == count, f"{count} pods must run", self._seen)

    def until_claims_are_bound(self, count: int) -> None:
        def phases() -> list[str]:
            return [claim["status"]["phase"] for claim in self.api.get(_CLAIMS)["items"]]

        until(lambda: phases() == ["Bound"] * count, f"{count} claims must be bound", phases)

    def clear(self) -> None:
        """Remove what a case has left."""
        for path in (_SETS, _DEPLOYMENTS, _JOBS, _PODS, _CLAIMS):
            self.api.request("DELETE", path, {"propagationPolicy": "Background"})
        until(lambda: not self.api.get(_PODS)["items"] and not self.api.get(_CLAIMS)["items"], "pods or claims stay")
        self.api.request("DELETE", VOLUMES)
        until(lambda: not self.api.get(VOLUMES)["items"], "volumes stay")

    def _seen(self) -> object:
        pods = self.api.get(_PODS)["items"]
        said = [f"{c.get('reason')}: {c.get('message')}" for p in pods for c in p["status"].get("conditions", ())]
        return self.nodes(), said[:2]


def _container(cpu: str) -> dict[str, Any]:
    return {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}


def _claim(name: str) -> dict[str, Any]:
    spec = {
        "storageClassName": _CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Mi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def _case(function: Callable[[World], None]) -> Callable[[World], None]:
    CASES[f"cases: {name_of(function)}"] = function
    return function


def _volumes_of_a_set(world: World, claims: int, anti: bool, parallel: bool) -> None:
    world.volumes(_WORKERS, 6)
    world.stateful_set(3, claims, anti, parallel)
    world.until_running(3)
    world.until_claims_are_bound(3 * claims)
    assert len(set(world.nodes().values())) == (3 if anti else 1), world.nodes()


@_case
def a_StatefulSet_with_anti_affinity_uses_volumes_of_different_nodes(world: World) -> None:  # noqa: N802
    _volumes_of_a_set(world, 6, anti=True, parallel=False)


@_case
def a_StatefulSet_with_affinity_uses_volumes_of_one_node(world: World) -> None:  # noqa: N802
    _volumes_of_a_set(world, 2, anti=False, parallel=False)


@_case
def parallel_pods_with_anti_affinity_use_volumes_of_different_nodes(world: World) -> None:
    _volumes_of_a_set(world, 1, anti=True, parallel=True)


@_case
def parallel_pods_with_affinity_use_volumes_of_one_node(world: World) -> None:
    _volumes_of_a_set(world, 1, anti=False, parallel=True)


@_case
def a_pod_whose_volume_is_on_another_node_waits(world: World) -> None:
    world.volumes(_WORKERS[:1], 1)
    world.api.create(_CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **_claim("elsewhere")})
    spec = {
        "schedulerName": SCHEDULER_NAME,
        "nodeSelector": {"kubernetes.io/hostname": _WORKERS[1]},
        "containers": [{"name": "main", "image": "nginx"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "elsewhere"}}],
    }
    world.api.create(_PODS, {"metadata": {"name": "waits"}, "spec": spec})

    def reasons() -> list[str]:
        status = world.api.get(f"{_PODS}/waits")["status"]
        return [c.get("reason", "") for c in status.get("conditions", ()) if c["type"] == "PodScheduled"]

    until(lambda: reasons() == ["Unschedulable"], "it says that it is unschedulable", reasons)
    time.sleep(_WATCHED)
    assert not world.nodes()


@_case
def jobs_go_on_when_the_leader_is_killed(world: World) -> None:
    for number in range(5):
        world.job(f"before-{number}", 4)
    world.kill_leader()
    for number in range(5):
        world.job(f"after-{number}", 4)
    world.until_running(40)


@_case
def a_gang_that_waits_is_started_by_the_next_leader(world: World) -> None:
    world.job("full", 16, "1")
    world.until_running(16)
    world.job("waits", 8, "1")
    time.sleep(_WATCHED)
    assert len(world.nodes()) == 16
    world.kill_leader()
    time.sleep(_WATCHED)
    world.api.request("DELETE", f"{_JOBS}/full", {"propagationPolicy": "Background"})
    world.until_running(8)


@_case
def Deployments_start_no_pod_if_the_minimum_of_their_group_does_not_fit(world: World) -> None:  # noqa: N802
    """Their groups are made after their pods."""
    for number in range(3):
        world.deployment(f"large-{number}", 6, "3", SCHEDULER_NAME, least=6)
    time.sleep(_WATCHED)
    assert not world.nodes(), f"pods of gangs that do not fit run: {world.nodes()}"


@_case
def a_Deployment_starts_if_the_minimum_of_its_group_fits(world: World) -> None:  # noqa: N802
    world.deployment("web", 6, "3", SCHEDULER_NAME, least=4)
    world.until_running(4)


@_case
def pods_of_other_schedulers_stay_while_an_important_job_waits(world: World) -> None:
    world.deployment("others", 4, "3", "default-scheduler")
    world.until_running(4)
    before = world.running()
    world.job("waits", 4, "2", priority=_IMPORTANT)
    time.sleep(_WATCHED)
    assert world.running() == before


@_case
def for_an_important_job_as_many_go_as_its_minimum_needs(world: World) -> None:
    world.job("first", 16, "1", least=1)
    world.until_running(16)
    world.job("second", 12, "1", least=3, priority=_IMPORTANT)
    world.until_running(3, "second")
    time.sleep(_WATCHED)
    assert (len(world.running("first")), len(world.running("second"))) == (13, 3), world.nodes()

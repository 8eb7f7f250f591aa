"""Two replicas on one machine: each with a host name, an address and a pod of its own, as on two nodes."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.e2e.extending import Extender
from tests.server.listening import authority, signed
from tests.waiting import PATIENCE, until
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import Program, free_ports
from tonnage.lab.schedulers import extender_configuration

NAMESPACE, LEASE = "kube-system", "hami-scheduler"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DURATION = 3
TIMES = {"leaseDuration": f"{DURATION}s", "renewDeadline": "2s", "retryPeriod": "500ms"}
HOSTS = {"replica-a": "127.0.0.2", "replica-b": "127.0.0.3"}
ROLE = "hami.io/scheduler-role"
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Replica:
    """An extender, and the kube-scheduler beside it if wished."""

    def __init__(
        self,
        plane: ControlPlane,
        host: str,
        ports: tuple[int, int],
        user: Path | None = None,
        namespace: str = NAMESPACE,
        flags: Sequence[str] = (),
    ) -> None:
        self.host = host
        self._namespace, self._pods = namespace, f"/api/v1/namespaces/{namespace}/pods"
        port, peer_port = ports
        self._plane, self._port, self._user = plane, port, user
        self._within = (sys.executable, str(Path(__file__).with_name("in_pod.py")), host)
        self._create_pod()
        self.extender = Extender(
            user or plane.kubeconfig(),
            plane.folder / f"{host}.log",
            *("--leader-elect", f"--leader-elect-resource-name={LEASE}"),
            f"--leader-elect-resource-namespace={namespace}",
            *peer_flags(plane.folder, f"{HOSTS[host]}:{peer_port}"),
            *flags,
            host=HOSTS[host],
            port=port,
            within=self._within,
            environment={"POD_NAME": host, "POD_NAMESPACE": namespace},
        )
        self.scheduler: Program | None = None

    def run_scheduler(self, user: Path | None = None, **settings: Any) -> None:
        lease = {"leaderElect": True, "resourceName": LEASE, "resourceNamespace": self._namespace, **TIMES}
        asks = {**extender_configuration(self._port, host=HOSTS[self.host]), **settings}
        self.scheduler = self._plane.run_scheduler({**asks, "leaderElection": lease}, user or self._user, self._within)

    @property
    def role(self) -> str:
        labels = self._plane.api.get(f"{self._pods}/{self.host}")["metadata"].get("labels", {})
        return str(labels.get(ROLE, ""))

    def kill(self) -> None:
        """As when a machine goes down: nothing is given back."""
        self.extender.process.kill()
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler = None
        self.extender.process.wait(PATIENCE)

    def stop(self) -> None:
        self.kill()
        with suppress(ApiError):
            self._plane.api.delete(f"{self._pods}/{self.host}")

    def _create_pod(self) -> None:
        """The pod that the replica would run in."""
        self._plane.api.create(
            self._pods,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": self.host, "labels": {ROLE: "follower"}},
                "spec": {
                    # As the pod-security level `restricted` demands.
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{"name": "extender", "image": "practice", "securityContext": CONFINED}],
                    "schedulerName": "nobody",
                },
            },
        )
        address = HOSTS[self.host]
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        self._plane.api.patch(f"{self._pods}/{self.host}/status", {"status": status})


def peer_flags(folder: Path, address: str) -> list[str]:
    """With certificates that all replicas share, as the documentation has them made."""
    made = folder / "peers"
    if not made.exists():
        authority(made)
        signed(made, made)
    files = {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt"}
    return [f"--peer-bind={address}", *(f"--peer-{kind}-file={made / name}" for kind, name in files.items())]


def port_pair() -> tuple[int, int]:
    """Ports of replicas for kube-scheduler and for each other."""
    for_scheduler, for_peers = free_ports(2)
    return for_scheduler, for_peers


@contextmanager
def pair(
    plane: ControlPlane, user: Path | None = None, namespace: str = NAMESPACE
) -> Iterator[tuple[Replica, Replica]]:
    """Two extenders; kube-schedulers are started by the test, or played."""
    ports = port_pair()
    made: list[Replica] = []
    try:
        made.extend(Replica(plane, host, ports, user, namespace) for host in HOSTS)
        first, second = made
        yield first, second
    finally:
        for replica in made:
            replica.stop()


class Holder:
    """Plays the kube-schedulers' side of the Lease: one of them holds and renews it, until another does."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._transitions = -1
        self.host = ""
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def give_to(self, host: str) -> None:
        """Another one holds the Lease at once, as if the one before had given it back."""
        with self._lock:
            self.host = host
            self._transitions += 1
            self._write()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5)
        with suppress(ApiError):
            self._api.delete(f"{LEASES}/{LEASE}")
        self._api.close()

    def _renew(self) -> None:
        while not self._stopped.wait(0.4):
            with self._lock:
                if self.host:
                    self._write()

    def _write(self) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec: dict[str, Any] = {
            "holderIdentity": f"{self.host}_0a1b",
            "leaseDurationSeconds": DURATION,
            "leaseTransitions": self._transitions,
            "renewTime": now,
        }
        metadata = {"name": LEASE, "namespace": NAMESPACE}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            self._api.patch(f"{LEASES}/{LEASE}", body)
        except ApiError:
            self._api.create(LEASES, body)


@contextmanager
def holding(plane: ControlPlane) -> Iterator[Holder]:
    holder = Holder(Api(plane.server, plane.token, str(plane.authority)))
    try:
        yield holder
    finally:
        holder.stop()


def until_leading(replica: Replica) -> float:
    """Wait until a replica says that it leads; how long that took."""
    started = time.monotonic()
    until(lambda: replica.role == "leader", f"{replica.host} does not lead", replica.extender.log.read_text)
    return time.monotonic() - started


def logs(replicas: Sequence[Replica]) -> str:
    return "\n".join(f"== {one.host}\n{one.extender.log.read_text()[-3000:]}" for one in replicas)


def bind_by_hand(api: Api, name: str, memory: int, on: str = "a") -> None:
    """The write of a replica that did not know of the other pod, as it arrives too late."""
    annotations = {
        "hami.io/vgpu-devices-allocated": f"{on}/0,NVIDIA,{memory},0:;",
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": str(int(time.time())),
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"kind": "Node", "name": on},
    }
    api.create(f"{pods_path()}/{name}/binding", binding)

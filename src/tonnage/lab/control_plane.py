"""The lab's control plane: etcd and kube-apiserver on free loopback ports, in a folder of their own.

None of it outlives the process that started it, except the folder with the logs if that process is killed.
"""

import http.client
import json
import secrets
import shutil
import tempfile
from base64 import encodebytes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tonnage.lab import parts
from tonnage.lab.api import Api, ApiError
from tonnage.lab.program import HOST, LabError, Program, answers, free_ports

ADMIN = "admin"
PATIENCE = 60.0
"""Seconds that a program has to become ready."""
_ATTEMPTS = 3
"""Another process may take a port between `free_ports` and the program's listening on it."""


class ControlPlane:
    """A running API server with its etcd; a context manager that stops both."""

    def __init__(
        self,
        keep: Path | None = None,
        programs: Path | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._programs = programs or parts.find()
        """The folder with the Kubernetes programs; by default the ones that were built here."""
        self._keep = keep
        self._tell = tell
        """Called with what is being started."""
        self.folder = keep or Path(tempfile.mkdtemp(prefix="tonnage-lab-"))
        self.running: list[Program] = []
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start(attempt)
                return
            except LabError:
                # The folder stays, because the error names a log in it.
                self._stop_programs()
                if attempt == _ATTEMPTS or not self._port_was_taken():
                    raise
            except BaseException:
                self.stop()
                raise

    def __enter__(self) -> "ControlPlane":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all programs and remove the folder, unless the caller gave it."""
        self._stop_programs()
        self.api.close()
        if self._keep is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def check(self) -> None:
        """LabError if a program has exited."""
        for program in self.running:
            program.check()

    # -- access

    def kubeconfig(self, user: str = ADMIN, token: str | None = None) -> Path:
        """A kubeconfig file for a user with that token, by default the administrator."""
        named = {
            "clusters": {"cluster": {"server": self.server, "certificate-authority": str(self.authority)}},
            "users": {"user": {"token": token or self.token}},
            "contexts": {"context": {"cluster": "lab", "user": "lab"}},
        }
        config = {name: [{"name": "lab", **content}] for name, content in named.items()}
        content = {"apiVersion": "v1", "kind": "Config", "current-context": "lab", **config}
        return self._secret(f"{user}.kubeconfig", json.dumps(content, indent=2))

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig file for a service account, which must exist."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        answer = self.api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        return self.kubeconfig(f"{namespace}-{service_account}", answer["status"]["token"])

    # -- starting

    def _start(self, attempt: int) -> None:
        """Start etcd and the API server on free ports."""
        self.database, peers, self._port = free_ports(3)
        """The port of etcd."""
        self.server = f"https://{HOST}:{self._port}"
        self.token = secrets.token_urlsafe(24)
        self.authority = self.folder / "certificates" / "apiserver.crt"
        self.api = Api(self.server, self.token, str(self.authority))
        self._secret("service-accounts.pem", _elliptic_key())
        self._secret("tokens.csv", f'{self.token},{ADMIN},{ADMIN},"system:masters"\n')
        database = self._run(
            "etcd",
            {
                "data-dir": self.folder / f"etcd-{attempt}",
                "listen-client-urls": f"http://{HOST}:{self.database}",
                "advertise-client-urls": f"http://{HOST}:{self.database}",
                "listen-peer-urls": f"http://{HOST}:{peers}",
                "initial-advertise-peer-urls": f"http://{HOST}:{peers}",
                "initial-cluster": f"default=http://{HOST}:{peers}",
                "log-level": "warn",
                "unsafe-no-fsync": "true",
            },
        )
        database.wait_until(lambda: answers(self.database, "/health"), "not healthy", PATIENCE)
        self.start_server()

    def start_server(self) -> None:
        """Start the API server on the etcd that runs; returns when it is ready."""
        self.api.close()
        keys = self.folder / "service-accounts.pem"
        self.api_server = self._run(
            "kube-apiserver",
            {
                "etcd-servers": f"http://{HOST}:{self.database}",
                "secure-port": self._port,
                "bind-address": HOST,
                "cert-dir": self.authority.parent,
                "service-account-issuer": self.server,
                "service-account-key-file": keys,
                "service-account-signing-key-file": keys,
                "token-auth-file": self.folder / "tokens.csv",
                "authorization-mode": "RBAC",
                "service-cluster-ip-range": "10.0.0.0/24",
                # No controller here removes the not-ready taint of a new node or creates service accounts.
                "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            },
        )
        self.api_server.wait_until(self.authority.is_file, "no certificate", PATIENCE)
        self.api_server.wait_until(self._is_ready, "not ready", PATIENCE)

    def run_scheduler(
        self,
        configuration: Mapping[str, Any] | None = None,
        user: Path | None = None,
        within: Sequence[str] = (),
    ) -> Program:
        """Start kube-scheduler with this configuration (KubeSchedulerConfiguration v1), as that user.

        `within` is a command to run it under, if any.
        """
        (port,) = free_ports(1)
        kubeconfig = user or self.kubeconfig()
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **(configuration or {}),
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        }
        file = self.folder / f"scheduler-{port}.json"
        file.write_text(json.dumps(content, indent=2))
        scheduler = self._run(
            "kube-scheduler",
            {
                "config": file,
                "secure-port": port,
                "bind-address": HOST,
                "cert-dir": self.folder / f"scheduler-{port}",
                "authentication-kubeconfig": kubeconfig,
                "authorization-kubeconfig": kubeconfig,
            },
            within,
        )
        scheduler.wait_until(lambda: answers(port, "/healthz", secure=True), "not healthy", PATIENCE)
        return scheduler

    def _run(self, program: str, flags: Mapping[str, object], within: Sequence[str] = ()) -> Program:
        command = [*within, str(self._programs / program), *(f"--{name}={value}" for name, value in flags.items())]
        return self.start(Path(command[0]).name, command, self.folder / f"{program}.log")

    def start(self, name: str, command: Sequence[str], log: Path) -> Program:
        """Start a program that ends with the control plane."""
        self._tell(f"starting {name}")
        started = Program(list(command), log, name)
        self.running.append(started)
        return started

    def _secret(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(content)
        return path

    def _is_ready(self) -> bool:
        try:
            self.api.get("/readyz")
            self.api.get("/api/v1/namespaces/default")
        except (ApiError, OSError, http.client.HTTPException):
            return False
        return True

    def _stop_programs(self) -> None:
        while self.running:
            self.running.pop().stop()

    def _port_was_taken(self) -> bool:
        return any("address already in use" in log.read_text(errors="replace") for log in self.folder.glob("*.log"))


def _elliptic_key() -> str:
    """A new private key on the curve P-256, in PEM; readers compute the public key from it."""
    secret = (secrets.randbelow(2**255) + 1).to_bytes(32, "big")
    curve = bytes.fromhex("06082a8648ce3d030107")
    content = b"\x02\x01\x01" + b"\x04\x20" + secret + b"\xa0" + bytes([len(curve)]) + curve
    body = encodebytes(b"\x30" + bytes([len(content)]) + content).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"

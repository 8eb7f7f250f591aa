"""The pods of `deploy/` as deployed: command lines, configuration, tokens, probes, a read-only file system.

Only addresses and the places of files differ from what the manifests say.
"""

import http.client
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import pytest

from tests.e2e.certificates import documented
from tests.e2e.deployment import apply, containers_of, objects, pod_of, within
from tests.scenario import node, pod
from tests.server.listening import needs_openssl
from tests.waiting import until
from tonnage.lab import parts
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import playing
from tonnage.lab.program import Program, free_ports

NAME = "replica-0"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
SECRETS = {"tls": {"tls.crt": "tls.crt", "tls.key": "tls.key"}}
SECRETS |= {"peers": {"tls.crt": "peer.crt", "tls.key": "peer.key", "ca.crt": "ca.crt"}}
"""The files of each Secret, by the names that docs/extender.md gives them, and of which files they are made."""

pytestmark = needs_openssl


class DeployedPod:
    """The containers of a server's pod as processes, with their volumes as folders."""

    def __init__(self, plane: ControlPlane, server: str, folder: Path) -> None:
        self._plane, self._server, self._folder = plane, server, folder
        self.ports = dict(zip(("https", "peers", "metrics", "http", "kube-scheduler"), free_ports(5), strict=True))
        self._moved = {
            "/tls/": f"{folder}/tls/",
            "/peers/": f"{folder}/peers/",
            "/devices/": f"{folder}/",
            "/config/": f"{folder}/",
            "0.0.0.0:8443": f"127.0.0.1:{self.ports['https']}",
            "0.0.0.0:8444": f"127.0.0.1:{self.ports['peers']}",
            ":9395": f"127.0.0.1:{self.ports['metrics']}",
            ":8080": f"127.0.0.1:{self.ports['http']}",
        }
        self.running: list[Program] = []

    def create(self) -> None:
        """Create the pod, which its processes may label, and write the files of its volumes."""
        made = pod_of(self._server)
        made["metadata"] |= {"name": NAME}
        self._plane.api.create(pods_path("tonnage"), made)
        documented(self._folder)
        for secret, files in SECRETS.items():
            (self._folder / secret).mkdir()
            for name, source in files.items():
                copy(self._folder / source, self._folder / secret / name)
        for thing in objects(self._server):
            for name, text in thing.get("data", {}).items():
                (self._folder / name).write_text(text.replace("127.0.0.1:8443", f"127.0.0.1:{self.ports['https']}"))

    def start(self) -> None:
        tonnage = [sys.executable, "-m", "tonnage.cli.main"]
        for name, container in containers_of(self._server).items():
            if "args" in container:
                command = [*tonnage, *self._moved_to(container["args"])]
            else:
                program, *arguments = self._moved_to(container["command"])
                place = ["--bind-address=127.0.0.1", f"--secure-port={self.ports[name]}"]
                command = [str(parts.find() / program), *arguments, *place]
            prefix = within(self._plane, self._server, name, NAME)
            self.running.append(Program([*prefix, *command], self._folder / f"{name}.log"))

    def _moved_to(self, arguments: list[str]) -> list[str]:
        """A part of a command line, with other places."""
        found: list[str] = []
        for argument in arguments:
            flag, _, value = argument.partition("=")
            place = next((place for place in self._moved if value.startswith(place)), "")
            found.append(f"{flag}={value.replace(place, self._moved[place])}" if place else argument)
        return found

    def until_ready(self) -> None:
        """Wait until all probes of all containers succeed."""
        for name, container in containers_of(self._server).items():
            for probe in PROBES:
                url = self._url(container[probe]["httpGet"])
                until(lambda url=url: self._answers(url), f"{probe} of {name} fails", self.logs)

    def _answers(self, url: str) -> bool:
        """Whether a probe succeeds; LabError if a container has ended."""
        for program in self.running:
            program.check()
        return answers(url)

    def _url(self, asked: dict[str, str]) -> str:
        return f"{asked.get('scheme', 'HTTP').lower()}://127.0.0.1:{self.ports[asked['port']]}{asked['path']}"

    def logs(self) -> str:
        return "\n".join(log.read_text() for log in self._folder.glob("*.log"))


def answers(url: str) -> bool:
    """Whether a probe succeeds; like a kubelet, it checks no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, context=context) as answer:
            return bool(answer.status == http.client.OK)
    except OSError:
        return False


@contextmanager
def deployed(plane: ControlPlane, server: str, folder: Path) -> Iterator[DeployedPod]:
    apply(plane, server, *RIGHTS)
    plane.api.create_nodes([node("a", gpus=2, nvidia__com__gpu=20)])
    replica = DeployedPod(plane, server, folder)
    replica.create()
    replica.start()
    try:
        with playing(plane):
            replica.until_ready()
            yield replica
    finally:
        for program in replica.running:
            program.stop()


@pytest.mark.parametrize(("server", "scheduler"), [("extender", "hami-scheduler"), ("scheduler", "tonnage")])
def test_the_pod_becomes_ready_and_places_pods(
    fresh_control_plane: ControlPlane, tmp_path: Path, server: str, scheduler: str
) -> None:
    api = fresh_control_plane.api
    with deployed(fresh_control_plane, server, tmp_path) as replica:
        made = pod_manifest(pod("placed", 1, memory=1000))
        made["spec"]["schedulerName"] = scheduler
        api.create(pods_path(), made)

        until(lambda: "nodeName" in api.get(f"{pods_path()}/placed")["spec"], "the pod is not placed", replica.logs)
        selected = {"labelSelector": "hami.io/vgpu-node=a"}
        until(lambda: api.get(pods_path(), **selected)["items"], "the label is missing", replica.logs)
        assert "orbidden" not in replica.logs()

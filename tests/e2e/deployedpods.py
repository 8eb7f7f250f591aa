"""Pods of an installation as processes: command lines, configuration, tokens, probes, a read-only file system.

Only addresses and the places of files differ from what the objects say.
"""

import http.client
import os
import signal
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.certificates import documented
from tests.e2e.deployment import Server, containers_of, objects, pod_of, within
from tests.waiting import until
from tonnage.lab import parts
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import Program, free_ports

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_SECRETS = {"tonnage-tls": {"tls.crt": "tls.crt", "tls.key": "tls.key"}}
_SECRETS |= {"tonnage-peers": {"tls.crt": "peer.crt", "tls.key": "peer.key", "ca.crt": "ca.crt"}}
"""The files of each Secret that somebody makes by docs/install.md, and the names that they have there."""


class DeployedPod:
    """The containers of a server's pod as processes, with their volumes as folders."""

    def __init__(
        self,
        plane: ControlPlane,
        server: Server,
        folder: Path,
        name: str = "replica-0",
        *,
        certificates: Path | None = None,
        code: Path | None = None,
    ) -> None:
        """Certificates of one's own are made unless a folder has them; the code may be that of another version."""
        folder.mkdir(exist_ok=True)
        self._certificates, self._code = certificates or folder / "certificates", code
        self._plane, self._server, self._folder, self.name = plane, server, folder, name
        self.ports = dict(zip(("https", "peers", "metrics", "http", "kube-scheduler"), free_ports(5), strict=True))
        self._moved = {
            "0.0.0.0:8443": f"127.0.0.1:{self.ports['https']}",
            "0.0.0.0:8444": f"127.0.0.1:{self.ports['peers']}",
            ":9395": f"127.0.0.1:{self.ports['metrics']}",
            ":8080": f"127.0.0.1:{self.ports['http']}",
        }
        for container in containers_of(server).values():
            for mount in container.get("volumeMounts", ()):
                self._moved[f"{mount['mountPath']}/"] = f"{folder}/{mount['name']}/"
        self.running: list[Program] = []

    def create(self) -> None:
        """Create the pod, which its processes may label, and write the files of its volumes."""
        made = pod_of(self._server)
        made["metadata"] |= {"name": self.name}
        self._plane.api.create(pods_path("tonnage"), made)
        for volume in made["spec"].get("volumes", ()):
            place = self._folder / volume["name"]
            place.mkdir()
            for name, text in self._files(volume).items():
                (place / name).write_text(text.replace("127.0.0.1:8443", f"127.0.0.1:{self.ports['https']}"))

    def _files(self, volume: dict[str, Any]) -> dict[str, str]:
        if "configMap" in volume:
            named = volume["configMap"]["name"]
            (found,) = [
                thing
                for thing in objects(self._server)
                if thing["kind"] == "ConfigMap" and thing["metadata"]["name"] == named
            ]
            return dict(found["data"])
        files = _SECRETS.get(volume.get("secret", {}).get("secretName", ""), {})
        if files:
            made = self._certificates
            if not made.is_dir():
                made.mkdir()
                documented(made)
            return {name: (made / source).read_text() for name, source in files.items()}
        return {}

    def start(self) -> None:
        tonnage = [sys.executable, "-m", "tonnage.cli.main"]
        for name, container in containers_of(self._server).items():
            if "args" in container:
                command = [*tonnage, *self._moved_to(container["args"])]
            else:
                program, *arguments = self._moved_to(container["command"])
                place = ["--bind-address=127.0.0.1", f"--secure-port={self.ports[name]}"]
                command = [str(parts.find() / program), *arguments, *place]
            prefix = within(self._plane, self._server, name, self.name, self._writable(container))
            if self._code is not None:
                program, *arguments = prefix
                prefix = [program, f"PYTHONPATH={self._code}", *arguments]
            self.running.append(Program([*prefix, *command], self._folder / f"{name}.log"))

    def _writable(self, container: dict[str, Any]) -> list[Path]:
        """The folders of a container that it may write."""
        empty = {volume["name"] for volume in pod_of(self._server)["spec"].get("volumes", ()) if "emptyDir" in volume}
        return [self._folder / mount["name"] for mount in container.get("volumeMounts", ()) if mount["name"] in empty]

    def stop(self) -> None:
        for program in self.running:
            program.stop()
        self.running = []

    def end(self) -> None:
        """End as a deleted pod does: all containers get a signal at once and finish what they do."""
        for program in self.running:
            os.kill(program.pid, signal.SIGTERM)
        for program in self.running:
            until(lambda one=program: not one.is_running, f"{program.name} does not end", self.logs)
        self.running = []

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
